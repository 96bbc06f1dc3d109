/**
 * The clock of a tap is stepped by a second forward or back while it observes: every packet is in one record, every record is at the collector once, the
 * collector's answer equals that from the same records in a directory, and results before the step are unaffected.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, expect, it } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import { identityText, recordIdentity } from "../../src/epoch/identity.ts";
import { observePoint } from "../../src/observe/observe-point.ts";
import { type CollectProcess, runHoptime, startCollect } from "../support/collect-process.ts";
import { type SmallPacket, writePcap } from "../support/small-pcap.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-clock-step-"));
let collector: CollectProcess | null = null;
afterEach(async () => {
  await collector?.stop();
  collector = null;
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

const START = 1_700_000_000_000_000_000n;
const PACKETS = 2400;
const EVERY_NS = 2_000_000n;
/** Time of the clock step. */
const STEP_AT = START + 2_500_000_000n;
const EPOCH = 200_000_000n;

/** Records of a tap at A and one at B; a step of 0 is an undisturbed run. */
function captures(dir: string, steps: { A: bigint; B: bigint }): { A: string; B: string } {
  const files = { A: join(dir, "a.pcap"), B: join(dir, "b.pcap") };
  const shifted = (timeNs: bigint, stepNs: bigint) => (timeNs >= STEP_AT ? timeNs + stepNs : timeNs);
  const packets: SmallPacket[] = Array.from({ length: PACKETS }, (_, n) => ({
    timeNs: START + BigInt(n) * EVERY_NS,
    ...{ src: `10.0.0.${1 + (n % 4)}`, dst: "10.2.0.9", sport: 1000 + (n % 4), dport: 53, ipid: n },
  }));
  writePcap(
    files.A,
    packets.map((p) => ({ ...p, timeNs: shifted(p.timeNs, steps.A) })),
  );
  writePcap(
    files.B,
    packets.map((p, n) => {
      const timeNs = p.timeNs + 300_000n + BigInt((n * 7919) % 500_000);
      return { ...p, timeNs: shifted(timeNs, steps.B) };
    }),
  );
  return files;
}

interface Answer {
  estimates: {
    lda: {
      sent: number;
      received: number;
      series: {
        startNs: string;
        sent: number;
        received: number;
        lostHigh: number;
        latency: { meanNs: number } | null;
      }[];
    };
  };
}

const QUESTION = ["--between", "A", "B", "--series", "--json"];

/** Names and packets of all records of an archive. */
function recordsOf(directory: string): { names: string[]; packets: Record<string, number> } {
  const archive = RecordArchive.open(directory);
  const packets: Record<string, number> = {};
  const names = archive.list().entries.map((entry) => {
    const record = archive.readRecord(entry);
    packets[record.point] = (packets[record.point] ?? 0) + record.counters.packets;
    return identityText(recordIdentity(record));
  });
  expect(new Set(names).size).toBe(names.length);
  return { names: names.sort(), packets };
}

const SECOND = 1_000_000_000n;
it.each([
  { text: "both taps, forward", A: SECOND, B: SECOND },
  { text: "both taps, back", A: -SECOND, B: -SECOND },
  { text: "the receiver's, forward", A: 0n, B: SECOND },
  { text: "the receiver's, back", A: 0n, B: -SECOND },
])("a clock that is set by a second ($text) loses no packet and no record", async ({ A, B }) => {
  const dir = mkdtempSync(join(root, "run-"));
  const observed = async (files: { A: string; B: string }, directory: string) => {
    for (const point of ["A", "B"] as const)
      await observePoint({
        ...{ files: [files[point]], point, directory, estimators: ["lda"] },
        cut: { mode: "aligned", lengthNs: EPOCH },
      });
  };
  const undisturbed = join(dir, "undisturbed");
  await observed(captures(dir, { A: 0n, B: 0n }), undisturbed);
  const files = captures(dir, { A, B });
  const plain = join(dir, "plain");
  await observed(files, plain);
  collector = await startCollect(join(dir, "data"), ["--segment", "A:B"]);
  const args = ["--estimators", "lda", "--epoch", "200ms", "--to", collector.url];
  // Twice, as after a restart: no record is stored twice.
  for (const point of ["A", "B", "A"] as const)
    await runHoptime([
      ...["observe", files[point], "--point", point, ...args, "--spool", join(dir, `spool-${point}`)],
    ]);
  const [kept, twin] = [recordsOf(join(dir, "data", "records")), recordsOf(plain)];
  expect(kept).toEqual(twin);
  expect(kept.packets).toEqual({ A: PACKETS, B: PACKETS });
  const [answer, same, before] = [
    await runHoptime(["query", collector.url, ...QUESTION]),
    await runHoptime(["query", plain, ...QUESTION]),
    await runHoptime(["query", undisturbed, ...QUESTION]),
  ];
  expect(answer).toBe(same);
  const lda = (text: string) => (JSON.parse(text) as Answer).estimates.lda;
  const early = (text: string) =>
    lda(text).series.filter((e) => BigInt(e.startNs) + EPOCH < STEP_AT - SECOND);
  expect(early(answer).length).toBeGreaterThanOrEqual(6);
  // The bound for packets in flight at a cut uses the highest rate of the question; an epoch that contains two seconds of packets, after the clock was set
  // back, widens this bound.
  const others = (text: string) => early(text).map(({ lostHigh: _, ...other }) => other);
  expect(others(answer)).toEqual(others(before));
  const most = (text: string) => early(text).map((e) => e.lostHigh);
  for (const [i, high] of most(before).entries()) {
    expect(most(answer)[i]).toBeGreaterThanOrEqual(high);
    expect(most(answer)[i]).toBeLessThanOrEqual(high + 2);
  }
  if (A === B) expect([lda(answer).sent, lda(answer).received]).toEqual([PACKETS, PACKETS]);
});
