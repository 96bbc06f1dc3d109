/** Runs streams of packets through the matching kernel, as `compare` does. */
import { Kernels } from "../../src/base/kernels.ts";
import { PacketBatch } from "../../src/capture/batch.ts";
import { FlowKeySpec } from "../../src/capture/flow/flow-key.ts";
import { RunFinder } from "../../src/capture/flow/key-runs.ts";
import { ExactMatcher } from "../../src/match/matcher.ts";

export interface Packet {
  timeNs: number;
  digest: number;
  flow: number;
  ttl?: number;
}

const ROWS = 64;

/** Runs both streams in time order through the kernel, with batches and strides as in compare. */
export function runMatcher(
  before: readonly Packet[],
  after: readonly Packet[],
  options: { windowNs: number; epochNs: number; thresholdNs?: number },
): ExactMatcher {
  const { windowNs, epochNs } = options;
  const kernels = new Kernels();
  const matcher = new ExactMatcher(kernels, {
    windowNs,
    epochNs,
    epochStartNs: 0,
    thresholdNs: options.thresholdNs ?? Number.NEGATIVE_INFINITY,
    correction: { offsetNs: 0, slope: 0, pivotNs: 0 },
    startNs: Math.min(before[0]?.timeNs ?? 0, after[0]?.timeNs ?? 0),
    slackNs: windowNs / 8,
    rows: ROWS,
    seed: 1n,
  });
  const finder = new RunFinder(kernels, FlowKeySpec.parse("5tuple"), 1n, ROWS);
  const sides = [before, after].map((packets) => ({
    packets,
    batch: new PacketBatch(kernels, ROWS),
    next: 0,
    row: 0,
  }));
  const load = (side: number): boolean => {
    const s = sides[side]!;
    const rows = s.packets.slice(s.next, s.next + ROWS);
    s.next += rows.length;
    s.row = 0;
    for (const [i, p] of rows.entries()) {
      s.batch.timeNs[i] = p.timeNs;
      // Spreads the values over 64 bits, like digests.
      s.batch.digest[2 * i] = Math.imul(p.digest + 1, 0x9e3779b1) >>> 0;
      s.batch.digest[2 * i + 1] = Math.imul(p.digest + 1, 0x85ebca6b) >>> 0;
      s.batch.meta[2 * i] = p.flow;
      s.batch.meta[2 * i + 1] = 0;
      s.batch.addrA[2 * i] = p.flow;
      s.batch.addrA[2 * i + 1] = 7;
      s.batch.wireLength[i] = 100;
      s.batch.flags[i] = p.ttl ?? 64;
    }
    s.batch.count = rows.length;
    return rows.length > 0;
  };
  const alive = [load(0), load(1)];
  for (const side of [0, 1] as const) if (!alive[side]) matcher.end(side);
  const lead = windowNs / 8;
  const head = (side: number) =>
    alive[side] ? sides[side]!.batch.timeNs[sides[side]!.row]! : Number.POSITIVE_INFINITY;
  while (alive[0] || alive[1]) {
    const side = alive[0] && head(0) <= head(1) + lead / 4 ? 0 : 1;
    const until = side === 0 ? head(1) + lead : head(0) - lead / 4;
    const s = sides[side]!;
    const to = s.batch.rowsUntil(s.row, until, 0);
    // Keys of AFTER are passed one by one or as runs, which must make no difference.
    const runs =
      side === 1 && to % 3 !== 0 ? finder.findRows(s.batch, s.row, to) : finder.find(s.batch, s.row, to);
    matcher.takeRows(side, s.batch, runs, s.row, 0);
    s.row = to;
    if (s.row >= s.batch.count) {
      alive[side] = load(side);
      if (!alive[side]) matcher.end(side);
    }
  }
  matcher.finish();
  return matcher;
}
