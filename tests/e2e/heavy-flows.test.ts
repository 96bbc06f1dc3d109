/** Heavy flows from LDS and SDS records alone: which flows, with packets, bytes and delays, compared with exact counts. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import { Random } from "../../src/base/random.ts";
import { observePoint } from "../../src/observe/observe-point.ts";
import { askArchive } from "../../src/query/segment/ask.ts";
import { frame, pcapHeader, type SmallPacket } from "../support/small-pcap.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-heavy-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const START = 1_700_000_000_000_000_000n;
const KEYS = 128;
const EPOCHS = 4;

interface Truth {
  packets: number;
  bytes: number;
  delaySumNs: number;
}
const truth = new Map<string, Truth>();
/** By epoch. */
const perEpoch: Map<string, number>[] = [];

/** 20 heavy flows, one of which pauses in some epochs, among thousands of small ones; delays differ by flow. */
function packets(): { a: SmallPacket[]; b: SmallPacket[] } {
  const random = new Random("heavy flows");
  const [a, b]: [SmallPacket[], SmallPacket[]] = [[], []];
  for (let n = 0; n < 10_000 * EPOCHS; n++) {
    const epoch = Math.floor(n / 10_000);
    const heavy = random.float() < 0.3;
    const f = heavy ? Math.floor(20 * random.float() ** 2) : 1000 + random.below(12_000);
    if (f === 7 && epoch % 2 === 1) continue;
    const src = `10.1.${f >> 8}.${f & 255}`;
    const packet = { src, dst: "10.2.0.9", sport: 5000, dport: 443, ipid: n & 0xffff };
    // Away from the cuts, so no packet is in flight there.
    const timeNs = START + BigInt(epoch) * 1_000_000_000n + BigInt(100_000_000 + (n % 10_000) * 80_000);
    const delayNs = 1_000_000 + 50_000 * (f % 40) + random.below(20_000);
    a.push({ ...packet, timeNs });
    b.push({ ...packet, timeNs: timeNs + BigInt(delayNs) });
    const name = `udp ${src}:5000 > 10.2.0.9:443`;
    const own = truth.get(name) ?? { packets: 0, bytes: 0, delaySumNs: 0 };
    truth.set(name, { packets: own.packets + 1, bytes: own.bytes, delaySumNs: own.delaySumNs + delayNs });
    perEpoch[epoch] ??= new Map();
    perEpoch[epoch].set(name, (perEpoch[epoch].get(name) ?? 0) + 1);
  }
  return { a, b: b.sort((x, y) => (x.timeNs < y.timeNs ? -1 : 1)) };
}

const files = { a: join(root, "a.pcap"), b: join(root, "b.pcap") };
beforeAll(() => {
  const { a, b } = packets();
  for (const [file, list] of [
    [files.a, a],
    [files.b, b],
  ] as const)
    writeFileSync(file, Buffer.concat([pcapHeader(), ...list.map((p) => frame(p))]));
});

async function observed(estimator: string, parameters: string): Promise<RecordArchive> {
  const directory = join(root, estimator);
  const options = {
    directory,
    estimators: [estimator],
    parameters: { [estimator]: parameters },
    cut: { mode: "aligned", lengthNs: 1_000_000_000n } as const,
  };
  const points = estimator === "sds" ? ["B"] : ["A", "B"];
  for (const point of points) {
    const file = point === "A" ? files.a : files.b;
    const sender = estimator === "sds" ? { sender: { files: [files.a], windowNs: 1e9 } } : {};
    const report = await observePoint({ ...options, ...sender, files: [file], point });
    expect(report.estimators.map((e) => e.name)).toEqual([estimator]);
    expect(report.estimators[0]?.bitsPerPacket).toBeGreaterThan(0);
  }
  return RecordArchive.open(directory);
}

it.each(["lds", "sds"])(
  "%s finds them without a flow table, and its counts and delays hold",
  async (name) => {
    const archive = await observed(name, `keys=${KEYS},columns=4000`);
    const answer = askArchive(archive, { between: ["A", "B"], top: 15 });
    archive.close();
    const floor = Number(/more than (\d+) packets? in an epoch/.exec(answer.notes.join())?.[1]);
    expect(floor).toBeGreaterThan(0);
    expect(floor).toBeLessThanOrEqual(10_000 / (KEYS + 1));
    const byPackets = [...truth].sort((x, y) => y[1].packets - x[1].packets);
    const found = answer.groups.map((g) => g.text);
    // For the last ones, packets are known only within bounds, so their order may differ.
    for (const [flow] of byPackets.slice(0, 10)) expect(found).toContain(flow);
    let held = 0;
    for (const group of answer.groups) {
      const own = truth.get(group.text);
      if (!own || !group.latency) throw new Error(`${group.text} has no answer`);
      expect(group.packetsLow).toBeLessThanOrEqual(own.packets);
      expect(group.packetsHigh).toBeGreaterThanOrEqual(own.packets);
      expect(Math.abs((group.packets ?? 0) - own.packets) / own.packets).toBeLessThan(0.05);
      const mean = own.delaySumNs / own.packets;
      if (group.latency.lowNs <= mean && mean <= group.latency.highNs) held++;
      expect(Math.abs(group.latency.meanNs - mean) / mean).toBeLessThan(0.05);
    }
    // 95 % intervals: fewer than 11 of 15 in one of 2,000 runs.
    expect(held).toBeGreaterThanOrEqual(11);
    // No flow above the stated number is missing in any epoch.
    const every = askArchive(RecordArchive.open(join(root, name)), { between: ["A", "B"], top: 500 });
    const listed = new Set(every.groups.map((g) => g.text));
    for (const epoch of perEpoch)
      for (const [flow, n] of epoch) if (n > floor) expect(listed).toContain(flow);
  },
);

it("a flow that is named is answered beside the heavy ones, also where no epoch lists it", async () => {
  const archive = RecordArchive.open(join(root, "lds"));
  const [small] = [...truth].find(([, { packets }]) => packets === 6) ?? [];
  if (!small) throw new Error("no small flow");
  const [group] = askArchive(archive, { between: ["A", "B"], flows: [small] }).groups;
  archive.close();
  expect(group?.text).toBe(small);
  expect(group?.packetsHigh).toBeGreaterThanOrEqual(6);
});

it("records of MAPLE beside them, which name no flow, do not hide epochs in which a flow was not listed", async () => {
  const directory = join(root, "beside");
  await observePoint({
    directory,
    estimators: ["maple", "sds"],
    parameters: { sds: `keys=${KEYS},columns=4000` },
    cut: { mode: "aligned", lengthNs: 1_000_000_000n },
    sender: { files: [files.a], windowNs: 1e9 },
    files: [files.b],
    point: "B",
  });
  const archive = RecordArchive.open(directory);
  const answer = askArchive(archive, { between: ["A", "B"], top: 500 });
  archive.close();
  const groups = answer.groups.filter((g) => g.estimator === "sds");
  expect(groups.length).toBeGreaterThan(100);
  for (const { text, packetsLow, packetsHigh } of groups) {
    const own = truth.get(text)?.packets ?? 0;
    expect(packetsLow).toBeLessThanOrEqual(own);
    expect(packetsHigh ?? Number.POSITIVE_INFINITY).toBeGreaterThanOrEqual(own);
  }
});
