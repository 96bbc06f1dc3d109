/**
 * The quick answer: a flow by itself, all other packets of its counters taken as background. It needs no list of flows, only how many packets the
 * flow has.
 *
 *   theta = sum (a y / var) / sum (a^2 / var),  var = alpha N_o + beta N_o^2 + s^2 a,  N_o = N_c - a
 *
 * alpha, beta: how sums of background packets vary (fitted over all counters); shrunk by V / (V + 1 / sum (a^2 / var)).
 */
import { type SmoothBackground, smoothVariance } from "../cells/background.ts";
import { type Prior, packetVarianceOf } from "./blup.ts";
import type { FlowGraph } from "./flow-graph.ts";

/** Mean delay less the common mean, and its variance, per flow. */
export function quickAnswers(
  graph: FlowGraph,
  counts: Float64Array,
  y: Float64Array,
  prior: Prior,
  priors: Float64Array,
  background: SmoothBackground,
): { thetaNs: Float64Array; variance: Float64Array } {
  const { flows, starts, cell, a, rho, open } = graph;
  const thetaNs = new Float64Array(flows);
  const variance = new Float64Array(flows);
  for (let f = 0; f < flows; f++) {
    let weighted = 0;
    let precision = 1 / priors[f]!;
    for (let e = starts[f]!; e < starts[f + 1]!; e++) {
      const c = cell[e]!;
      const own = a[e]!;
      const others = Math.max(0, counts[c]! - own);
      // How many of its packets fell into the cell is chance too, as far as the cell's count leaves it open.
      const v =
        smoothVariance(background, others) +
        packetVarianceOf(prior, f) * own * (1 - rho[e]!) +
        prior.flowVariance * open[e]! +
        1;
      weighted += (own * y[c]!) / v;
      precision += (own * own) / v;
    }
    thetaNs[f] = weighted / precision;
    variance[f] = 1 / precision;
  }
  return { thetaNs, variance };
}
