/**
 * `hoptime demo --live`: taps of a simulated network, a collector, an incident that is found, and an end by Ctrl-C. There are no limits on how fast results
 * come.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";

const cli = join(import.meta.dirname, "..", "..", "dist", "cli", "main.js");

interface Line {
  format: string;
  event: "started" | "epoch" | "incident";
  url: string;
  points: string[];
  from: string;
  to: string;
  estimator: string;
  latency: { meanNs: number; lowNs: number; highNs: number } | null;
  change: string;
  kind: string;
  segment: { from: string; to: string } | null;
  baseline: number;
  peak: number;
}

test.skipIf(!existsSync(cli))(
  "a network in real time: its segments, the incident on the right one, and a clean end",
  { timeout: 600_000 },
  async () => {
    const scratch = mkdtempSync(join(tmpdir(), "hoptime-demo-test-"));
    const child = spawn(process.execPath, [cli, "demo", "--live", "--json"], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, TMPDIR: scratch },
    });
    let err = "";
    child.stderr.on("data", (data) => {
      err += data;
    });
    const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
    const lines: Line[] = [];
    let shown: Promise<Line[]> | null = null;
    try {
      for await (const text of createInterface(child.stdout)) {
        lines.push(JSON.parse(text));
        shown ??= top(lines[0]?.url ?? "");
        if (lines.at(-1)?.event === "incident") break;
      }
      expect((await shown)?.length).toBeGreaterThanOrEqual(4);
    } finally {
      child.kill("SIGINT");
    }
    const rows = (await shown) ?? [];
    expect(rows.every((l) => l.estimator === "lds" && l.format === "hoptime.top/1")).toBe(true);
    expect([await ended, err]).toEqual([0, ""]);
    // The collector's directory and the spools are removed with it.
    expect(readdirSync(scratch)).toEqual([]);
    rmSync(scratch, { recursive: true });
    expect(lines[0]).toMatchObject({ event: "started", points: ["r1", "r2", "r3", "r4", "r5"] });
    expect(lines.every((l) => l.format === "hoptime.demo/1")).toBe(true);
    // Propagation delay of the links plus a margin for their queues, known from the scenario.
    for (const [from, to, leastMs, mostMs] of [
      ["r1", "r2", 0.8, 1.4],
      ["r3", "r4", 2.5, 3.1],
      ["r4", "r5", 0.6, 1.2],
    ] as const) {
      const own = lines.filter(
        (l) => l.event === "epoch" && l.estimator === "lda" && l.from === from && l.to === to,
      );
      const means = own.flatMap((l) => l.latency?.meanNs ?? []).sort((a, b) => a - b);
      const median = (means[means.length >> 1] ?? Number.NaN) / 1e6;
      expect(means.length).toBeGreaterThan(10);
      expect(median).toBeGreaterThan(leastMs);
      expect(median).toBeLessThan(mostMs);
    }
    const incident = lines.at(-1);
    expect(incident).toMatchObject({
      event: "incident",
      change: "opened",
      segment: { from: "r2", to: "r3" },
    });
    expect(["delay", "loss"]).toContain(incident?.kind);
    if (incident?.kind === "delay") expect(incident.peak).toBeGreaterThan(3 * incident.baseline);
  },
);

/** The same collector's rows in `hoptime top`: the first few. */
async function top(url: string): Promise<Line[]> {
  const child = spawn(process.execPath, [cli, "top", url, "--json", "--estimator", "lds"]);
  let err = "";
  child.stderr.on("data", (data) => {
    err += data;
  });
  const lines: Line[] = [];
  for await (const text of createInterface(child.stdout)) {
    lines.push(JSON.parse(text));
    if (lines.length === 4) child.kill("SIGINT");
  }
  expect(err).toBe("");
  return lines;
}
