/**
 * The variance of delays over many epochs (and over the flows of a group) from those of each: the variance within them plus that between their means.
 *
 *   sigma^2 = sum w (sigma_e^2 + (mu_e - mu)^2) / W
 *
 * Both parts have errors, which add by squares: those of sigma_e^2 from the intervals of the deviations, and those of the means, 2 w (mu_e - mu) h_e for a mean
 * that is off by h_e. For flows with one or two packets per epoch the means are all there is. Errors of the means also move them apart, by at most sum w h_e^2
 * (1 - w / W): that counts to both sides.
 *
 * If delays are known within bounds (Interval.bound), the error of the total deviation is at most the root mean square of their errors, whatever epochs and
 * flows they belong to: the triangle inequality of the L2 norm.
 */
import { Moments } from "../base/math/moments.ts";
import type { Interval } from "../estimators/estimator.ts";

/** Half widths of the two sides. */
export interface Side {
  low: number;
  high: number;
}

/** As plain numbers. Errors are half widths of the weighted sum of variances; `meansWeight` and the rest describe the errors of the means. */
export interface SpreadState {
  spreadWeight: number;
  spreadMeanNs: number;
  spreadM2: number;
  spreadErrorLow: number;
  spreadErrorHigh: number;
  meansWeight: number;
  meansNs: number;
  meansM2: number;
  meansCurve: number;
  /** Weighted sum of the squared errors of bounded delays. */
  spreadBound: number;
}

export class Spread {
  /** m2 contains the variance within contributions and between them. */
  readonly #moments = new Moments();
  /** Squares of the half widths of w sigma_e^2. */
  #within: Side = { low: 0, high: 0 };
  /** Means, weighted by (w h)^2, and the sum of w h^2. */
  readonly #means = new Moments();
  #curve = 0;
  #bound = 0;

  add(mean: Interval, error: Side, stdev: Interval, weight: number): void {
    const variance = stdev.valueNs ** 2;
    this.#moments.merge(weighted(weight, mean.valueNs, weight * variance));
    if (stdev.bound) {
      const offNs = Math.max(stdev.valueNs - stdev.lowNs, stdev.highNs - stdev.valueNs);
      this.#bound += weight * offNs * offNs;
      return;
    }
    this.#within.low += (weight * (variance - Math.max(0, stdev.lowNs) ** 2)) ** 2;
    this.#within.high += (weight * (stdev.highNs ** 2 - variance)) ** 2;
    this.#addMean(mean.valueNs, error, weight);
  }

  addState(state: SpreadState): void {
    const { spreadWeight, spreadMeanNs, spreadM2, spreadErrorLow, spreadErrorHigh } = state;
    if (spreadWeight === 0) return;
    this.#moments.merge(weighted(spreadWeight, spreadMeanNs, spreadM2));
    this.#within.low += spreadErrorLow ** 2;
    this.#within.high += spreadErrorHigh ** 2;
    this.#bound += state.spreadBound;
    if (state.meansWeight === 0) return;
    this.#means.merge(weighted(state.meansWeight, state.meansNs, state.meansM2));
    this.#curve += state.meansCurve;
  }

  get weight(): number {
    return this.#moments.count;
  }

  get variance(): number {
    return this.#moments.m2 / this.#moments.count;
  }

  /** Half widths of the variance. */
  get error(): Side {
    const { count, mean, m2 } = this.#means;
    const apart = count === 0 ? 0 : m2 + count * ((mean ?? 0) - (this.#moments.mean ?? 0)) ** 2;
    const beyond = count === 0 ? 0 : Math.max(0, this.#curve - count / this.weight);
    const side = (within: number) => (Math.sqrt(within + 4 * apart) + beyond) / this.weight;
    return { low: side(this.#within.low), high: side(this.#within.high) };
  }

  /** Maximum error of the deviation in addition to `error`. */
  get boundNs(): number {
    return Math.sqrt(this.#bound / this.weight);
  }

  state(): SpreadState {
    return {
      spreadWeight: this.#moments.count,
      spreadMeanNs: this.#moments.mean ?? 0,
      spreadM2: this.#moments.m2,
      spreadErrorLow: Math.sqrt(this.#within.low),
      spreadErrorHigh: Math.sqrt(this.#within.high),
      meansWeight: this.#means.count,
      meansNs: this.#means.mean ?? 0,
      meansM2: this.#means.m2,
      meansCurve: this.#curve,
      spreadBound: this.#bound,
    };
  }

  #addMean(valueNs: number, { low, high }: Side, weight: number): void {
    const halfNs = Math.max(low, high);
    if (!(halfNs > 0)) return;
    this.#means.merge(weighted((weight * halfNs) ** 2, valueNs, 0));
    this.#curve += weight * halfNs * halfNs;
  }
}

/** Uses weights as counts: Chan's formulas hold for both, and keep precision with a large common mean (a clock offset). */
export function weighted(weight: number, mean: number, m2: number): Moments {
  return Moments.of({ count: weight, mean, m2, min: mean, max: mean });
}
