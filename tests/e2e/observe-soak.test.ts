/** `observe` on a pipe that does not end: for days, through idle times, and until a signal ends it. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { afterAll, describe, expect, it } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import { Random } from "../../src/base/random.ts";
import type { ObservationReport } from "../../src/observe/observe-point.ts";
import { outputOf } from "../support/cli.ts";
import { ROOT } from "../support/demo-captures.ts";
import { pipePacket, writeEpochs } from "../support/pipe-traffic.ts";
import { rounds } from "../support/rounds.ts";
import { pcapHeader } from "../support/small-pcap.ts";

// Below the package, so that the kernels are found.
mkdirSync(join(ROOT, "dist"), { recursive: true });
const scripts = mkdtempSync(join(ROOT, "dist", "soak-"));
const root = mkdtempSync(join(tmpdir(), "hoptime-soak-"));
const children: ChildProcess[] = [];
afterAll(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(scripts, { recursive: true, force: true });
  rmSync(root, { recursive: true, force: true });
});

function bundle(source: string, name: string): string {
  const outfile = join(scripts, name);
  const entry = fileURLToPath(new URL(source, import.meta.url));
  buildSync({
    entryPoints: [entry],
    bundle: true,
    platform: "node",
    format: "esm",
    external: ["koffi", "@duckdb/node-api"],
    outfile,
    banner: {
      js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);',
    },
  });
  return outfile;
}

const cli = bundle("../../src/cli/main.ts", "main.mjs");

const NOW_MS = () => BigInt(Date.now()) * 1_000_000n;

describe("observe, for days", () => {
  it("holds no more after two days than after the first hundred epochs, with every estimator", async () => {
    const script = bundle("../support/soak-observer.ts", "soak-observer.mjs");
    // V8's young generation does not grow, and freed memory is returned, so that resident memory is the memory in use. Otherwise it varies by 20 MB and more
    // (the young generation doubles under load, malloc keeps the memory of records), which hides what accumulates.
    const child = spawn(process.execPath, ["--expose-gc", "--max-semi-space-size=1", script, "600"], {
      stdio: "pipe",
      env: {
        ...process.env,
        MALLOC_ARENA_MAX: "1",
        MALLOC_MMAP_THRESHOLD_: "131072",
        MALLOC_TRIM_THRESHOLD_: "131072",
      },
    });
    const ended = outputOf(child);
    const lengthNs = 600_000_000_000n;
    await writeEpochs(child.stdin, {
      ...{ epochs: 300, perEpoch: 120, lengthNs },
      startNs: 1_700_000_400_000_000_000n,
    });
    child.stdin.end();
    const { status, out, err } = await ended;
    expect({ status, err }).toEqual({ status: 0, err: "" });
    const lines = out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, number>);
    expect(lines.pop()).toMatchObject({ end: true, epochs: 300, packets: 36_000 });
    const first = lines.find((l) => (l["epochs"] ?? 0) >= 100);
    const held = (l: Record<string, number> = {}) =>
      (l["kernel"] ?? 0) + (l["heapUsed"] ?? 0) + (l["arrayBuffers"] ?? 0);
    const last = lines.slice(lines.indexOf(first ?? {}) + 1);
    expect(last.length).toBeGreaterThanOrEqual(2);
    for (const line of last) {
      expect(line["kernel"]).toBe(first?.["kernel"]);
      expect(held(line)).toBeLessThan(1.05 * held(first));
      expect(line["rss"]).toBeLessThan(1.05 * (first?.["rss"] ?? 0));
    }
  });
});

function observePipe(point: string, directory: string, epoch: string, more: string[] = []): ChildProcess {
  const args = ["observe", "-", "--point", point, "--to", directory, "--epoch", epoch, "--json", ...more];
  const child = spawn(process.execPath, [cli, ...args], { stdio: "pipe" });
  children.push(child);
  return child;
}

function recordsOf(directory: string, point: string) {
  const archive = RecordArchive.open(directory);
  const { entries, foreign } = archive.list({ points: [point] });
  expect(foreign).toEqual([]);
  return entries.map((entry) => archive.readRecord(entry));
}

describe("observe, live", () => {
  it("seals and stores epochs on time while no packet comes", async () => {
    const directory = join(root, "idle");
    const child = observePipe("A", directory, "200ms");
    const ended = outputOf(child);
    child.stdin?.write(pcapHeader());
    const lengthNs = 200_000_000n;
    let lastNs = 0n;
    for (let n = 0; n < 20; n++) {
      lastNs = NOW_MS();
      child.stdin?.write(pipePacket(n, lastNs));
      await sleep(20);
    }
    // Idle. The limit is the sum of the pipe's lag, the clock's tolerance, a tick, the age of a group, and a margin for a slow machine.
    const sealed = () => {
      const records = existsSync(join(directory, "A")) ? recordsOf(directory, "A") : [];
      return records.length > 10 && (records.at(-1)?.epoch.endNs ?? 0n) > lastNs + 5n * lengthNs;
    };
    await expect.poll(sealed, { interval: 200 }).toBe(true);
    const before = recordsOf(directory, "A");
    expect(before.reduce((n, r) => n + r.counters.packets, 0)).toBe(20);
    for (const [i, record] of before.entries()) {
      const next = before[i + 1];
      if (next) expect(next.epoch.startNs).toBe(record.epoch.endNs);
      if (record.epoch.startNs > lastNs) expect(record.counters.packets).toBe(0);
    }
    // Then another packet, which must not be late.
    child.stdin?.write(pipePacket(99, NOW_MS()));
    const stored = () => recordsOf(directory, "A").reduce((n, r) => n + r.counters.packets, 0);
    await expect.poll(stored, { interval: 200 }).toBe(21);
    child.kill("SIGTERM");
    const { status, out, err } = await ended;
    expect({ status, err }).toEqual({ status: 0, err: "" });
    const report = JSON.parse(out) as ObservationReport;
    expect(report.captures[0]?.partial).toBeNull();
    const after = recordsOf(directory, "A");
    expect(after.reduce((n, r) => n + r.counters.packets, 0)).toBe(21);
    expect(after.reduce((n, r) => n + r.counters.backward, 0)).toBe(0);
  });

  it("loses nothing that it had read when SIGTERM or SIGINT ends it at any moment", async () => {
    const directory = join(root, "signals");
    const random = new Random(77);
    let inside = 0;
    const round = async (n: number) => {
      const point = `P${n}`;
      const child = observePipe(point, directory, "100ms", ["--estimators", "lda,flows"]);
      const ended = outputOf(child);
      child.stdin?.write(pcapHeader());
      let stopped = false;
      void ended.then(() => {
        stopped = true;
      });
      const startNs = 1_700_000_000_000_000_000n;
      // Relative to the first records on disk, so that a slow start of the process does not use up the time; some before.
      const early = n % 10 === 9;
      const waitMs = Math.floor(500 * random.float());
      let killAt = early ? performance.now() + 3 * waitMs : Number.POSITIVE_INFINITY;
      let sent = 0;
      let signalled = false;
      // One epoch of twenty packets at a time, ten times as fast as the clock.
      while (!stopped) {
        const packets = Array.from({ length: 20 }, () =>
          pipePacket(sent, startNs + BigInt(sent++) * 5_000_000n),
        );
        child.stdin?.write(Buffer.concat(packets));
        await sleep(10);
        if (killAt === Number.POSITIVE_INFINITY && existsSync(join(directory, point)))
          killAt = performance.now() + waitMs;
        if (!signalled && performance.now() > killAt) {
          child.kill(n % 2 === 0 ? "SIGTERM" : "SIGINT");
          signalled = true;
        }
      }
      const { status, signal, out, err } = await ended;
      // Before its handlers are installed, there is nothing to store.
      if (signal !== null) {
        expect(out).toBe("");
        return;
      }
      expect({ status, err }).toEqual({ status: 0, err: "" });
      const report = JSON.parse(out) as ObservationReport;
      const packets = report.lanes[0]?.packets ?? 0;
      expect(packets).toBeLessThanOrEqual(sent);
      if (packets === 0) return;
      inside++;
      const records = recordsOf(directory, point);
      for (const name of ["lda", "flows"]) {
        const mine = records.filter((r) => r.estimator === name);
        expect(mine.reduce((n, r) => n + r.counters.packets, 0)).toBe(packets);
        expect(mine.length).toBe(report.epochs);
        for (const [i, record] of mine.slice(1).entries())
          expect(record.epoch.startNs).toBe(mine[i]?.epoch.endNs);
        expect(mine.map((r) => r.epoch.cutTail)).toEqual(mine.map((_, i) => i === mine.length - 1));
      }
    };
    const lives = rounds(10, 50);
    for (let n = 0; n < lives; n += 5) await Promise.all([0, 1, 2, 3, 4].map((i) => round(n + i)));
    expect(inside).toBeGreaterThan(lives / 2);
    expect(readdirSync(join(directory, ".tmp"))).toEqual([]);
  });

  it("ends at once at the second signal", async () => {
    const directory = join(root, "second");
    const child = observePipe("A", directory, "1s");
    const ended = outputOf(child);
    child.stdin?.write(Buffer.concat([pcapHeader(), pipePacket(0, NOW_MS())]));
    // Its handlers are installed when it has stored something.
    while (!existsSync(join(directory, "A"))) await sleep(50);
    child.kill("SIGINT");
    child.kill("SIGTERM");
    const { status } = await ended;
    // Either the first one finished before the second was noticed, or it was interrupted.
    expect([0, 130, 143]).toContain(status);
  });
});
