/**
 * The standard deviation of a flow's delays from cells that hold next to nobody else's packets: the cells' means differ by what packets differ by,
 * sigma^2 = sum (x_j - n_j mean)^2 / n_j / freedom. Around the cells' own mean: around one from elsewhere it would have that mean's error.
 *
 * Intervals are those of chi-square with the degrees of freedom that the cells are worth: (x - n mean)^2 / n has the relative variance 2 + kurtosis / n, so a
 * cell of few packets is worth less than one (measured on exponential and lognormal delays). What others' packets in the cells may have added is taken off
 * below, in full and several times over, and not above; where it is a large part there is no answer.
 */
import { chiSquareQuantile } from "../../base/math/special.ts";
import type { Interval, NoAnswer } from "../estimator.ts";

export interface OwnCell {
  packets: number;
  delaySumNs: number;
  /** Variance that others' packets are expected to add to the sum. */
  foreignVariance: number;
}

/** Excess kurtosis that delays of one flow are taken to have: an exponential has 6. */
const KURTOSIS = 6;
/** Of what the cells differ by, others may have brought this share. */
const MAX_FOREIGN = 0.3;
/** What is expected of others may be exceeded by this factor. */
const FOREIGN_BEYOND = 4;

/** Degrees of freedom below which an interval would say nothing. */
const MIN_FREEDOM = 1.5;

/** `groups`: cells among which packets were shared out; what one group lacks another may hold again. */
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
  // Squares of `plain` cells spread as chi-square of `freedom` does, around the same mean.
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
