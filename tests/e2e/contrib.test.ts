/** What lies in contrib/: well formed, and about metrics and options that there are. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { collectCommand } from "../../src/cli/collect.ts";
import { observeCommand } from "../../src/cli/observe.ts";
import { serverOptions } from "../../src/server/config/collector-options.ts";
import { parseConfig } from "../../src/server/config/read-config.ts";
import { ROOT } from "../support/demo-captures.ts";

const read = (name: string) => readFileSync(join(ROOT, "contrib", name), "utf8");
const metrics = new Set(
  readFileSync(join(ROOT, "src/server/metrics.ts"), "utf8")
    .match(/"hoptime_[a-z_]+"/g)
    ?.map((m) => m.slice(1, -1)),
);

function expectMetrics(expressions: readonly string[]): void {
  expect(expressions.length).toBeGreaterThan(5);
  for (const expression of expressions) {
    const named = expression.match(/hoptime_[a-z_]+/g) ?? [];
    expect(named.length, expression).toBeGreaterThan(0);
    for (const name of named) expect(metrics, expression).toContain(name);
  }
}

it("the dashboard asks for metrics that there are, and its panels do not overlap", () => {
  const { panels } = JSON.parse(read("grafana/hoptime.json")) as {
    panels: { gridPos: { x: number; y: number }; targets: { expr: string }[] }[];
  };
  expectMetrics(panels.flatMap((p) => p.targets.map((t) => t.expr)));
  expect(new Set(panels.map((p) => `${p.gridPos.x},${p.gridPos.y}`)).size).toBe(panels.length);
});

it("the rules ask for metrics that there are, and say what is wrong", () => {
  const { groups } = parse(read("prometheus/hoptime.rules.yml")) as {
    groups: { rules: { alert: string; expr: string; labels: object; annotations: { summary: string } }[] }[];
  };
  const rules = groups.flatMap((g) => g.rules);
  expectMetrics(rules.map((r) => r.expr));
  expect(new Set(rules.map((r) => r.alert)).size).toBe(rules.length);
  for (const rule of rules) expect(rule.annotations.summary.length).toBeGreaterThan(10);
});

it("the settings are valid", () => {
  const settings = parseConfig(read("hoptime.yaml"), "contrib/hoptime.yaml");
  expect(serverOptions(settings).network?.paths).toHaveLength(1);
});

it("the units start commands with options that there are", () => {
  const commands = { collect: collectCommand(), observe: observeCommand() };
  for (const name of readdirSync(join(ROOT, "contrib/systemd"))) {
    const [, command = "", rest = ""] =
      /^ExecStart=\/usr\/bin\/env hoptime (\w+) (.*)$/m.exec(read(`systemd/${name}`)) ?? [];
    const known = commands[command as keyof typeof commands];
    expect(known, name).toBeDefined();
    for (const flag of rest.match(/--[a-z-]+/g) ?? [])
      expect(
        known.options.map((o) => o.long),
        name,
      ).toContain(flag);
  }
});

it("systemd takes the units, where there is one to ask", () => {
  try {
    execFileSync("systemd-analyze", ["--version"], { stdio: "ignore" });
  } catch {
    return;
  }
  const folder = mkdtempSync(join(tmpdir(), "hoptime-units-"));
  for (const name of readdirSync(join(ROOT, "contrib/systemd"))) {
    const path = join(folder, name.replace("@.", "@eth1."));
    writeFileSync(path, read(`systemd/${name}`));
    execFileSync("systemd-analyze", ["verify", "--man=no", path], { stdio: "pipe" });
  }
  rmSync(folder, { recursive: true, force: true });
});

it("the cluster's services know each other, and start commands with options that there are", () => {
  const file = parse(read("cluster/docker-compose.yaml"), { merge: true }) as {
    services: Record<
      string,
      { command?: string[]; volumes?: string[]; depends_on?: string[]; image: string; networks: string[] }
    >;
    volumes: Record<string, unknown>;
    networks: Record<string, unknown>;
  };
  const flags = new Set(collectCommand().options.map((o) => o.long));
  const services = Object.entries(file.services);
  const workers = services.filter(([, s]) => s.image === "hoptime");
  expect([services.length, workers.length]).toEqual([6, 2]);
  for (const [name, { command = [], volumes = [], depends_on = [], networks }] of services) {
    for (const volume of volumes) expect(Object.keys(file.volumes), name).toContain(volume.split(":")[0]);
    for (const other of depends_on) expect(Object.keys(file.services), name).toContain(other);
    for (const network of networks) expect(Object.keys(file.networks), name).toContain(network);
    const hosts = command.join(" ").match(/(?<=[/@,])[a-z]+(-\d)?(?=:\d)/g) ?? [];
    for (const host of hosts) expect(Object.keys(file.services), `${name}: ${host}`).toContain(host);
  }
  for (const [name, { command = [] }] of workers) {
    expect(command[0], name).toBe("collect");
    for (const flag of command.filter((c) => c.startsWith("--"))) expect(flags, name).toContain(flag);
    expect(command, name).toContain("nats://nats-1:4222,nats-2:4222,nats-3:4222");
  }
});

interface Manifest {
  kind: string;
  metadata: { name: string; namespace: string };
  spec: {
    replicas?: number;
    serviceName?: string;
    selector: Record<string, string> & { matchLabels?: Record<string, string> };
    ports?: { port: number }[];
    template?: {
      metadata: { labels: Record<string, string> };
      spec: {
        containers: {
          image: string;
          args?: string[];
          volumeMounts: { name: string }[];
          ports?: { containerPort: number }[];
        }[];
        volumes?: { name: string }[];
      };
    };
    volumeClaimTemplates?: { metadata: { name: string } }[];
  };
}

it("the manifests select their own pods, mount what they claim, and start commands with options that there are", () => {
  const manifests = parseAllDocuments(read("cluster/kubernetes.yaml")).map((document) => {
    expect(document.errors).toEqual([]);
    return document.toJS() as Manifest;
  });
  const services = manifests.filter((m) => m.kind === "Service");
  const sets = manifests.filter((m) => m.kind !== "Service");
  expect([services.length, sets.length]).toEqual([3, 4]);
  const commands = { collect: collectCommand(), observe: observeCommand() };
  for (const { kind, metadata, spec } of sets) {
    const { labels } = spec.template?.metadata ?? { labels: {} };
    expect(spec.selector.matchLabels, metadata.name).toEqual(labels);
    if (kind === "StatefulSet") {
      const service = services.find((s) => s.metadata.name === spec.serviceName);
      expect(service?.spec.selector, metadata.name).toEqual(labels);
    }
    const held = [
      ...(spec.volumeClaimTemplates ?? []).map((v) => v.metadata.name),
      ...(spec.template?.spec.volumes ?? []).map((v) => v.name),
    ];
    for (const { image, args = [], volumeMounts } of spec.template?.spec.containers ?? []) {
      expect(
        volumeMounts.map((v) => v.name),
        metadata.name,
      ).toEqual(held);
      // Hosts are services, or pods of one: nats-0.nats.
      for (const [, pod, host = ""] of args.join(" ").matchAll(/(?<=[/@,])([a-z]+-\d+\.)?([a-z]+)(?=:\d)/g)) {
        const service = services.find((s) => s.metadata.name === host);
        expect(service, `${metadata.name}: ${host}`).toBeDefined();
        const number = Number(pod?.match(/\d+/)?.[0] ?? 0);
        expect(number).toBeLessThan(sets.find((s) => s.spec.serviceName === host)?.spec.replicas ?? 0);
      }
      if (image !== "hoptime") continue;
      const known = commands[args[0] as keyof typeof commands];
      const flags = known.options.map((o) => o.long);
      for (const flag of args.filter((a) => a.startsWith("--"))) expect(flags, metadata.name).toContain(flag);
    }
  }
  expect(new Set(manifests.map((m) => m.metadata.namespace))).toEqual(new Set(["hoptime"]));
});
