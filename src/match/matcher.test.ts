/** Compares the matching kernel with a slow, obvious reference on random two-sided streams, and covers cases that are easy to get wrong. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Packet, runMatcher } from "../../tests/support/run-matcher.ts";
import { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "../capture/batch.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { RunFinder } from "../capture/flow/key-runs.ts";
import { ExactMatcher } from "./matcher.ts";

const WINDOW = 1000;

const runKernel = (before: Packet[], after: Packet[], options: { thresholdNs?: number } = {}) =>
  runMatcher(before, after, { windowNs: WINDOW, epochNs: 500, ...options });

/** First in, first out among equal digests within the window; nothing clever. */
function runTwin(before: Packet[], after: Packet[]) {
  const waiting = before.map((p) => ({ ...p, matched: false }));
  const delays: { flow: number; delay: number }[] = [];
  let unmatched = 0;
  for (const a of after) {
    const partner = waiting.find(
      (b) => !b.matched && b.digest === a.digest && Math.abs(a.timeNs - b.timeNs) <= WINDOW,
    );
    if (partner) {
      partner.matched = true;
      delays.push({ flow: partner.flow, delay: a.timeNs - partner.timeNs });
    } else unmatched++;
  }
  return { delays, lost: waiting.filter((b) => !b.matched).length, unmatched };
}

function totals(matcher: ExactMatcher) {
  const sum = { sent: 0, received: 0, matched: 0, onlyBefore: 0, onlyAfter: 0 };
  for (let id = 0; id < matcher.flowCount; id++) {
    const f = matcher.flow(id);
    sum.sent += f.sent;
    sum.received += f.received;
    sum.matched += f.matched;
    sum.onlyBefore += f.lost + f.headBefore + f.tailBefore;
    sum.onlyAfter += f.appeared + f.duplicates + f.headAfter + f.tailAfter;
  }
  return sum;
}

const flowOf = (digest: number) => digest % 5;

/** Traffic with loss, repeats, reordering and foreign packets. */
const streams = fc
  .array(
    fc.record({
      gap: fc.integer({ min: 0, max: 60 }),
      delay: fc.integer({ min: 0, max: 700 }),
      fate: fc.constantFrom("pass", "pass", "pass", "pass", "lost", "copied", "foreign"),
      digest: fc.integer({ min: 0, max: 400 }),
    }),
    { maxLength: 400 },
  )
  .map((list) => {
    const before: Packet[] = [];
    const after: Packet[] = [];
    let now = 0;
    for (const { gap, delay, fate, digest } of list) {
      now += gap;
      const flow = flowOf(digest);
      if (fate !== "foreign") before.push({ timeNs: now, digest, flow });
      if (fate !== "lost") after.push({ timeNs: now + delay, digest, flow });
      if (fate === "copied") after.push({ timeNs: now + delay + 1, digest, flow });
    }
    after.sort((a, b) => a.timeNs - b.timeNs);
    return { before, after };
  });

describe("the matching kernel", () => {
  test("finds the pairs that a slow search finds, on any traffic", () => {
    fc.assert(
      fc.property(streams, ({ before, after }) => {
        const matcher = runKernel(before, after);
        const twin = runTwin(before, after);
        const t = totals(matcher);
        expect(t.sent).toBe(before.length);
        expect(t.received).toBe(after.length);
        // Every packet is accounted for exactly once.
        expect(t.matched + t.onlyBefore).toBe(before.length);
        expect(t.matched + t.onlyAfter).toBe(after.length);
        // Foreign packets can be paired with a later equal one: the reference sees all of BEFORE, the kernel reads in time order; the number of pairs may
        // differ only by those.
        expect(t.matched).toBe(twin.delays.length);
        expect(t.onlyBefore).toBe(twin.lost);
      }),
      { numRuns: 200, seed: 1 },
    );
  });

  test("keeps exact sums: mean, min, max and standard deviation of every flow", () => {
    const distinct = streams.map(({ before, after }) => {
      // One digest per packet, so that the pairing of the reference is certain.
      const rename = (list: Packet[]) => {
        const seen = new Map<number, number>();
        return list.map((p) => {
          const n = seen.get(p.digest) ?? 0;
          seen.set(p.digest, n + 1);
          return { ...p, digest: p.digest + 1000 * n };
        });
      };
      return { before: rename(before), after: rename(after) };
    });
    fc.assert(
      fc.property(distinct, ({ before, after }) => {
        const matcher = runKernel(before, after);
        const { delays } = runTwin(before, after);
        for (let id = 0; id < matcher.flowCount; id++) {
          const f = matcher.flow(id);
          const { words, at } = matcher.keyWords(id);
          const mine = delays.filter((d) => d.flow === words[at]).map((d) => d.delay);
          expect(f.matched).toBe(mine.length);
          if (mine.length === 0) {
            expect(f.delay).toBeNull();
            continue;
          }
          const mean = mine.reduce((s, d) => s + d, 0) / mine.length;
          const variance = mine.reduce((s, d) => s + (d - mean) ** 2, 0) / mine.length;
          expect(f.delay!.meanNs).toBeCloseTo(mean, 6);
          expect(f.delay!.stdevNs).toBeCloseTo(Math.sqrt(variance), 4);
          expect(f.delay!.minNs).toBe(Math.min(...mine));
          expect(f.delay!.maxNs).toBe(Math.max(...mine));
          if (mine.length > 3) {
            const run = matcher.flows.buckets(id);
            expect(run.counts.reduce((s, n) => s + n, 0)).toBe(mine.length);
          }
        }
        const intervals = matcher.intervals();
        expect(intervals.reduce((s, i) => s + i.matched, 0)).toBe(delays.length);
      }),
      { numRuns: 60, seed: 2 },
    );
  });

  test("a partner later than the window is not one", () => {
    const matcher = runKernel(
      [
        { timeNs: 0, digest: 1, flow: 1 },
        { timeNs: 1, digest: 2, flow: 1 },
      ],
      [
        { timeNs: WINDOW, digest: 1, flow: 1 },
        { timeNs: WINDOW + 2, digest: 2, flow: 1 },
      ],
    );
    expect(matcher.flow(0)).toMatchObject({ matched: 1 });
  });

  test("a further copy of a matched packet is a duplicate, not a packet that appeared", () => {
    const before = Array.from({ length: 50 }, (_, i) => ({ timeNs: i * 10, digest: i, flow: 1 }));
    const after = before.flatMap((p) => {
      const arrived = { ...p, timeNs: p.timeNs + 5 };
      return p.digest === 20 ? [arrived, { ...arrived, timeNs: arrived.timeNs + 1 }] : [arrived];
    });
    const flow = runKernel(before, after).flow(0);
    expect(flow).toMatchObject({ matched: 50, duplicates: 1, appeared: 0, lost: 0 });
  });

  test("a copy is a duplicate also where the packet itself is read later at the sender, its clock being ahead", () => {
    const before = Array.from({ length: 50 }, (_, i) => ({ timeNs: 5000 + i * 10, digest: i, flow: 1 }));
    const after = before.flatMap((p) => {
      const arrived = { ...p, timeNs: p.timeNs - 1000 };
      return p.digest === 20 ? [arrived, { ...arrived, timeNs: arrived.timeNs + 1 }] : [arrived];
    });
    const flow = runKernel(before, after).flow(0);
    expect(flow).toMatchObject({ matched: 50, duplicates: 1, appeared: 0, lost: 0 });
  });

  test("counts reordered packets and how far they came too late", () => {
    const before = Array.from({ length: 10 }, (_, i) => ({ timeNs: i * 10, digest: i, flow: 1 }));
    const after = before.map((p) => ({ ...p, timeNs: p.timeNs + 100 }));
    // Packet 3 is overtaken by 4, 5 and 6.
    after[3]!.timeNs = 165;
    after.sort((a, b) => a.timeNs - b.timeNs);
    const total = runKernel(before, after).total(1);
    expect(total.reordered).toBe(1);
    expect(total.extentMax).toBe(3);
  });

  test("packets outside the other capture's time are head and tail, those inside are lost", () => {
    const before = Array.from({ length: 100 }, (_, i) => ({ timeNs: i * 10, digest: i, flow: 1 }));
    const after = before.slice(20, 80).map((p) => ({ ...p, timeNs: p.timeNs + 5 }));
    after.splice(30, 1);
    expect(runKernel(before, after).flow(0)).toMatchObject({
      matched: 59,
      headBefore: 20,
      tailBefore: 20,
      lost: 1,
    });
    expect(
      runKernel(
        before.slice(20, 80),
        before.map((p) => ({ ...p, timeNs: p.timeNs + 5 })),
      ).flow(0),
    ).toMatchObject({
      matched: 60,
      headAfter: 20,
      tailAfter: 20,
      appeared: 0,
    });
  });

  test("memory is given back as packets leave the window", () => {
    const packets = Array.from({ length: 60_000 }, (_, i) => ({ timeNs: i * 50, digest: i, flow: i % 7 }));
    const matcher = runKernel(packets, []);
    expect(totals(matcher)).toMatchObject({ sent: 60_000, onlyBefore: 60_000, matched: 0 });
    // 1000 ns of waiting packets, 50 ns apart: six times as many packets take no more room.
    expect(matcher.tableBytes).toBe(runKernel(packets.slice(0, 10_000), []).tableBytes);
    expect(matcher.tableBytes).toBeLessThan(1_000_000);
  });

  test("what has left the window is not looked at any more, whatever lies in its place", () => {
    // Nothing arrives: no partner ever passes, and many equal packets follow each other for many windows.
    const packets = Array.from({ length: 120_000 }, (_, i) => ({ timeNs: i, digest: i % 3000, flow: i % 7 }));
    const matcher = runKernel(packets, []);
    expect(totals(matcher)).toMatchObject({ sent: 120_000, onlyBefore: 120_000, matched: 0 });
    const late = packets.slice(-500).map((p) => ({ ...p, timeNs: p.timeNs + 100 }));
    const some = runKernel(packets, late);
    const { delays } = runTwin(packets.slice(-3000), late);
    expect(totals(some)).toMatchObject({ matched: delays.length, onlyAfter: 0 });
    expect(some.total(1).delay).toMatchObject({ minNs: 100, maxNs: 100 });
  });

  test("finds partners in any order among many that wait, and no delay of those that may be either of two", () => {
    // All packets wait at once: the log grows several times, and the order of arrival does not help.
    const n = 20_000;
    const rowsOf = (kernels: Kernels, packets: Packet[]) => {
      const batch = new PacketBatch(kernels, packets.length);
      for (const [i, p] of packets.entries()) {
        batch.timeNs[i] = p.timeNs;
        batch.digest.set(
          [Math.imul(p.digest + 1, 0x9e3779b1) >>> 0, Math.imul(p.digest + 1, 0x85ebca6b) >>> 0],
          2 * i,
        );
        batch.flowHash.set([p.flow, p.flow], 2 * i);
        batch.meta.set([p.flow, 0], 2 * i);
        batch.addrA.set([p.flow, 7], 2 * i);
        batch.wireLength[i] = 100;
        batch.flags[i] = 64;
      }
      batch.count = packets.length;
      return batch;
    };
    const kernels = new Kernels();
    const window = 10 * n;
    const matcher = new ExactMatcher(kernels, {
      windowNs: window,
      epochNs: 1e9,
      epochStartNs: 0,
      thresholdNs: Number.NEGATIVE_INFINITY,
      correction: { offsetNs: 0, slope: 0, pivotNs: 0 },
      startNs: 0,
      slackNs: 0,
      rows: n,
      seed: 1n,
    });
    // One in twenty has the digest of an earlier one.
    const before = Array.from({ length: n }, (_, i) => ({
      timeNs: i,
      digest: i % 20 === 19 ? i - 13 : i,
      flow: i % 7,
    }));
    const after = before.map((p, i) => ({ ...p, timeNs: n + ((i * 7919) % n) }));
    after.sort((a, b) => a.timeNs - b.timeNs);
    for (const [side, packets] of [before, after].entries()) {
      const batch = rowsOf(kernels, packets);
      const finder = new RunFinder(kernels, FlowKeySpec.parse("5tuple"), 1n, n);
      matcher.takeRows(side as 0 | 1, batch, finder.find(batch, 0, n), 0, 0);
    }
    matcher.finish();
    const waiting = new Map<number, Packet[]>();
    for (const p of before) waiting.set(p.digest, [...(waiting.get(p.digest) ?? []), p]);
    const alone = after.filter((p) => waiting.get(p.digest)?.length === 1);
    const sum = alone.reduce((s, p) => s + p.timeNs - waiting.get(p.digest)![0]!.timeNs, 0);
    expect(totals(matcher)).toMatchObject({ matched: n, onlyBefore: 0, onlyAfter: 0 });
    expect(alone.length).toBe(n - n / 10);
    // Sometimes two equal ones arrive at about the same time: then it does not matter which is which.
    expect(matcher.ambiguous).toBeGreaterThan(0.85 * (n / 10));
    expect(matcher.total(1).matched).toBe(n - matcher.ambiguous);
    expect(Math.abs(matcher.total(1).delay!.meanNs - sum / alone.length)).toBeLessThan(200);
  });

  test("packets of both directions are separated by the sign of their difference", () => {
    const before: Packet[] = [];
    const after: Packet[] = [];
    for (let i = 0; i < 100; i++) {
      before.push({ timeNs: i * 20, digest: i, flow: 1 });
      after.push({ timeNs: i * 20 + 7, digest: i, flow: 1 });
      after.push({ timeNs: i * 20 + 3, digest: 1000 + i, flow: 2 });
      before.push({ timeNs: i * 20 + 16, digest: 1000 + i, flow: 2 });
    }
    after.sort((a, b) => a.timeNs - b.timeNs);
    const matcher = runKernel(before, after, { thresholdNs: 0 });
    expect(matcher.total(1).delay).toMatchObject({ count: 100, minNs: 7, maxNs: 7 });
    expect(matcher.total(2).delay).toMatchObject({ count: 100, minNs: 13, maxNs: 13 });
  });
});
