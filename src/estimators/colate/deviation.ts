/**
 * The deviation of a flow's delays, where a flow owns its counters: sigma^2 = sum (x_j - n_j mu)^2 / n_j / (k - 1) over the k of them that hold next to
 * nobody else's packets. This is what the paper's virtual repetitions converge to (closed form in literal/deviation.ts), with
 * relative error sqrt(2 / (k - 1)) whatever their number: with m = 2 it is a guess, and its interval says so.
 */
import { chiSquareQuantile } from "../../base/math/special.ts";
import type { Interval, NoAnswer } from "../estimator.ts";
import { backgroundVariance } from "./blup.ts";
import type { Decoded } from "./decode.ts";
import type { Difference } from "./difference.ts";

/** Foreign packets may bring so much of what a cell's own packets vary by. */
const FOREIGN_NOISE = 0.05;

export function deviationOf(
  decoded: Decoded,
  difference: Difference,
  f: number,
  confidence: number,
): Interval | NoAnswer {
  const { prior, background } = decoded;
  const { starts, cell, a } = decoded.graph;
  const { packets, delayNs, unitNs } = difference;
  const xs: { n: number; x: number }[] = [];
  let sum = 0;
  let total = 0;
  for (let e = starts[f]!; e < starts[f + 1]!; e++) {
    const c = cell[e]!;
    const n = packets[c]!;
    const foreign = Math.max(0, n - a[e]!);
    if (foreign > 0.5 && backgroundVariance(background, foreign) > FOREIGN_NOISE * prior.packetVariance * n)
      continue;
    xs.push({ n, x: delayNs[c]! });
    sum += delayNs[c]!;
    total += n;
  }
  if (xs.length < 2) {
    const text =
      "its counters hold packets of other flows, which vary more than its own: the deviation cannot be told from them";
    return { reason: "too-much-noise", text };
  }
  // Around the cells' own mean: around a mean from elsewhere it would have one degree of freedom more, and that mean's error.
  const centre = sum / total;
  const squares = xs.reduce((s, { n, x }) => s + (x - n * centre) ** 2 / n, 0);
  const freedom = xs.length - 1;
  const rounding = (unitNs * unitNs) / 6;
  const variance = Math.max(0, squares / freedom - rounding);
  const side = (1 - confidence) / 2;
  return {
    valueNs: Math.sqrt(variance),
    lowNs: Math.sqrt(Math.max(0, squares / chiSquareQuantile(1 - side, freedom) - rounding)),
    highNs: Math.sqrt(squares / chiSquareQuantile(side, freedom)),
  };
}
