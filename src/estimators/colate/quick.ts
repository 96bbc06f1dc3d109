/**
 * The quick answer: decodes a flow by itself, with all other packets of its counters as background. Needs no list of flows, only the flow's number of packets.
 *
 *   theta = sum (a y / var) / sum (a^2 / var),  var = alpha N_o + beta N_o^2 + s^2 a,  N_o = N_c - a
 *
 * alpha, beta: variance of sums of background packets (fitted over all counters). Theta is shrunk by V / (V + 1 / sum (a^2 / var)).
 */
import { type SmoothBackground, smoothVariance } from "../cells/background.ts";
import { type Prior, packetVarianceOf } from "./blup.ts";
import type { FlowGraph } from "./flow-graph.ts";

/** Returns, per flow, the mean delay minus the common mean, and its variance. */
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
      // The number of its packets in the cell is uncertain too, as far as the cell's count leaves it open.
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
