/**
 * contrib/cluster/: docker-compose and Kubernetes. There is no registry and no cluster here, so the files are checked, and their command lines are run: three
 * NATS servers, a worker and ClickHouse, if installed, become ready according to the files' probes.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { collectCommand } from "../../src/cli/collect.ts";
import { observeCommand } from "../../src/cli/observe.ts";
import { CLICKHOUSE_SERVER, ClickhouseServer, freePorts } from "../support/clickhouse-server.ts";
import { ROOT } from "../support/demo-captures.ts";
import { NO_NATS } from "../support/nats-servers.ts";

const read = (name: string) => readFileSync(join(ROOT, "contrib/cluster", name), "utf8");
const FLAGS = { collect: flagsOf(collectCommand()), observe: flagsOf(observeCommand()) };
const TOKEN = "a-token-of-the-test";
const PASSWORD = "a-password";

function flagsOf({ options }: { options: readonly { long?: string | undefined }[] }): unknown[] {
  return options.map((o) => o.long);
}

interface Service {
  image: string;
  build?: { context: string; dockerfile: string };
  command?: string[];
  volumes?: string[];
  depends_on?: Record<string, { condition: string }>;
  healthcheck: { test: string[] };
  networks: string[];
  secrets?: string[];
}

interface Compose {
  services: Record<string, Service>;
  volumes: Record<string, unknown>;
  networks: Record<string, unknown>;
  secrets: Record<string, { environment: string }>;
}

const compose = () => parse(read("docker-compose.yaml"), { merge: true }) as Compose;

it("the cluster's services know each other, wait for each other's health, and start commands with options that there are", () => {
  const file = compose();
  const services = Object.entries(file.services);
  const workers = services.filter(([, s]) => s.image === "hoptime");
  expect([services.length, workers.length]).toEqual([6, 2]);
  for (const [name, service] of services) {
    const { command = [], volumes = [], depends_on = {}, networks, secrets = [] } = service;
    for (const volume of volumes) expect(Object.keys(file.volumes), name).toContain(volume.split(":")[0]);
    for (const [other, { condition }] of Object.entries(depends_on)) {
      expect(Object.keys(file.services), name).toContain(other);
      expect(condition, name).toBe("service_healthy");
    }
    for (const network of networks) expect(Object.keys(file.networks), name).toContain(network);
    for (const secret of secrets) expect(Object.keys(file.secrets), name).toContain(secret);
    expect(service.healthcheck.test[0], name).toBe("CMD");
    const hosts = command.join(" ").match(/(?<=[/@,])[a-z]+(-\d)?(?=:\d)/g) ?? [];
    for (const host of hosts) expect(Object.keys(file.services), `${name}: ${host}`).toContain(host);
  }
  for (const [name, { command = [], depends_on }] of workers) {
    expect(command[0], name).toBe("collect");
    for (const flag of command.filter((c) => c.startsWith("--"))) expect(FLAGS.collect, name).toContain(flag);
    expect(command, name).toContain("nats://nats-1:4222,nats-2:4222,nats-3:4222");
    expect(Object.keys(depends_on ?? {}), name).toHaveLength(4);
  }
});

it("the image is made of the package and all that it asks for, and has the user and the folder of the manifests", () => {
  const dockerfile = read("Dockerfile");
  const { peerDependencies, engines, bin } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    peerDependencies: Record<string, string>;
    engines: { node: string };
    bin: Record<string, string>;
  };
  const installed = /npm install --global \S+\.tgz (.*?) \\/.exec(dockerfile)?.[1]?.split(" ") ?? [];
  expect(installed.sort()).toEqual(Object.entries(peerDependencies).map(([name, v]) => `${name}@${v}`));
  for (const [, major] of dockerfile.matchAll(/^FROM node:(\d+)/gm)) expect(engines.node).toContain(major);
  expect(Object.keys(bin)).toContain(/^ENTRYPOINT \["(.*)"\]/m.exec(dockerfile)?.[1]);
  const user = Number(/^USER (\d+):\1$/m.exec(dockerfile)?.[1]);
  expect(dockerfile).toContain(`install --directory --owner=${user} --group=${user} /var/lib/hoptime`);
  const ofWorker = manifests().find((m) => isSet(m) && m.metadata.name === "worker");
  expect(ofWorker?.spec.template?.spec).toMatchObject({
    securityContext: { runAsUser: user, runAsGroup: user, fsGroup: user },
  });
  const worker = compose().services["worker-1"];
  expect(worker).toMatchObject({ image: "hoptime", volumes: ["worker-1:/var/lib/hoptime"] });
  expect(worker?.build).toEqual({ context: "../..", dockerfile: "contrib/cluster/Dockerfile" });
  // The permissions of a tap have an effect only for root.
  const tap = manifests().find((m) => m.kind === "DaemonSet")?.spec.template?.spec.containers[0];
  expect(tap?.securityContext).toMatchObject({
    runAsUser: 0,
    capabilities: { drop: ["ALL"], add: ["NET_RAW"] },
  });
});

interface Probe {
  httpGet: { path: string; port: string };
  timeoutSeconds?: number;
}

interface Container {
  image: string;
  args?: string[];
  securityContext?: object;
  volumeMounts: { name: string }[];
  ports?: { name: string; containerPort: number }[];
  resources: { requests: { cpu: string; memory: string }; limits: { memory: string } };
  startupProbe?: Probe;
  readinessProbe?: Probe;
  livenessProbe?: Probe;
}

interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace: string };
  spec: {
    replicas?: number;
    serviceName?: string;
    clusterIP?: string;
    publishNotReadyAddresses?: boolean;
    maxUnavailable?: number;
    selector: Record<string, string> & { matchLabels?: Record<string, string> };
    podSelector?: { matchLabels: Record<string, string> };
    ingress?: { ports: { port: number }[] }[];
    ports?: { port: number }[];
    template?: {
      metadata: { labels: Record<string, string> };
      spec: {
        containers: Container[];
        volumes?: { name: string }[];
        topologySpreadConstraints?: { labelSelector: { matchLabels: Record<string, string> } }[];
      };
    };
    volumeClaimTemplates?: {
      metadata: { name: string };
      spec: { resources: { requests: { storage: string } } };
    }[];
  };
}

function manifests(): Manifest[] {
  return parseAllDocuments(read("kubernetes.yaml")).map((document) => {
    expect(document.errors).toEqual([]);
    return document.toJS() as Manifest;
  });
}

const VERSIONS: Record<string, string> = {
  ...{ Service: "v1", StatefulSet: "apps/v1", DaemonSet: "apps/v1" },
  ...{ PodDisruptionBudget: "policy/v1", NetworkPolicy: "networking.k8s.io/v1" },
};
const isSet = ({ kind }: Manifest) => kind === "StatefulSet" || kind === "DaemonSet";

it("the manifests select their own pods, mount what they claim, and start commands with options that there are", () => {
  const all = manifests();
  for (const { apiVersion, kind, metadata } of all) {
    expect(apiVersion, kind).toBe(VERSIONS[kind]);
    expect(metadata.namespace).toBe("hoptime");
  }
  const services = all.filter((m) => m.kind === "Service");
  const sets = all.filter(isSet);
  expect([services.length, sets.length]).toEqual([3, 4]);
  for (const { kind, metadata, spec } of sets) {
    const { labels } = spec.template?.metadata ?? { labels: {} };
    expect(spec.selector.matchLabels, metadata.name).toEqual(labels);
    if (kind === "StatefulSet") {
      const service = services.find((s) => s.metadata.name === spec.serviceName);
      expect(service?.spec.selector, metadata.name).toEqual(labels);
    }
    for (const spread of spec.template?.spec.topologySpreadConstraints ?? [])
      expect(spread.labelSelector.matchLabels, metadata.name).toEqual(labels);
    const held = [
      ...(spec.volumeClaimTemplates ?? []).map((v) => v.metadata.name),
      ...(spec.template?.spec.volumes ?? []).map((v) => v.name),
    ];
    for (const { image, args = [], volumeMounts } of spec.template?.spec.containers ?? []) {
      expect(
        volumeMounts.map((v) => v.name),
        metadata.name,
      ).toEqual(held);
      for (const [, pod, host = ""] of args.join(" ").matchAll(/(?<=[/@,])([a-z]+-\d+\.)?([a-z]+)(?=:\d)/g)) {
        const service = services.find((s) => s.metadata.name === host);
        expect(service, `${metadata.name}: ${host}`).toBeDefined();
        const number = Number(pod?.match(/\d+/)?.[0] ?? 0);
        expect(number).toBeLessThan(sets.find((s) => s.spec.serviceName === host)?.spec.replicas ?? 0);
      }
      if (image !== "hoptime") continue;
      const known = FLAGS[args[0] as keyof typeof FLAGS];
      for (const flag of args.filter((a) => a.startsWith("--"))) expect(known, metadata.name).toContain(flag);
    }
  }
});

it("the manifests' pods have resources and probes, of ports that they have; budgets and policies are about pods that there are", () => {
  const all = manifests();
  const pods = all.filter(isSet).map((m) => m.spec.template?.metadata.labels);
  for (const { kind, metadata, spec } of all.filter(isSet)) {
    for (const container of spec.template?.spec.containers ?? []) {
      const { resources, ports = [] } = container;
      expect(resources.requests.cpu, metadata.name).toMatch(/^\d+m?$/);
      expect(mebibytes(resources.requests.memory)).toBeLessThanOrEqual(mebibytes(resources.limits.memory));
      // A tap has no port for a probe; it exits if it cannot continue.
      if (kind === "DaemonSet") continue;
      for (const probe of [container.startupProbe, container.readinessProbe, container.livenessProbe])
        expect(
          ports.map((p) => p.name),
          metadata.name,
        ).toContain(probe?.httpGet.port);
      expect(spec.volumeClaimTemplates?.[0]?.spec.resources.requests.storage).toMatch(/^\d+Gi$/);
    }
  }
  for (const { kind, metadata, spec } of all) {
    if (kind === "PodDisruptionBudget") {
      expect(pods, metadata.name).toContainEqual(spec.selector.matchLabels);
      expect(spec.maxUnavailable).toBe(1);
    }
    if (kind === "NetworkPolicy") expect(pods, metadata.name).toContainEqual(spec.podSelector?.matchLabels);
  }
  // They have to find each other to become ready.
  const nats = all.find((m) => m.kind === "Service" && m.metadata.name === "nats");
  expect(nats?.spec).toMatchObject({ clusterIP: "None", publishNotReadyAddresses: true });
});

function mebibytes(text: string): number {
  const [, count, unit] = /^(\d+)(Mi|Gi)$/.exec(text) ?? [];
  return Number(count) * (unit === "Gi" ? 1024 : 1);
}

/** The programs that a file starts, on this machine. */
interface Started {
  /** Arguments of each server, as on its own host; its name; its readiness probe. */
  servers: { name: string; args: string[]; ready: string }[];
  worker: { args: string[]; ready: string };
}

function ofCompose(): Started {
  const { services } = compose();
  const url = (test: string[]) => /http:[^'"]+/.exec(test.join(" "))?.[0] ?? "";
  const one = (name: string) => services[name] as Service;
  return {
    servers: ["nats-1", "nats-2", "nats-3"].map((name) => ({
      ...{ name, ready: url(one(name).healthcheck.test) },
      args: (one(name).command ?? []).map((a) => a.replace(/^\$\{HOPTIME_NATS_TOKEN:.*\}$/, TOKEN)),
    })),
    worker: { args: one("worker-1").command ?? [], ready: url(one("worker-1").healthcheck.test) },
  };
}

function ofKubernetes(): Started {
  const container = (name: string) =>
    manifests().find((m) => isSet(m) && m.metadata.name === name)?.spec.template?.spec
      .containers[0] as Container;
  const ready = ({ readinessProbe, ports = [] }: Container) => {
    const { path = "", port = "" } = readinessProbe?.httpGet ?? {};
    return `http://127.0.0.1:${ports.find((p) => p.name === port)?.containerPort}${path}`;
  };
  const nats = container("nats");
  const name = (i: number) => `nats-${i}`;
  return {
    servers: [0, 1, 2].map((i) => ({
      ...{ name: `${name(i)}.nats`, ready: ready(nats) },
      args: (nats.args ?? []).map((a) => a.replace("$(POD)", name(i)).replace("$(TOKEN)", TOKEN)),
    })),
    worker: { args: container("worker").args ?? [], ready: ready(container("worker")) },
  };
}

if (NO_NATS) console.log(`skipped: the commands of contrib/cluster: ${NO_NATS}`);

it.skipIf(NO_NATS).each([
  ["docker-compose.yaml", ofCompose],
  ["kubernetes.yaml", ofKubernetes],
])(
  "the servers and a worker of %s come up and are ready by their own probes",
  async (_, of) => {
    const root = mkdtempSync(join(tmpdir(), "hoptime-contrib-"));
    const children: ChildProcess[] = [];
    const clickhouse = CLICKHOUSE_SERVER ? await ClickhouseServer.start({ password: PASSWORD }) : null;
    const said: string[] = [];
    const start = (command: string, args: readonly string[]) => {
      const env = { ...process.env, HOPTIME_CLICKHOUSE_PASSWORD: PASSWORD };
      const child = spawn(command, args, { stdio: ["ignore", "ignore", "pipe"], env });
      child.stderr?.on("data", (d: Buffer) => said.push(d.toString()));
      children.push(child);
    };
    try {
      const { servers, worker } = of();
      // Hosts and ports of the files are replaced by ports of this machine.
      const ports = await freePorts(3 * servers.length + 1);
      const portOf = new Map(
        servers.flatMap(({ name }, i) =>
          [4222, 6222, 8222].map((p, k) => [`${name}:${p}`, ports[3 * i + k]]),
        ),
      );
      const here = (text: string) =>
        text.replace(/[a-z]+-\d+(\.nats)?:\d+/g, (at) => `127.0.0.1:${portOf.get(at) ?? expect.fail(at)}`);
      for (const { name, args } of servers) {
        const own = (port: number) => `${portOf.get(`${name}:${port}`)}`;
        const folder = join(root, name);
        mkdirSync(folder);
        start("nats-server", [
          ...args.map((a) =>
            here(a)
              .replace("0.0.0.0:6222", `127.0.0.1:${own(6222)}`)
              .replace(/^8222$/, own(8222))
              .replace(/^\/data$/, folder),
          ),
          ...["--addr", "127.0.0.1", "--port", own(4222)],
        ]);
      }
      for (const { name, ready } of servers)
        await answers(ready.replace(":8222", `:${portOf.get(`${name}:8222`)}`), said);
      const token = join(root, "token");
      writeFileSync(token, `${TOKEN}\n`);
      const http = ports.at(-1);
      const args = worker.args.map((a) =>
        here(a)
          .replace("0.0.0.0:8787", `127.0.0.1:${http}`)
          .replace("/var/lib/hoptime", join(root, "worker"))
          .replace(/^\/run\/secrets\/.*$/, token)
          .replace("http://hoptime@clickhouse:8123", `http://default@127.0.0.1:${clickhouse?.port}`),
      );
      const results = args.indexOf("--clickhouse");
      if (!clickhouse) args.splice(results, 2);
      start(process.execPath, ["dist/cli/main.js", ...args]);
      await answers(worker.ready.replace(":8787", `:${http}`), said);
      const response = await fetch(`http://127.0.0.1:${http}/v1/health`);
      expect(await response.json()).toMatchObject({ cluster: { group: "main", workers: 1 } });
    } finally {
      for (const child of children) child.kill("SIGKILL");
      await clickhouse?.close();
      rmSync(root, { recursive: true, force: true });
    }
  },
  120_000,
);

/** The request of a probe. */
async function answers(url: string, said: readonly string[]): Promise<void> {
  for (let i = 0; i < 600; i++) {
    const status = await fetch(url).then(
      (r) => r.status,
      () => 0,
    );
    if (status === 200) return;
    await sleep(100);
  }
  throw new Error(`${url} is not ready: ${said.join("").slice(-2000)}`);
}
