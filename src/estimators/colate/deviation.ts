/**
 * The standard deviation of a flow's delays, for flows that hardly share their counters (../cells/deviation.ts). The paper's virtual repetitions converge to
 * the same value (closed form in ../lab/colate-literal/deviation.ts). Its relative error is sqrt(2 / (k - 1)) over k counters, whatever the number of
 * repetitions: with m = 2 it is a guess, and there is no answer.
 */
import { type SmoothBackground, smoothVariance } from "../cells/background.ts";
import { deviationOfCells, type OwnCell } from "../cells/deviation.ts";
import type { Interval, NoAnswer } from "../estimator.ts";
import type { Decoded } from "./decode.ts";
import type { Difference } from "./difference.ts";

/** Maximum share of other flows' packets in a counter that counts as the flow's own. */
const MAX_OTHERS = 0.05;

export function deviationOf(
  decoded: Decoded,
  { packets, delayNs, unitNs }: Difference,
  f: number,
  confidence: number,
): Interval | NoAnswer {
  const { prior, background, graph, meanNs } = decoded;
  const { starts, cell, a } = graph;
  const cells: OwnCell[] = [];
  for (let e = starts[f]!; e < starts[f + 1]!; e++) {
    const c = cell[e]!;
    const others = Math.max(0, packets[c]! - a[e]!);
    if (others > MAX_OTHERS * packets[c]!) continue;
    const foreignVariance = foreignOf(others, background, (meanNs[f]! - prior.meanNs) ** 2);
    cells.push({ packets: packets[c]!, delaySumNs: delayNs[c]!, foreignVariance });
  }
  return deviationOfCells([cells], (unitNs * unitNs) / 6, confidence);
}

/**
 * Packets of other flows are off the flow's mean by their own variation plus the flow's distance from the common mean. A fraction of a packet is the
 * probability of one.
 */
function foreignOf(others: number, background: SmoothBackground, apart: number): number {
  if (others < 1e-9) return 0;
  const packets = Math.max(1, others);
  return (others / packets) * (smoothVariance(background, packets) + packets * packets * apart);
}
