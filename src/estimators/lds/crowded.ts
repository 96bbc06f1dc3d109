/**
 * The variance between flows if cells mix many of them. The means of such cells are all alike, however much the flows differ. Used as the spread of flows, they
 * would make intervals too narrow, the more so the more crowded the cells are. But counts show the composition of cells without knowing any flow: a flow with a
 * packets in a cell adds a^2 to the variance of the counts over a row's columns, and a^2 theta^2 to the variance of y = S - mean N. Their quotient is the
 * variance between flows, or more if packets vary within flows. Both variances come from the quartiles of the cells, which no giant flow dominates.
 */
import { quantileSorted } from "../../base/math/regression.ts";
import type { DelaySketch } from "./difference.ts";

export interface Spread {
  /** Variance between the means of flows, if packets within a flow are alike. */
  betweenFlows: number;
  /** Variance between packets, if flows are alike. */
  betweenPackets: number;
}

/** Rows whose cells usually hold fewer packets are not crowded: single cells show the flows. */
const CROWDED = 8;
/** Quartiles of fewer cells mean little. */
const ENOUGH_CELLS = 30;
/** Distance between the quartiles of a normal distribution, in standard deviations. */
const QUARTILES_APART = 1.349;
/** Median of the square of a standard normal variable. */
const HALF_SQUARE = 0.4549;

/** Returns the means over the crowded rows; 0 if there are none. */
export function crowdedSpread(sketch: DelaySketch, meanNs: number): Spread {
  const { rows, columns } = sketch.geometry;
  let [betweenFlows, betweenPackets, crowded] = [0, 0, 0];
  for (let r = 0; r < rows; r++) {
    const row = rowSpread(sketch, meanNs, r * columns, (r + 1) * columns);
    if (!row) continue;
    betweenFlows += row.betweenFlows;
    betweenPackets += row.betweenPackets;
    crowded++;
  }
  const n = Math.max(1, crowded);
  return { betweenFlows: betweenFlows / n, betweenPackets: betweenPackets / n };
}

function rowSpread(sketch: DelaySketch, meanNs: number, from: number, to: number): Spread | null {
  const { usable, received, delaySumNs } = sketch;
  const counts: number[] = [];
  const squares: number[] = [];
  const perPacket: number[] = [];
  for (let c = from; c < to; c++) {
    if (usable[c] === 0) continue;
    const n = received[c]!;
    const y = delaySumNs[c]! - meanNs * n;
    counts.push(n);
    squares.push(y * y);
    perPacket.push((y * y) / n);
  }
  if (counts.length < ENOUGH_CELLS) return null;
  const at = (values: number[], q: number) => quantileSorted(values, q) ?? 0;
  for (const list of [counts, squares, perPacket]) list.sort((a, b) => a - b);
  const apart = (at(counts, 0.75) - at(counts, 0.25)) / QUARTILES_APART;
  if (at(counts, 0.5) < CROWDED || !(apart > 0)) return null;
  return {
    betweenFlows: at(squares, 0.5) / HALF_SQUARE / apart ** 2,
    betweenPackets: at(perPacket, 0.5) / HALF_SQUARE,
  };
}
