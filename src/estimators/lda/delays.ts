/**
 * Mean and standard deviation of delays from the usable rows of an LDA pair. A usable row is a random group of n packets with the sum x of their delays. Rows
 * are chosen by hash and by where losses fell, and neither depends on the delays. All usable rows together are therefore a simple random sample, without
 * replacement, of the packets that arrived.
 *
 * Mean (section III-D): mu = sum x / sum n. Its interval is Student's t, with the standard deviation below, narrowed if the sample is a large part of the whole
 * (nothing lost, all sampled: the mean is exact), and widened on the side of the skew (Hall 1992). Alternatively bound (1): P(|D - mu| >= e mu) <= 2 exp(-e^2 S
 * mu^2 / 2 sigma^2).
 *
 * Deviation, "residual": r = x - n mu has variance n sigma^2 (1 - n/S), so sigma^2 = sum w r^2/n / sum w (1 - n/S). With w = 1 this is sum r^2/n / (U - 1). The
 * variance of r^2/n is sigma^4 (2 + kurtosis/n), hence w = n/(n + 16), which is best at a kurtosis of 32 (Weibull with shape 0.6: 37) and unbiased at any.
 * Deviation, "paper" (section III-E, equation 5): adjacent rows collapsed with opposite signs, F = sum (x' - x'')^2 / sum n, sigma^2 = F - mu^2.
 *
 * The deviation's interval uses the kurtosis found, but at least 32: there are too few rows to see rare long delays, and too narrow an interval is worse than
 * too wide a one. For heavier tails (lognormal with sigma 1.5) and few rows, the interval is too narrow.
 */
import { studentQuantile } from "../../base/math/special.ts";
import { isClear } from "../cells/crossing.ts";
import { outlierCells } from "../cells/outliers.ts";
import type { Interval, NoAnswer } from "../estimator.ts";
import type { LdaRows } from "./payload.ts";

/** Usable rows as parallel columns; also used for pairs of rows collapsed for equation (5). */
export interface UsableRows {
  packets: Float64Array;
  delayNs: Float64Array;
  /** Sum of `packets`. */
  sample: number;
  /** Rows left out because of a wrong timestamp; `most`: there are so many that nothing can be trusted. */
  outliers: { cells: number; most: boolean };
}

const HALF_KURTOSIS = 16;

/** Sum of the delays in row i. Sums wrap at 2^64, but their difference is still correct. */
function delaySum(sender: LdaRows, receiver: LdaRows, i: number): number {
  return Number(BigInt.asIntN(64, receiver.sum[i]! - sender.sum[i]!));
}

export function usableRows(sender: LdaRows, receiver: LdaRows): UsableRows {
  const packets: number[] = [];
  const delayNs: number[] = [];
  for (let i = 0; i < sender.count.length; i++) {
    const n = sender.count[i]!;
    if (n === 0 || n !== receiver.count[i] || sender.digest?.[i] !== receiver.digest?.[i]) continue;
    packets.push(n);
    delayNs.push(delaySum(sender, receiver, i));
  }
  const { cells, most } = outlierCells([...packets.keys()], delayNs, packets);
  const wrong = new Set(cells);
  const kept = (values: number[]) => Float64Array.from(values.filter((_, i) => !wrong.has(i)));
  return rowsOf(kept(packets), kept(delayNs), { cells: cells.length, most });
}

function rowsOf(
  packets: Float64Array,
  delayNs: Float64Array,
  outliers: UsableRows["outliers"] = { cells: 0, most: false },
): UsableRows {
  return { packets, delayNs, sample: packets.reduce((s, n) => s + n, 0), outliers };
}

/**
 * Returns the arrival times of packets that only the receiver has in this epoch, from rows with one such packet. `meanNs`, `varianceNs2`: of the delays of the
 * others.
 */
export function lateArrivals(
  sender: LdaRows,
  receiver: LdaRows,
  { meanNs, varianceNs2 }: DelayMoments,
): number[] {
  const out: number[] = [];
  for (let i = 0; i < sender.count.length; i++) {
    const n = sender.count[i]!;
    if (receiver.count[i] === n + 1 && isClear(n * varianceNs2, meanNs))
      out.push(delaySum(sender, receiver, i) - n * meanNs);
  }
  return out;
}

/** Returns pairs of adjacent rows of a bank: the packets of both, and the difference of their delay sums. */
export function collapsedRows(sender: LdaRows, receiver: LdaRows): UsableRows {
  const packets: number[] = [];
  const delayNs: number[] = [];
  for (let bank = 0; bank < sender.banks; bank++) {
    for (let row = 0; row + 1 < sender.rows; row += 2) {
      const i = bank * sender.rows + row;
      const n = sender.count[i]! + sender.count[i + 1]!;
      if (n === 0 || n !== receiver.count[i]! + receiver.count[i + 1]!) continue;
      const mixed = (rows: LdaRows) => (rows.digest ? (rows.digest[i]! ^ rows.digest[i + 1]!) >>> 0 : 0);
      if (mixed(sender) !== mixed(receiver)) continue;
      const difference = BigInt.asIntN(
        64,
        receiver.sum[i + 1]! - sender.sum[i + 1]! - receiver.sum[i]! + sender.sum[i]!,
      );
      packets.push(n);
      delayNs.push(Number(difference));
    }
  }
  return rowsOf(Float64Array.from(packets), Float64Array.from(delayNs));
}

export interface DelayMoments {
  meanNs: number;
  varianceNs2: number;
  /** Third central moment over sigma^3, estimated from the rows. */
  skew: number;
  /** Relative variance of varianceNs2. */
  spread: number;
  /** Degrees of freedom of the variance. */
  freedom: number;
}

/** Returns null for fewer than two rows: one sum says nothing about the spread. */
export function momentsOf(rows: UsableRows): DelayMoments | null {
  const { packets, delayNs, sample } = rows;
  const meanNs = delayNs.reduce((s, x) => s + x, 0) / sample;
  if (packets.length < 2) return null;
  let squares = 0;
  let expected = 0;
  let cubes = 0;
  let weights = 0;
  for (let i = 0; i < packets.length; i++) {
    const n = packets[i]!;
    const r = delayNs[i]! - n * meanNs;
    const w = n / (n + HALF_KURTOSIS);
    squares += (w * r * r) / n;
    expected += w * (1 - n / sample);
    cubes += r * r * r;
    weights += w;
  }
  const varianceNs2 = squares / expected;
  if (varianceNs2 === 0) return { meanNs, varianceNs2, skew: 0, spread: 0, freedom: packets.length - 1 };
  let fourth = 0;
  let perPacket = 0;
  let plain = 0;
  for (let i = 0; i < packets.length; i++) {
    const n = packets[i]!;
    const r = delayNs[i]! - n * meanNs;
    const w2 = (n / (n + HALF_KURTOSIS)) ** 2;
    const q = (r * r) / n / varianceNs2;
    fourth += w2 * (q * q - 3);
    perPacket += w2 / n;
    plain += w2;
  }
  const kurtosis = fourth / perPacket;
  const spreadAt = (k: number) => (2 * plain + k * perPacket) / (weights * weights);
  return {
    meanNs,
    varianceNs2,
    skew: cubes / sample / varianceNs2 ** 1.5,
    spread: spreadAt(Math.max(2 * HALF_KURTOSIS, kurtosis)),
    freedom: Math.max(1, Math.min(packets.length - 1, 2 / spreadAt(Math.max(0, kurtosis)))),
  };
}

/** `received`: received packets that belong to the stream; the rows are a sample of them. */
export function meanInterval(
  moments: DelayMoments,
  rows: UsableRows,
  received: number,
  confidence: number,
  kind: "student" | "bound",
): Interval {
  const { meanNs, varianceNs2, skew } = moments;
  const { sample } = rows;
  const left = Math.max(0, 1 - sample / received);
  const error = Math.sqrt((varianceNs2 / sample) * left);
  const miss = 1 - confidence;
  if (kind === "bound") {
    // As printed: for packets drawn with replacement, whatever their share of the total.
    const half = Math.sqrt((varianceNs2 / sample) * 2 * Math.log(2 / miss));
    return { valueNs: meanNs, lowNs: meanNs - half, highNs: meanNs + half };
  }
  const t = studentQuantile(1 - miss / 2, moments.freedom);
  // The mean of n skewed values has a skew of skew/sqrt(n): the interval reaches further on the long side.
  const root = Math.sqrt(sample);
  const lean = (Math.max(-root, Math.min(root, skew)) / root) * ((2 * t * t + 1) / 6);
  return {
    valueNs: meanNs,
    lowNs: meanNs - error * (t + Math.max(0, -lean)),
    highNs: meanNs + error * (t + Math.max(0, lean)),
  };
}

/** An interval that extends further than this factor is not given as an answer. */
const MOST_FACTOR = 10;

export function residualDeviation(
  moments: DelayMoments,
  rows: UsableRows,
  confidence: number,
): Interval | NoAnswer {
  const valueNs = Math.sqrt(moments.varianceNs2);
  const t = studentQuantile(1 - (1 - confidence) / 2, rows.packets.length - 1);
  const half = (t / 2) * Math.sqrt(moments.spread);
  if (half > Math.log(MOST_FACTOR)) {
    return {
      reason: "no-usable-cells",
      text: `standard deviation not measurable to within a factor of ${MOST_FACTOR}: only ${rows.packets.length} rows are without loss`,
    };
  }
  return { valueNs, lowNs: valueNs * Math.exp(-half), highNs: valueNs * Math.exp(half) };
}

export function collapsedDeviation(
  meanNs: number,
  meanErrorNs: number,
  pairs: UsableRows,
  confidence: number,
): Interval | NoAnswer {
  const { packets, delayNs, sample } = pairs;
  if (packets.length < 2)
    return { reason: "no-usable-cells", text: "fewer than two pairs of rows are without loss" };
  const second = delayNs.reduce((s, x) => s + x * x, 0) / sample;
  const variance = second - meanNs * meanNs;
  let noise = 0;
  for (let i = 0; i < packets.length; i++) noise += (delayNs[i]! * delayNs[i]! - packets[i]! * second) ** 2;
  const error = Math.hypot(Math.sqrt(noise) / sample, 2 * meanNs * meanErrorNs);
  const half = studentQuantile(1 - (1 - confidence) / 2, packets.length - 1) * error;
  if (variance <= 0) {
    return {
      reason: "too-much-noise",
      text: "standard deviation not measurable: the second moment from collapsed rows is below the squared mean",
    };
  }
  return {
    valueNs: Math.sqrt(variance),
    lowNs: Math.sqrt(Math.max(0, variance - half)),
    highNs: Math.sqrt(variance + half),
  };
}
