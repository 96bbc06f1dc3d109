/**
 * The normal state of a series of epoch means: a robust baseline, and a score of how far a value is from normal.
 *
 * Epoch means of queueing delay are skewed, heavy-tailed and correlated, so "several deviations above the mean" makes too many false alarms. The score is
 * asinh((x - median)/MAD), near-linear close to the median and logarithmic far out, in units of the same at the 90th percentile. For normal, exponential,
 * lognormal and Weibull noise, with and without memory, at most one in a hundred series of 300 epochs reaches 2.47 (tested). Shift and scale cancel: clock
 * offsets do not matter.
 *
 * A spike in the window must not widen the baseline that judges it: values beyond ten robust deviations are left out before the tail is read. Holds while fewer
 * than half of the epochs in the window are disturbed; beyond that the disturbance is the normal state.
 */

export interface Baseline {
  readonly median: number;
  /** Median absolute deviation. */
  readonly mad: number;
  /** asinh score of the 90th percentile: the unit of `score`. */
  readonly tail: number;
  /** Correlation of ordinary epochs with their neighbours, 0 to 1: shows how long ordinary bursts last. */
  readonly memory: number;
  /** Number of epochs used. */
  readonly epochs: number;
}

/** MAD of a normal distribution in standard deviations. */
const NORMAL_MAD = 0.6744897501960817;
/** asinh(1.2816 / 0.6745), the tail of a normal distribution: lighter tails (or few epochs) are treated as normal. */
const NORMAL_TAIL = Math.asinh(1.2815515655446004 / NORMAL_MAD);
const OUTLIER_DEVIATIONS = 10;
const ORDINARY_SCORE = 1.5;

/** `values` in time order. `floor` keeps the scale above the resolution of the values (error bars, timestamps) where they hardly vary. */
export function baselineOf(values: ArrayLike<number>, floor: number): Baseline {
  let sorted = new Float64Array(values).sort();
  for (let round = 0; round < 2; round++) {
    const median = quantileOfSorted(sorted, 0.5);
    const spread = Math.max(floor, medianDeviation(sorted, median)) / NORMAL_MAD;
    let kept = sorted.length;
    while (kept > 0 && sorted[kept - 1]! > median + OUTLIER_DEVIATIONS * spread) kept--;
    if (kept === sorted.length) break;
    sorted = sorted.subarray(0, kept);
  }
  const median = quantileOfSorted(sorted, 0.5);
  const mad = Math.max(floor, medianDeviation(sorted, median));
  const tail = Math.max(NORMAL_TAIL, Math.asinh((quantileOfSorted(sorted, 0.9) - median) / mad));
  const baseline = { median, mad, tail, memory: 0, epochs: sorted.length };
  return { ...baseline, memory: memoryOf(values, baseline) };
}

/** Correlation of the scores of adjacent epochs that are both ordinary: a spike must not look like long memory. */
function memoryOf(values: ArrayLike<number>, baseline: Baseline): number {
  let pairs = 0;
  let sumA = 0;
  let sumB = 0;
  let squaresA = 0;
  let squaresB = 0;
  let products = 0;
  let before = Number.POSITIVE_INFINITY;
  for (let i = 0; i < values.length; i++) {
    const here = scoreOf(baseline, values[i]!);
    if (here < ORDINARY_SCORE && before < ORDINARY_SCORE) {
      pairs++;
      sumA += before;
      sumB += here;
      squaresA += before * before;
      squaresB += here * here;
      products += before * here;
    }
    before = here;
  }
  const spread = Math.sqrt((squaresA - (sumA * sumA) / pairs) * (squaresB - (sumB * sumB) / pairs));
  if (!(pairs > 2 && spread > 0)) return 1;
  return Math.max(0, Math.min(1, (products - (sumA * sumB) / pairs) / spread));
}

export function scoreOf(baseline: Baseline, value: number): number {
  return Math.asinh((value - baseline.median) / baseline.mad) / baseline.tail;
}

/**
 * Returns how many spikes with at least this score ordinary noise makes per epoch. Measured once on the noise of src/evaluate/path-noise.ts, which is
 * heavy-tailed and has memory: 2 in 10,000 epochs at a score of 1.84 above the allowance for few epochs, and 3.8 decades less per unit of score. That the
 * confidence derived from it holds on other seeds is tested (blame.test.ts) and printed (bench/localise.ts).
 */
export function tailChance(score: number, epochs: number): number {
  return Math.min(1, 2.1e-4 * 10 ** (-3.8 * (score - fewEpochs(epochs) - 1.84)));
}

/** Returns by about how much scores rise because a baseline of few epochs is uncertain. */
export function fewEpochs(epochs: number): number {
  return 2 / Math.sqrt(epochs);
}

function quantileOfSorted(sorted: ArrayLike<number>, p: number): number {
  const at = p * (sorted.length - 1);
  const low = Math.floor(at);
  const high = Math.min(low + 1, sorted.length - 1);
  return sorted[low]! + (at - low) * (sorted[high]! - sorted[low]!);
}

/** The distances on either side are sorted already: merged from the median outwards, up to the middle one. */
function medianDeviation(sorted: Float64Array, median: number): number {
  const { length } = sorted;
  let above = length >> 1;
  while (above > 0 && sorted[above - 1]! >= median) above--;
  while (above < length && sorted[above]! < median) above++;
  let below = above - 1;
  const middle = (length - 1) / 2;
  let [low, high] = [Number.NaN, Number.NaN];
  for (let rank = 0; rank <= Math.ceil(middle); rank++) {
    const left = below >= 0 ? median - sorted[below]! : Number.POSITIVE_INFINITY;
    const right = above < length ? sorted[above]! - median : Number.POSITIVE_INFINITY;
    if (left < right) below--;
    else above++;
    if (rank <= middle) low = Math.min(left, right);
    high = Math.min(left, right);
  }
  return low + (middle - Math.floor(middle)) * (high - low);
}
