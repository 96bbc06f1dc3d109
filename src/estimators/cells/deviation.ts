/**
 * The standard deviation of a flow's delays, from cells that hold almost only its own packets. The means of these cells differ by the variation of single
 * packets: sigma^2 = sum (x_j - n_j mean)^2 / n_j / freedom. The mean is that of these cells; a mean from elsewhere would add its own error.
 *
 * Intervals are chi-square with effective degrees of freedom: (x - n mean)^2 / n has the relative variance 2 + kurtosis / n, so a cell of few packets
 * counts for less than one (measured on exponential and lognormal delays). The variance that packets of other flows may have added to the cells is
 * subtracted: once from the value, several times from the lower end, not at all from the upper end. If it is a large part, there is no answer.
 */
import { chiSquareQuantile } from "../../base/math/special.ts";
import type { Interval, NoAnswer } from "../estimator.ts";

export interface OwnCell {
  packets: number;
  delaySumNs: number;
  /** Variance that packets of other flows are expected to add to the sum. */
  foreignVariance: number;
}

/** Assumed excess kurtosis of the delays of one flow; an exponential distribution has 6. */
const KURTOSIS = 6;
/** Maximum share of the cells' differences that may come from other flows. */
const MAX_FOREIGN = 0.3;
/** Factor by which the contribution of other flows may exceed its expectation. */
const FOREIGN_BEYOND = 4;

/** Degrees of freedom below which an interval is meaningless. */
const MIN_FREEDOM = 1.5;

/** `groups`: sets of cells that share out the same packets. A packet missing in one group may be present in another. */
export function deviationOfCells(
  groups: readonly (readonly OwnCell[])[],
  roundingNs2: number,
  confidence: number,
): Interval | NoAnswer {
  let [squares, foreign, plain, freedom] = [0, 0, 0, 0];
  for (const cells of groups) {
    if (cells.length < 2) continue;
    const total = cells.reduce((s, c) => s + c.packets, 0);
    const centre = cells.reduce((s, c) => s + c.delaySumNs, 0) / total;
    let worth = 0;
    for (const { packets, delaySumNs, foreignVariance } of cells) {
      squares += (delaySumNs - packets * centre) ** 2 / packets;
      foreign += foreignVariance / packets;
      worth += 2 / (2 + KURTOSIS / packets);
    }
    plain += cells.length - 1;
    freedom += (worth * (cells.length - 1)) / cells.length;
  }
  if (freedom < MIN_FREEDOM) {
    return {
      reason: "no-usable-cells",
      text: "standard deviation not measurable: too few cells contain packets of this flow only",
    };
  }
  if (foreign > MAX_FOREIGN * squares) {
    return {
      reason: "too-much-noise",
      text: "standard deviation not measurable: its cells also contain packets of other flows, which may vary more",
    };
  }
  const tail = (1 - confidence) / 2;
  // The squares of `plain` cells vary like chi-square with `freedom` degrees of freedom, around the same mean.
  const scale = freedom / plain;
  const low = Math.max(0, squares - FOREIGN_BEYOND * foreign) * scale;
  const variance = Math.max(0, (squares - foreign) / plain - roundingNs2);
  return {
    valueNs: Math.sqrt(variance),
    lowNs: Math.min(
      Math.sqrt(variance),
      Math.sqrt(Math.max(0, low / chiSquareQuantile(1 - tail, freedom) - roundingNs2)),
    ),
    highNs: Math.max(Math.sqrt(variance), Math.sqrt((squares * scale) / chiSquareQuantile(tail, freedom))),
  };
}
