/**
 * How packets vary within a flow, seen where a flow has several cells of a row to itself: its packets fall into them at random, so the cells' means differ by
 * jitter alone. Each flow's variance is drawn towards that of all flows as far as few cells speak for it.
 */
import type { DelaySketch } from "./difference.ts";
import type { FlowSet } from "./flow-set.ts";

export interface Jitter {
  /** Variance of a packet around its flow's mean, ns^2. */
  perFlow: Float64Array;
  pooled: number;
  /** Differences between cells that it rests on. */
  freedom: number;
}

/** Foreign packets that a cell of one's own may hold, of all. */
const MAX_OTHERS = 0.02;
const PRIOR_FREEDOM = 4;
/** Differences between cells that jitter must rest on to be believed. */
export const ENOUGH_FREEDOM = 50;

export function measureJitter(sketch: DelaySketch, flows: FlowSet): Jitter {
  const { rows, k } = sketch.geometry;
  const squares = new Float64Array(flows.count);
  const freedoms = new Float64Array(flows.count);
  let pooled = 0;
  let freedom = 0;
  for (let f = 0; f < flows.count; f++) {
    const weight = flows.weights?.[f] ?? 1;
    for (let r = 0; r < rows; r++) {
      const share = sketch.shares[r]!;
      const expected = flows.packets[f]! * share;
      if (share === 1 || expected < 1) continue;
      const own = Math.sqrt(expected) + expected;
      let n = 0;
      let delays = 0;
      let cells = 0;
      for (let pass = 0; pass < 2 && (pass === 0 || cells > 1); pass++) {
        const mean = pass === 0 ? 0 : delays / n;
        for (let i = 0; i < k; i++) {
          const c = flows.cells[f * flows.cellsPerFlow + r * k + i]!;
          const packets = sketch.received[c]! / weight;
          if (sketch.usable[c] === 0 || packets - own > MAX_OTHERS * packets) continue;
          const sum = sketch.delaySumNs[c]! / weight;
          if (pass === 0) {
            n += packets;
            delays += sum;
            cells++;
          } else squares[f]! += (sum - packets * mean) ** 2 / packets;
        }
      }
      if (cells > 1) freedoms[f]! += cells - 1;
    }
    pooled += squares[f]!;
    freedom += freedoms[f]!;
  }
  pooled = freedom > 0 ? pooled / freedom : 0;
  // Two degrees less below the line: the mean of a variance known that well, not its most likely value.
  const perFlow = squares.map((s, f) => (s + PRIOR_FREEDOM * pooled) / (freedoms[f]! + PRIOR_FREEDOM - 2));
  return { perFlow, pooled, freedom };
}
