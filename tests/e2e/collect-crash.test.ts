/**
 * kill -9 of observers and of the collector at random times: every acknowledged record exists once, and the final answer equals, byte by byte, the answer about
 * the same captures observed without disturbance.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, it } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import { identityText, recordIdentity } from "../../src/epoch/identity.ts";
import { observePoint } from "../../src/observe/observe-point.ts";
import { CLI, freePort, outputOf } from "../support/cli.ts";
import { rounds } from "../support/rounds.ts";
import { type SmallPacket, writePcap } from "../support/small-pcap.ts";

// Multiples of three: a tap, the collector and the other tap are killed in turn.
const ROUNDS = rounds(6, 30);
const root = mkdtempSync(join(tmpdir(), "hoptime-collect-crash-"));
const children = new Set<ChildProcess>();
afterAll(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(root, { recursive: true, force: true });
});

const START = 1_700_000_000_000_000_000n;
const MINUTE = 60_000_000_000n;

/** Two captures of a round; each round has its own minute, and so its own records. */
function captures(round: number): { a: string; b: string } {
  const [a, b] = [join(root, `a-${round}.pcap`), join(root, `b-${round}.pcap`)];
  const packets: SmallPacket[] = Array.from({ length: 1500 }, (_, n) => ({
    timeNs: START + BigInt(round) * MINUTE + BigInt(n) * 2_000_000n,
    src: `10.0.0.${1 + (n % 4)}`,
    dst: "10.2.0.9",
    sport: 1000 + (n % 4),
    dport: 53,
    ipid: n,
  }));
  writePcap(a, packets);
  const arrived = packets.filter((_, n) => n % 97 !== 0);
  writePcap(
    b,
    arrived.map((p, n) => ({ ...p, timeNs: p.timeNs + 1_000_000n + BigInt((n * 7919) % 500_000) })),
  );
  return { a, b };
}

function run(args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, [CLI, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  children.add(child);
  child.once("exit", () => children.delete(child));
  return child;
}

async function startCollector(data: string, port: number): Promise<ChildProcess> {
  const child = run(["collect", "--data", data, "--segment", "A:B", "--listen", `127.0.0.1:${port}`]);
  let err = "";
  child.stderr?.on("data", (d: Buffer) => {
    err += d.toString();
  });
  await expect.poll(() => err, { interval: 20 }).toContain("collecting at");
  return child;
}

interface Series {
  points: { latency: object | null }[];
}

/** Everything that rows contain about the epochs; null before there are any. */
async function latency(url: string): Promise<Series | null> {
  const until = START + BigInt(ROUNDS + 1) * MINUTE;
  const path = `/v1/latency?from=A&to=B&estimator=lda&since=${START}&until=${until}&limit=10000`;
  const response = await fetch(url + path);
  return response.ok ? ((await response.json()) as Series) : null;
}

/** Returns whether there are times to be estimated again, or rows to be written. */
async function isBusy(url: string): Promise<boolean> {
  const health = await (await fetch(`${url}/v1/health`)).json();
  const { pairing } = health as { pairing: { behind: number; unwritten: number } };
  expect(Number.isInteger(pairing.behind + pairing.unwritten)).toBe(true);
  return pairing.behind + pairing.unwritten > 0;
}

/** Returns the content of the rows when all records are in them and nothing changes any more. */
async function settledLatency(url: string): Promise<Series> {
  let before: Series | null = null;
  for (let n = 0; n < 100; n++) {
    await sleep(1200);
    const busy = await isBusy(url);
    const now = await latency(url);
    if (now && !busy && JSON.stringify(now) === JSON.stringify(before)) return now;
    before = now;
  }
  throw new Error(`the results do not settle: ${JSON.stringify(before).slice(0, 300)}`);
}

const OBSERVE = ["--estimators", "lda,lds", "--lds", "rows=2,columns=64", "--epoch", "100ms", "--json"];

interface Report {
  records: { stored: number };
  collector: { sent: number; waiting: number; dropped: number; refused: number };
}

/** Number of records of a point in the archive. */
function recordsOf(directory: string, point: string): number {
  if (!existsSync(join(directory, point))) return 0;
  const archive = RecordArchive.open(directory);
  const { entries, foreign } = archive.list({ points: [point] });
  expect(foreign).toEqual([]);
  return entries.length;
}

/** Names of all records, each of them read completely. */
function namesOf(directory: string): string[] {
  const archive = RecordArchive.open(directory);
  const names = archive.list().entries.map((e) => identityText(recordIdentity(archive.readRecord(e))));
  expect(new Set(names).size).toBe(names.length);
  return names.sort();
}

it(`loses nothing and counts nothing twice in ${ROUNDS} rounds of kill -9`, {
  timeout: 600_000,
}, async () => {
  const [data, plain] = [join(root, "data"), join(root, "plain")];
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  let collector = await startCollector(data, port);
  let random = 20261115;
  const below = (n: number) => {
    random = (Math.imul(random, 1103515245) + 12345) >>> 0;
    return (random >>> 8) % n;
  };
  const observe = (point: "A" | "B", file: string) =>
    run([
      "observe",
      file,
      "--point",
      point,
      ...OBSERVE,
      "--to",
      url,
      "--spool",
      join(root, `spool-${point}`),
    ]);
  const acknowledged = { A: 0, B: 0 };
  const hits = { observer: 0, collector: 0 };
  // The time of an undisturbed tap, from the last one: kills then happen while it works, on a fast machine too.
  let lifeMs = 400;
  for (let round = 0; round < ROUNDS; round++) {
    const files = captures(round);
    const victim = (["A", "collector", "B"] as const)[round % 3];
    const taps = { A: observe("A", files.a), B: observe("B", files.b) };
    const ends = { A: outputOf(taps.A), B: outputOf(taps.B) };
    const begunMs = performance.now();
    const undisturbed = victim === "A" ? "B" : victim === "B" ? "A" : null;
    if (undisturbed) void ends[undisturbed].then(() => (lifeMs = performance.now() - begunMs));
    await sleep(50 + below(Math.round(0.8 * lifeMs)));
    if (victim === "collector") {
      collector.kill("SIGKILL");
      await once(collector, "exit");
      hits.collector++;
      collector = await startCollector(data, port);
    } else taps[victim ?? "A"].kill("SIGKILL");
    for (const point of ["A", "B"] as const) {
      let { status, signal, out, err } = await ends[point];
      if (signal === "SIGKILL") hits.observer++;
      // Started again from the beginning, as by a supervisor; also if the collector was away for longer than a clean stop waits.
      for (let attempt = 0; status !== 0 && attempt < 3; attempt++)
        ({ status, out, err } = await outputOf(observe(point, point === "A" ? files.a : files.b)));
      expect(status, err).toBe(0);
      const { collector: sums } = JSON.parse(out) as Report;
      expect(sums).toMatchObject({ waiting: 0, dropped: 0, refused: 0 });
      const now = recordsOf(join(data, "records"), point);
      // All records of this round and of the previous ones exist.
      expect(now).toBeGreaterThanOrEqual(acknowledged[point] + 1);
      acknowledged[point] = now;
    }
  }
  expect(hits.observer, "kills that hit an observer at work").toBeGreaterThanOrEqual(ROUNDS / 9);
  expect(hits.collector).toBe(ROUNDS / 3);
  for (const point of ["A", "B"] as const) {
    const files = Array.from({ length: ROUNDS }, (_, n) => join(root, `${point.toLowerCase()}-${n}.pcap`));
    for (const file of files)
      await observePoint({
        ...{ files: [file], point, directory: plain, estimators: ["lda", "lds"] },
        parameters: { lds: "rows=2,columns=64" },
        cut: { mode: "aligned", lengthNs: 100_000_000n },
      });
  }
  expect(namesOf(join(data, "records"))).toEqual(namesOf(plain));
  const question = ["--between", "A", "B", "--top", "5", "--json"];
  const disturbed = await outputOf(run(["query", url, ...question]));
  const undisturbed = await outputOf(run(["query", plain, ...question]));
  expect(disturbed.status, disturbed.err).toBe(0);
  expect(disturbed.out).toBe(undisturbed.out);
  expect(JSON.parse(disturbed.out).epochs.used).toBeGreaterThanOrEqual(ROUNDS * 30);
  // The results too, as if made from the records in one run.
  const kept = await settledLatency(url);
  expect(kept.points.filter((p) => p.latency !== null).length).toBeGreaterThanOrEqual(ROUNDS * 25);
  collector.kill("SIGTERM");
  await once(collector, "exit");
  rmSync(join(data, "results.duckdb"));
  collector = await startCollector(data, port);
  while (await isBusy(url)) await sleep(50);
  expect(await latency(url)).toEqual(kept);
  collector.kill("SIGTERM");
  await once(collector, "exit");
  expect(readFileSync(join(data, "records", "archive.json"), "utf8")).toContain("hoptime.archive/2");
});
