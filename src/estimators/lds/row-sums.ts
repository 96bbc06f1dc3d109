/**
 * A flow's mean over its actual packets, from a row that holds all of them: the sum of its cells minus what others in them add, divided by its packets. Its own
 * jitter is part of the sum and of the wanted mean, so it is not noise here, while it is for the belief about the flow's level. A flow that does not share its
 * cells of a row is answered exactly.
 *
 *   mean = sum_c (y_c - sum_{g != f} a_gc theta_g) / p
 *   variance (sum_c sqrt(sum_{g != f} a_gc^2 v_g))^2 + sum_c sum_{g != f} (open_gc (theta_g^2 + v_g) + a_gc s_g^2 (1 - a_gc / p_g)), over p^2
 *
 * Neighbours meet a flow in several of its cells, so an error about them is the same in all of these cells.
 */
import { type Exchanged, echoOf, type Problem, ROUNDING } from "./messages.ts";

/** Replaces, in place, mean and variance of flows whose sum is more precise than the belief about them. */
export function answerBySums(
  problem: Problem,
  packets: Float64Array,
  columns: number,
  { theta, spread }: Pick<Exchanged, "theta" | "spread">,
  variance: Float64Array,
): void {
  const { graph, y, jitterVariance } = problem;
  const { starts, cell, a, apart, open, fitted } = graph;
  if (!fitted.includes(true)) return;
  const echo = echoOf(graph);
  // Per cell of these rows: what all flows in it add, and the variance of that, from the flows' levels and from their packets.
  const added = new Float64Array(y.length);
  const ofLevels = new Float64Array(y.length);
  const ofPackets = new Float64Array(y.length);
  const level = (e: number) => a[e]! * a[e]! * spread[e]!;
  const byPackets = (e: number, f: number) =>
    open[e]! * (theta[f]! ** 2 + spread[e]!) + apart[e]! * a[e]! * jitterVariance[f]!;
  const isFitted = (e: number) => fitted[Math.floor(cell[e]! / columns)] === true;
  for (let f = 0; f < theta.length; f++) {
    for (let e = starts[f]!; e < starts[f + 1]!; e++) {
      if (!isFitted(e)) continue;
      added[cell[e]!]! += a[e]! * theta[f]!;
      ofLevels[cell[e]!]! += level(e);
      ofPackets[cell[e]!]! += byPackets(e, f);
    }
  }
  const believed = Float64Array.from(theta);
  for (let f = 0; f < theta.length; f++) {
    for (let e = starts[f]!; e < starts[f + 1]!; ) {
      const row = Math.floor(cell[e]! / columns);
      let [seen, sum, alike, separate] = [0, 0, 0, 0];
      for (; e < starts[f + 1]! && cell[e]! < (row + 1) * columns; e++) {
        const c = cell[e]!;
        seen += a[e]!;
        sum += y[c]! - added[c]! + a[e]! * believed[f]!;
        alike += Math.sqrt(Math.max(ROUNDING * ofLevels[c]!, ofLevels[c]! - level(e)));
        // Whole nanoseconds at both ends add a rounding variance of 1/6 ns^2 per packet.
        separate += Math.max(ROUNDING * ofPackets[c]!, ofPackets[c]! - byPackets(e, f)) + a[e]! / 6;
      }
      const p = packets[f]!;
      // Packets in unusable cells are missing from the sum.
      if (fitted[row] !== true || !(seen > p * ALL)) continue;
      const square = echo * alike * alike + separate;
      if (!(square < variance[f]! * p * p)) continue;
      theta[f] = sum / p;
      variance[f] = square / (p * p);
    }
  }
}

/** Share of a flow's packets that must be in usable cells; the fit of the allocation leaves a small rest. */
const ALL = 0.999;
