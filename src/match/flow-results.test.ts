/** Compares flow results with sums over a plain list: buckets of long flows, sums by direction, and the first flows in any order. */
import { describe, expect, test } from "vitest";
import { Kernels } from "../base/kernels.ts";
import { LogHistogram } from "../base/math/log-histogram.ts";
import { Random } from "../base/random.ts";
import { PacketBatch } from "../capture/batch.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { RunFinder } from "../capture/flow/key-runs.ts";
import { ExactMatcher } from "./matcher.ts";

interface Sent {
  flow: number;
  timeNs: number;
  /** Null: lost. Negative: it goes the other way. */
  delayNs: number | null;
}

const ROWS = 512;

/**
 * Matches packets in order of their time at BEFORE, each before the next comes, so that their order at AFTER does not matter. `idle` is called between batches.
 */
function matched(packets: Sent[], idle?: (matcher: ExactMatcher) => void): ExactMatcher {
  const kernels = new Kernels();
  const matcher = new ExactMatcher(kernels, {
    windowNs: 1e6,
    epochNs: 1e9,
    epochStartNs: 0,
    thresholdNs: 0,
    correction: { offsetNs: 0, slope: 0, pivotNs: 0 },
    startNs: 0,
    slackNs: 0,
    rows: ROWS,
    seed: 1n,
  });
  const finder = new RunFinder(kernels, FlowKeySpec.parse("5tuple"), 1n, ROWS);
  const batches = [new PacketBatch(kernels, ROWS), new PacketBatch(kernels, ROWS)] as const;
  const put = (side: 0 | 1, row: number, flow: number, timeNs: number, digest: number) => {
    const batch = batches[side];
    batch.timeNs[row] = timeNs;
    batch.digest.set([Math.imul(digest, 0x9e3779b1) >>> 0, Math.imul(digest, 0x85ebca6b) >>> 0], 2 * row);
    batch.meta.set([flow, 0], 2 * row);
    batch.addrA.set([flow, 7], 2 * row);
    batch.wireLength[row] = 50 + (flow % 100);
    batch.flags[row] = 64;
  };
  for (let from = 0; from < packets.length; from += ROWS) {
    const piece = packets.slice(from, from + ROWS);
    let arrived = 0;
    for (const [i, { flow, timeNs, delayNs }] of piece.entries()) {
      put(0, i, flow, timeNs, from + i + 1);
      if (delayNs !== null) put(1, arrived++, flow, timeNs + delayNs, from + i + 1);
    }
    for (const side of [0, 1] as const) {
      batches[side].count = side === 0 ? piece.length : arrived;
      matcher.takeRows(side, batches[side], finder.find(batches[side], 0, batches[side].count), 0, 0);
    }
    idle?.(matcher);
  }
  matcher.finish();
  return matcher;
}

const random = new Random(11);
const delay = () => Math.round(Math.exp(random.float() * 12));
/** Flow 0 is long, flow 1 longer than a list, flow 2 goes the other way, the others have a few packets each; one in ten is lost. */
const packets: Sent[] = Array.from({ length: 24_000 }, (_, i) => {
  const flow = i % 3 === 0 ? 0 : i % 16 === 1 ? 1 : i % 16 === 2 ? 2 : 3 + Math.floor(random.float() * 6000);
  // Near the ends the other capture may not have seen a packet.
  const lost = i > 2000 && i < 22_000 && random.float() < 0.1;
  return { flow, timeNs: i * 100, delayNs: lost ? null : flow === 2 ? -delay() : delay() };
});
const matcher = matched(packets);

/** Flows in order of appearance. */
const flows = [...new Set(packets.map((p) => p.flow))].map((flow, id) => {
  const own = packets.filter((p) => p.flow === flow);
  const delays = own.filter((p) => p.delayNs !== null).map((p) => Math.abs(p.delayNs!));
  return {
    id,
    flow,
    way: flow === 2 ? 2 : 1,
    sent: own.length,
    bytes: own.length * (50 + (flow % 100)),
    lost: own.length - delays.length,
    delays,
    mean: delays.reduce((s, d) => s + d, 0) / delays.length,
    max: Math.max(...delays),
  };
});

describe("results of flows", () => {
  test("are those of a plain list", () => {
    expect(matcher.flowCount).toBe(flows.length);
    for (const f of flows) {
      const result = matcher.flow(f.id);
      expect(result).toMatchObject({ sent: f.sent, matched: f.delays.length, lost: f.lost, bytes: f.bytes });
      if (f.delays.length === 0) expect(result.delay).toBeNull();
      else {
        expect(result.delay!.meanNs).toBeCloseTo(f.mean, 3);
        expect(result.delay).toMatchObject({ minNs: Math.min(...f.delays), maxNs: f.max });
      }
    }
  });

  test("every delay of a flow is in its bucket, in lists of any length and beyond them", () => {
    const lengths = new Set<number>();
    for (const f of flows) {
      const { buckets, counts } = matcher.flows.buckets(f.id);
      lengths.add(f.delays.length);
      if (f.delays.length <= 3) {
        expect(buckets).toHaveLength(0);
        continue;
      }
      const expected = new LogHistogram();
      for (const d of f.delays) expected.add(d);
      expect([...buckets].map((b, i) => [b, counts[i]])).toEqual([...expected.entries()]);
    }
    // Some of each kind: no list, the classes of 8 and 512, and longer than the longest.
    expect([...lengths].some((n) => n > 3 && n <= 8)).toBe(true);
    expect(Math.max(...lengths)).toBeGreaterThan(3 * 512);
  });

  test("sums are by way only where packets go both ways", () => {
    const sum = (list: typeof flows, pick: (f: (typeof flows)[0]) => number) =>
      list.reduce((s, f) => s + pick(f), 0);
    const [one, other] = [flows.filter((f) => f.way === 1), flows.filter((f) => f.way === 2)];
    const two = matcher.flows.survey(true);
    expect(two.forward).toMatchObject({ sent: sum(one, (f) => f.sent), lost: sum(one, (f) => f.lost) });
    expect(two.reverse).toMatchObject({ sent: sum(other, (f) => f.sent), lost: sum(other, (f) => f.lost) });
    const { forward, reverse } = matcher.flows.survey(false);
    expect(forward).toMatchObject({ sent: packets.length, matched: sum(flows, (f) => f.delays.length) });
    expect(reverse).toMatchObject({ sent: 0, matched: 0 });
  });

  test.each(["packets", "bytes", "mean", "max"] as const)("the first flows by %s are the largest", (by) => {
    const none = Number.NEGATIVE_INFINITY;
    const measure = (f: (typeof flows)[0]) =>
      by === "packets" ? f.sent : by === "bytes" ? f.bytes : f.delays.length === 0 ? none : f[by];
    const edgesLost = { headBefore: true, tailBefore: true, headAfter: true, tailAfter: true };
    for (const top of [0, 1, 10, Number.POSITIVE_INFINITY]) {
      const ids = matcher.flows.choose({ way: 1, twoWay: true, by, edgesLost, top });
      const expected = flows
        .filter((f) => f.way === 1)
        .sort((a, b) => (measure(a) === measure(b) ? a.id - b.id : measure(b) - measure(a)))
        .slice(0, top);
      // Means may differ in their last digits, and so may the order of nearly equal ones.
      if (by === "mean") {
        const values = ids.map((id) => Math.round(measure(flows[id]!) * 1000));
        expect(values).toEqual(expected.map((f) => Math.round(measure(f) * 1000)));
      } else expect(ids).toEqual(expected.map((f) => f.id));
    }
    expect(matcher.flows.choose({ way: 2, twoWay: true, by, edgesLost, top: 5 })).toHaveLength(1);
    expect(matcher.flows.choose({ way: 2, twoWay: false, by, edgesLost, top: 5 })).toEqual([]);
  });
});

test("flows that take turns, packet by packet: buckets of a few flows, and then of all", () => {
  const rounds = 220;
  const flows = 500;
  const turns: Sent[] = Array.from({ length: rounds * flows }, (_, i) => ({
    flow: i % flows,
    timeNs: i * 100,
    delayNs: Math.round(Math.exp(((i * 7919) % 4096) / 400)),
  }));
  const { flows: results } = matched(turns);
  const histogram = (flow: number) => {
    const wanted = new LogHistogram();
    for (const packet of turns) if (packet.flow === flow) wanted.add(packet.delayNs ?? 0);
    const entries = [...wanted.entries()].sort(([a], [b]) => a - b);
    return entries.map(([bucket, count]) => `${bucket}:${count}`);
  };
  const read = (id: number) => {
    const { buckets, counts } = results.buckets(id);
    return Array.from(buckets, (bucket, i) => `${bucket}:${counts[i]}`);
  };
  results.settle(Uint32Array.of(3, 499));
  for (const id of [3, 499, 3, 0, 250, 499]) expect(read(id), `flow ${id}`).toEqual(histogram(id));
});

test("buckets are the same where delays were put in their lists while packets were waited for", () => {
  const many: Sent[] = Array.from({ length: 600_000 }, (_, i) => ({
    flow: i % 37,
    timeNs: i * 100,
    delayNs: delay(),
  }));
  let times = 0;
  const tidied = matched(many, (matcher) => {
    if (matcher.flows.tidy()) times++;
    // Right afterwards nothing is left to do.
    expect(matcher.flows.tidy()).toBeFalsy();
  });
  const untouched = matched(many);
  expect(times).toBe(2);
  for (let id = 0; id < 37; id++) {
    const run = tidied.flows.buckets(id);
    expect(run.counts.reduce((sum, n) => sum + n, 0)).toBe(Math.ceil((many.length - id) / 37));
    expect(run).toEqual(untouched.flows.buckets(id));
  }
});
