import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { makeBatch, type Row } from "../../../tests/support/small-batch.ts";
import { type SmallPacket, writePcap } from "../../../tests/support/small-pcap.ts";
import { Kernels } from "../../base/kernels.ts";
import { FlowKeySpec } from "../../capture/flow/flow-key.ts";
import { CaptureReader } from "../../capture/reader.ts";
import { interpolateDelays } from "../../delays/reference-delays.ts";
import { encodeStamp } from "../../delays/stamp.ts";
import { isNoAnswer, type KnownFlows, type SealedEpoch } from "../estimator.ts";
import { parseParameters } from "../parameters.ts";
import { decodeRli, knownFlows, type RliSketch } from "./payload.ts";
import { rli } from "./rli.ts";

const kernels = new Kernels();
const SEED = 7n;
const REFERENCE = 1 << 22;

interface Packet extends Row {
  delayNs?: number;
}

const reference = (timeNs: number, delayNs: number, wireLength = 64): Packet => ({
  timeNs,
  delayNs,
  wireLength,
  flags: REFERENCE,
});
const regular = (timeNs: number, flow = 1, wireLength = 100): Packet => ({ timeNs, flow, wireLength });

function batchOf(rows: readonly Packet[]) {
  const batch = makeBatch(kernels, rows);
  rows.forEach((row, i) => {
    batch.delayNs[i] = row.delayNs ?? Number.NaN;
  });
  return batch;
}

function seal(rows: readonly Packet[], text = "", size = 1000): SealedEpoch {
  const tap = rli.createTap({ kernels, role: "receiver", seed: SEED }, parseParameters(rli, text));
  tap.begin(0);
  for (let i = 0; i < rows.length; i += size) {
    const batch = batchOf(rows.slice(i, i + size));
    tap.update(batch, 0, batch.count);
    batch.free();
  }
  const sealed = tap.seal();
  tap.free();
  return sealed;
}

const read = (sealed: SealedEpoch, text = "") => decodeRli(sealed, parseParameters(rli, text), SEED);

function ask(sealed: SealedEpoch, text = "", flows: KnownFlows | null = null, confidence = 0.95) {
  return rli.estimate({
    parameters: parseParameters(rli, text),
    seed: SEED,
    sender: null,
    receiver: sealed,
    flows: flows ?? knownFlows(read(sealed, text)),
    confidence,
    epochNs: 1e9,
  });
}

/** Packets and sum of delays by flow, numbered as in small-batch.ts. */
function byFlow(sketch: RliSketch): Record<number, { packets: number; sum: number }> {
  const out: Record<number, { packets: number; sum: number }> = {};
  for (let i = 0; i < sketch.flows.count; i++) {
    out[sketch.flows.hash[2 * i]!] = { packets: sketch.flows.packets[i]!, sum: Number(sketch.flows.sum[i]!) };
  }
  return out;
}

describe("the line between references", () => {
  test("equation 1: a packet half way has the mean delay, and its own transmission", () => {
    // 8e9 bit/s: a byte takes a nanosecond.
    const rows = [reference(1000, 500), regular(2000), reference(3000, 900)];
    expect(read(seal(rows, "drain=8e9,line=arrival"), "drain=8e9,line=arrival").total.sum).toBe(736n);
    // Its transmission began 100 ns before it arrived, the reference's 64 ns: 36 ns earlier on a slope of 400 / 2000.
    expect(read(seal(rows, "drain=8e9"), "drain=8e9").total.sum).toBe(736n - 7n);
  });

  test("on a busy link a packet was sent half way where the middle of its transmission is", () => {
    // A queue that drains 1 byte per ns: the right reference entered it before the left one left.
    const rows = [reference(0, 1000, 100), reference(10_000, 8000, 100)];
    rows.push(regular(15_000, 1, 5000), reference(15_100, 12_000, 100));
    // Sent at 2000 and 3100. The packet's middle, at 12,500, is 2550 of 5100 after the left reference's.
    expect(read(seal(rows, "drain=8e9"), "drain=8e9").total.sum).toBe(15_000n - 2550n);
  });

  test("rli-l takes the left reference", () => {
    const rows = [reference(1000, 500), regular(2000), reference(3000, 900)];
    expect(read(seal(rows, "estimator=rli-l"), "estimator=rli-l").total.sum).toBe(500n);
  });

  test("packets beside one reference only have its delay; without any they are not answered", () => {
    const { counters, total } = read(seal([regular(1), reference(5, 40), regular(9)]));
    expect(total.sum).toBe(80n);
    expect(counters).toMatchObject({ packets: 2, answered: 2, oneSided: 2, unanswered: 0 });
    const alone = seal([regular(1), regular(2)]);
    expect(read(alone).counters).toMatchObject({ answered: 0, unanswered: 2 });
    const answer = ask(alone, "", knownFlows(read(seal([regular(1), reference(5, 40)]))));
    expect(answer.segment!.mean).toMatchObject({ reason: "no-usable-cells" });
    expect(answer.flows[0]!.mean).toMatchObject({ reason: "no-usable-cells" });
  });

  test("a full buffer is answered by the left reference, and counted", () => {
    const rows = [reference(0, 100), ...[1, 2, 3, 4, 5].map((t) => regular(t)), reference(10, 200)];
    const { counters, total } = read(seal(rows, "buffer=2"), "buffer=2");
    expect(counters).toMatchObject({ answered: 5, oneSided: 4, spilled: 4 });
    expect(total.sum).toBe(400n + 150n);
  });

  /** The slow reference looks left and right for every packet. */
  test("equals a slow twin, for any stream", () => {
    const event = fc.record({
      gap: fc.integer({ min: 0, max: 5000 }),
      own: fc.boolean(),
      flow: fc.integer({ min: 1, max: 5 }),
      bytes: fc.integer({ min: 40, max: 1500 }),
      delay: fc.integer({ min: -1000, max: 1_000_000 }),
    });
    fc.assert(
      fc.property(
        fc.array(event, { minLength: 1, maxLength: 80 }),
        fc.integer({ min: 1, max: 30 }),
        fc.constantFrom("rli", "rli-l"),
        fc.constantFrom("transmission", "arrival"),
        (events, size, estimator, line) => {
          let now = 0;
          const rows = events.map(({ gap, own, flow, bytes, delay }) => {
            now += gap;
            return own ? reference(now, delay, bytes) : regular(now, flow, bytes);
          });
          const nsPerByte = 8;
          const twin: Record<number, { packets: number; sum: number }> = {};
          for (const [i, row] of rows.entries()) {
            if (row.flags) continue;
            const left = rows.slice(0, i).findLast((r) => r.flags);
            const right = rows.slice(i).find((r) => r.flags);
            if (!left && !right) continue;
            let share = 1;
            if (left && right && line === "transmission" && estimator === "rli") {
              const known = rows.slice(0, rows.indexOf(right) + 1).filter((r) => r.flags);
              const queued = right.delayNs! - Math.min(...known.map((r) => r.delayNs!));
              const between = right.timeNs - left.timeNs;
              if (between > 0 && queued >= between) share = 0.5;
            }
            const own = (r: Packet) => share * nsPerByte * r.wireLength!;
            const place = (r: Packet) => (line === "transmission" ? r.timeNs - own(r) : r.timeNs);
            const waited = (r: Packet) => r.delayNs! - own(r);
            let delay = waited((left ?? right)!);
            if (left && right && estimator === "rli" && place(right) > place(left)) {
              const slope = (waited(right) - waited(left)) / (place(right) - place(left));
              const behind = place(row) - place(left);
              delay += slope * (line === "transmission" ? Math.max(0, behind) : behind);
            }
            const of = (twin[row.flow!] ??= { packets: 0, sum: 0 });
            of.packets++;
            of.sum += roundEven(delay + own(row));
          }
          const text = `drain=1e9,estimator=${estimator},line=${line}`;
          expect(byFlow(read(seal(rows, text, size), text))).toEqual(twin);
        },
      ),
      { numRuns: 400, seed: 5 },
    );
  });
});

function roundEven(x: number): number {
  const low = Math.floor(x);
  if (x - low !== 0.5) return Math.round(x);
  return low % 2 === 0 ? low : low + 1;
}

describe("epochs", () => {
  const rows: Packet[] = [];
  for (let i = 0; i < 400; i++) {
    rows.push(i % 20 === 0 ? reference(1000 * i, 5000 + 10 * (i % 70)) : regular(1000 * i, 1 + (i % 7)));
  }

  test("that follow each other in time add up to the whole", () => {
    const tap = rli.createTap({ kernels, role: "receiver", seed: SEED }, parseParameters(rli));
    const parts: SealedEpoch[] = [];
    for (const [from, to] of [
      [0, 141],
      [141, 281],
      [281, 400],
    ] as const) {
      // The cuts are behind references: 140 and 280 are references.
      tap.begin(1000 * from);
      const batch = batchOf(rows.slice(from, to));
      tap.update(batch, 0, batch.count);
      parts.push(tap.seal());
      batch.free();
    }
    tap.free();
    const merged = read(parts.reduce((a, b) => rli.merge(a, b, parseParameters(rli))));
    const whole = read(seal(rows));
    expect(byFlow(merged)).toEqual(byFlow(whole));
    expect(merged.total).toMatchObject({
      sum: whole.total.sum,
      minimum: whole.total.minimum,
      maximum: whole.total.maximum,
    });
    expect(merged.counters).toMatchObject({ packets: 380, answered: 380, oneSided: whole.counters.oneSided });
  });

  test("begin with the last reference of the one before, unless time has gone back", () => {
    const tap = rli.createTap({ kernels, role: "receiver", seed: SEED }, parseParameters(rli));
    const feed = (part: Packet[]) => {
      const batch = batchOf(part);
      tap.update(batch, 0, batch.count);
      batch.free();
    };
    tap.begin(0);
    feed([reference(10, 100)]);
    tap.seal();
    tap.begin(1000);
    feed([regular(1500)]);
    expect(read(tap.seal()).total.sum).toBe(100n);
    tap.begin(0);
    feed([regular(1500)]);
    expect(read(tap.seal()).counters.unanswered).toBe(1);
    tap.free();
  });
});

describe("the flow table", () => {
  const rows: Packet[] = [];
  for (let i = 0; i < 3000; i++) {
    const flow = 1 + Math.floor(i / 30) + 100 * (i % 3);
    rows.push(i % 15 === 0 ? reference(1e6 * i, 5000 + (i % 700)) : regular(1e6 * i, flow));
  }

  test("counts packets of flows that find no place", () => {
    const { counters, flows } = read(seal(rows, "max=10"), "max=10");
    expect(flows.count).toBe(10);
    expect(flows.packets.reduce((a, b) => a + b, 0) + counters.shed).toBe(counters.packets);
    expect(counters.shed).toBeGreaterThan(1000);
  });

  test("the segment's answer is that of all packets, whatever flows are kept", () => {
    const distinct = rows.map((row, i): Packet => ({ ...row, digest: [Math.imul(i, 0x9e37_79b1) >>> 0, i] }));
    const { segment } = ask(seal(distinct), "");
    for (const text of ["max=10", "select=flows,rate=0.1", "select=hold,rate=0.02"]) {
      const answered = ask(seal(distinct, text), text).segment;
      expect({ ...answered, notes: [] }).toEqual({ ...segment, notes: [] });
      expect(answered?.notes.join()).toMatch(/no estimates for these flows/);
    }
  });

  test("lets idle flows go where it is full, and loses nothing of them", () => {
    const text = "max=16,idle=0.05,quantiles=true";
    const bounded = read(seal(rows, text), text);
    const whole = read(seal(rows, "quantiles=true"), "quantiles=true");
    expect(bounded.counters.shed).toBe(0);
    expect(bounded.flows.count).toBe(300);
    expect(byFlow(bounded)).toEqual(byFlow(whole));
    expect(bounded.flows.buckets!.slice(0, 300)).toEqual(whole.flows.buckets!.slice(0, 300));
  });

  test("takes a sample of flows whole, or holds flows from a sampled packet on", () => {
    const whole = byFlow(read(seal(rows)));
    const flows = byFlow(read(seal(rows, "select=flows,rate=0.3"), "select=flows,rate=0.3"));
    expect(Object.keys(flows).length).toBeGreaterThan(50);
    expect(Object.keys(flows).length).toBeLessThan(140);
    for (const [flow, sums] of Object.entries(flows)) expect(sums).toEqual(whole[Number(flow)]);
    const distinct = rows.map((row, i): Packet => ({ ...row, digest: [Math.imul(i, 0x9e37_79b1) >>> 0, i] }));
    const held = read(seal(distinct, "select=hold,rate=0.1"), "select=hold,rate=0.1");
    expect(held.counters.unselected).toBeGreaterThan(500);
    expect(held.counters.answered).toBe(2800);
    for (const [flow, { packets }] of Object.entries(byFlow(held)))
      expect(packets).toBeLessThanOrEqual(whole[Number(flow)]!.packets);
  });
});

test("quantiles are those of the interpolated delays", () => {
  const rows: Packet[] = [reference(0, 100_000)];
  for (let i = 1; i < 1000; i++) rows.push(regular(i));
  rows.push(reference(1000, 200_000));
  const { flows } = ask(seal(rows, "quantiles=true"), "quantiles=true");
  const [half, maximum] = [flows[0]!.quantiles![0]!, flows[0]!.quantiles![2]!];
  expect(half).toMatchObject({ share: 0.5 });
  expect(half.valueNs / 150_000).toBeCloseTo(1, 2);
  expect(maximum.valueNs / 199_000).toBeCloseTo(1, 2);
});

describe("references in a capture", () => {
  const scratch = mkdtempSync(join(tmpdir(), "hoptime-rli-"));
  afterAll(() => rmSync(scratch, { recursive: true, force: true }));
  const START = 1_700_000_000_000_000_000n;
  const at = (us: number) => START + BigInt(us) * 1000n;
  const data = (us: number, ipid: number): SmallPacket => ({
    ...{ timeNs: at(us), src: "10.0.0.1", dst: "10.0.1.1", sport: 5000, dport: 80, ipid },
    payload: new Uint8Array(44),
  });
  const stamp = (us: number, sequence: number, delayUs: number, session = 1): SmallPacket => ({
    ...{ timeNs: at(us), src: "10.0.0.9", dst: "10.0.1.9", sport: 862, dport: 862, ipid: sequence },
    payload: encodeStamp({ sequence, timeNs: at(us - delayUs), session, synchronised: true, errorNs: 1 }),
  });
  const cut = (us: number): SmallPacket => ({ ...stamp(us, 9, 10), payload: new Uint8Array(10) });
  const packets = [
    stamp(0, 0, 100),
    data(500, 1),
    stamp(1000, 1, 300),
    stamp(1100, 1, 400), // the same once more, later
    data(1500, 2),
    stamp(1550, 7, 20, 9), // another session
    cut(1600),
    stamp(2000, 4, 500), // 2 is missing, 3 comes late
    stamp(2100, 3, 700), // overtaken
    data(2500, 3),
    stamp(3000, 5, 700),
  ];

  test.each(["5tuple", "hosts", "src"])("are recognised with --key %s", async (key) => {
    const file = join(scratch, `${key}.pcap`);
    writePcap(file, packets);
    const reader = await CaptureReader.open(kernels, file, { key: FlowKeySpec.parse(key) });
    const text = "session=1";
    const tap = rli.createTap({ kernels, role: "receiver", seed: SEED }, parseParameters(rli, text));
    while (await reader.next()) {
      tap.begin(0, reader.originNs!);
      tap.update(reader.batch, 0, reader.batch.count);
    }
    reader.close();
    reader.free();
    const sealed = tap.seal();
    tap.free();
    const { counters, total } = read(sealed, text);
    expect(counters).toMatchObject({ packets: 3, answered: 3, seen: 4, lost: 1, forged: 2 });
    expect(counters).toMatchObject({ duplicate: 1, reordered: 1, restarts: 0, oneSided: 0 });
    expect(Number(total.sum)).toBe(200_000 + 400_000 + 600_000);
    const { segment } = ask(sealed, text);
    expect(segment!.notes.join("\n")).toMatch(/1 of 5 references lost/);
    expect(segment!.notes.join("\n")).toMatch(/2 packets to the references' port not used/);
    expect(segment!.notes.join("\n")).toMatch(/1 reordered reference: not used/);
  });

  test("give others a delay column", async () => {
    const file = join(scratch, "column.pcap");
    writePcap(file, packets);
    const reader = await CaptureReader.open(kernels, file, {});
    async function* batches() {
      while (await reader.next()) yield { batch: reader.batch, originNs: reader.originNs! };
    }
    const delays: number[] = [];
    for await (const { batch } of interpolateDelays(kernels, batches(), { session: 1 })) {
      delays.push(...batch.delayNs.subarray(0, batch.count));
    }
    reader.close();
    reader.free();
    const none = Number.NaN;
    expect(delays.slice(0, 6)).toEqual([100_000, 200_000, 300_000, none, 400_000, none]);
    expect(delays.slice(6)).toEqual([none, 500_000, none, 600_000, 700_000]);
  });
});

test("the delay column holds what the tap sums, whatever the batches are", async () => {
  const rows: Packet[] = [];
  for (let i = 0; i < 5000; i++) {
    const own = i > 40 && i < 4900 && (i * 7919) % 100 < 4;
    const time = 1000 * i + ((i * 31) % 700);
    rows.push(
      own ? reference(time, 10_000 + ((i * 37) % 900)) : regular(time, 1 + (i % 11), 60 + (i % 1000)),
    );
  }
  // The delay column is made with backlogs.
  const text = "drain=1e9,line=backlog";
  const expected = byFlow(read(seal(rows, text), text));
  for (const [size, hold] of [
    [7, 64],
    [333, 64],
    [5000, 1],
  ] as const) {
    function* batches() {
      for (let i = 0; i < rows.length; i += size) {
        const batch = batchOf(rows.slice(i, i + size));
        yield { batch, originNs: 5n };
        batch.free();
      }
    }
    const found: Record<number, { packets: number; sum: number }> = {};
    for await (const { batch } of interpolateDelays(kernels, batches(), { drainBps: 1e9, hold })) {
      for (let i = 0; i < batch.count; i++) {
        if (Number.isNaN(batch.delayNs[i]!) || (batch.flags[i]! & REFERENCE) !== 0) continue;
        const of = (found[batch.flowHash[2 * i]!] ??= { packets: 0, sum: 0 });
        of.packets++;
        of.sum += batch.delayNs[i]!;
      }
    }
    expect(found).toEqual(expected);
  }
});

test("a missing record and an absent flow have a reason", () => {
  const flows = knownFlows(read(seal([reference(0, 1), regular(1, 4), reference(2, 1)])));
  const none = rli.estimate({
    ...{ parameters: parseParameters(rli), seed: SEED, sender: null, receiver: null, flows },
    confidence: 0.9,
    epochNs: 1,
  });
  expect(none.flows[0]!.mean).toMatchObject({ reason: "no-packets" });
  const other = seal([reference(0, 1), regular(1, 5), reference(2, 1)]);
  expect(isNoAnswer(ask(other, "", flows).flows[0]!.mean)).toBe(true);
});
