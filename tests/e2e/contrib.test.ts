/** The files in contrib/ are well formed, and use existing metrics and options. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parse } from "yaml";
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
