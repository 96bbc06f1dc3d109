/**
 * A flow's mean over the packets that it had, from a row that holds all of them: the sum of its cells less what others in them add, over its packets. Its own jitter is part of the sum and
 * of what is asked for, so it is no noise here, while beliefs about its level take it for such. A flow that has its cells of a row to itself is answered exactly.
 *
 *   mean = sum_c (y_c - sum_{g != f} a_gc theta_g) / p
 *   variance (sum_c sqrt(sum_{g != f} a_gc^2 v_g))^2 + sum_c sum_{g != f} (open_gc (theta_g^2 + v_g) + a_gc s_g^2 (1 - a_gc / p_g)), over p^2
 *
 * Neighbours meet a flow in several of its cells, so that what is wrong about them is wrong in all of these alike.
 */
import { type Exchanged, echoOf, type Problem, ROUNDING } from "./messages.ts";

/** Flows whose sum says more than what is believed of them get its mean and variance, in place. */
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
  // Per cell of these rows: what all flows in it add, and the variance of that, by flows' levels and by packets.
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
        // Whole nanoseconds at both ends leave a sixth of a ns^2 per packet open.
        separate += Math.max(ROUNDING * ofPackets[c]!, ofPackets[c]! - byPackets(e, f)) + a[e]! / 6;
      }
      const p = packets[f]!;
      // Packets in cells that cannot be used are missing in the sum.
      if (fitted[row] !== true || !(seen > p * ALL)) continue;
      const square = echo * alike * alike + separate;
      if (!(square < variance[f]! * p * p)) continue;
      theta[f] = sum / p;
      variance[f] = square / (p * p);
    }
  }
}

/** Of a flow's packets: what fitting leaves undone. */
const ALL = 0.999;
