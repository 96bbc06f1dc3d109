/**
 * The deviation of a flow's delays, where a flow owns its counters (../cells/deviation.ts). This is what the paper's virtual repetitions converge to
 * (closed form in ../lab/colate-literal/deviation.ts), with relative error sqrt(2 / (k - 1)) over k counters whatever their number: with m = 2 it is a
 * guess, and there is no answer.
 */
import { type SmoothBackground, smoothVariance } from "../cells/background.ts";
import { deviationOfCells, type OwnCell } from "../cells/deviation.ts";
import type { Interval, NoAnswer } from "../estimator.ts";
import type { Decoded } from "./decode.ts";
import type { Difference } from "./difference.ts";

/** Others' packets that a counter of one's own may hold, of all. */
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

/** Others are off the flow's mean by what they vary, and by how far the flow is from the common mean. A fraction of a packet is a chance of one. */
function foreignOf(others: number, background: SmoothBackground, apart: number): number {
  if (others < 1e-9) return 0;
  const packets = Math.max(1, others);
  return (others / packets) * (smoothVariance(background, packets) + packets * packets * apart);
}
