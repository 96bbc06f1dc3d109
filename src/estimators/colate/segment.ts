/**
 * The mean over a segment's packets. Without loss it is sum Delta / sum N, exactly. With loss, the delays in unusable cells must be estimated: large flows lose
 * a packet sooner than small ones, so usable cells are not a random sample. If the flows are known, each flow's packets in unusable cells are given the flow's
 * own level, and the variance is that of this combination under the model of blup.ts (one more solution of its system). If not, unusable cells get the mean of
 * the others, and the interval allows for flows that are only in unusable cells.
 */
import { median } from "../../base/math/regression.ts";
import { studentQuantile } from "../../base/math/special.ts";
import { fitSmooth, looseFlowVariance, type SmoothBackground, smoothVariance } from "../cells/background.ts";
import { outlierCells } from "../cells/outliers.ts";
import { filledCells } from "../cells/variance.ts";
import type { Interval, KnownFlows } from "../estimator.ts";
import { flowVarianceOf, packetVarianceOf } from "./blup.ts";
import type { Decoded } from "./decode.ts";
import type { Difference } from "./difference.ts";
import type { ColateParameters } from "./parameters.ts";

export function segmentMean(
  difference: Difference,
  known: { flows: KnownFlows; places: Uint32Array; decoded: Decoded } | null,
  confidence: number,
): Interval {
  const { packets, delayNs, received, used } = difference;
  let sum = 0;
  let unused = 0;
  for (let c = 0; c < packets.length; c++) {
    sum += delayNs[c]!;
    if (packets[c] === 0) unused += received[c]!;
  }
  if (unused === 0) return { valueNs: sum / used, lowNs: sum / used, highNs: sum / used };
  const all = used + unused;
  const { restNs, variance, freedom } = known?.decoded.graph.complete
    ? restOfFlows(difference, known, unused)
    : restOfMean(difference, sum / used, unused);
  const valueNs = (sum + restNs) / all;
  const side = 0.5 + confidence / 2;
  const z = studentQuantile(side, Math.max(1, Math.min(freedom ?? Infinity, difference.usedCells - 1)));
  const half = (z * Math.sqrt(variance)) / all;
  return { valueNs, lowNs: valueNs - half, highNs: valueNs + half };
}

interface Rest {
  /** Sum of the delays in unusable cells, and its variance. */
  restNs: number;
  variance: number;
  /** Degrees of freedom of the variance, if known. */
  freedom: number | null;
}

interface KnownLevels {
  flows: KnownFlows;
  places: Uint32Array;
  decoded: Decoded;
}

function restOfFlows(difference: Difference, known: KnownLevels, unused: number): Rest {
  const { flows, decoded } = known;
  const { prior, system } = decoded;
  const { meanNs, variance, prior: before } = decoded.level;
  const rest = packetsIn(difference, known, (c) => difference.packets[c] === 0);
  const drawn = variance.map((v, f) => Math.min(1, v / before[f]!));
  const centre = centreOf(difference, known, drawn);
  let restNs = 0;
  for (let f = 0; f < flows.count; f++) restNs += rest[f]! * (meanNs[f]! + drawn[f]! * centre.offsetNs);
  const solved = system ? system.solve(rest) : rest.map((u, f) => u * variance[f]!);
  let ofFlows = 0;
  let shared = 0;
  // Degrees of freedom of a sum of variances (Satterthwaite): few if one flow, seen in few cells, makes up the rest.
  let [parts, spread] = [0, 0];
  for (let f = 0; f < flows.count; f++) {
    ofFlows += rest[f]! * solved[f]!;
    const part = rest[f]! * rest[f]! * variance[f]!;
    parts += part;
    if (prior.own) spread += (part * part) / prior.own.freedom[f]!;
    shared += rest[f]! * drawn[f]!;
  }
  // The choice of packets in the rest is random; the common mean has its own error, which matters for flows about which little is known.
  let chance = prior.packetVariance * unused;
  for (let f = 0; f < flows.count; f++) chance += rest[f]! * flowVarianceOf(prior, flows.packets[f]!, f);
  const modelled = {
    variance: ofFlows + chance + shared * shared * Math.max(prior.meanVariance, centre.variance),
    freedom: spread > 0 ? (parts * parts) / spread : null,
  };
  return { restNs, ...wider(modelled, shownByCells(difference, beyondLevels(difference, decoded), unused)) };
}

/** Returns what the cells hold beyond the levels of their flows. */
function beyondLevels({ delayNs }: Difference, { graph, level }: Decoded): Float64Array {
  const { flows, starts, cell, a } = graph;
  const out = Float64Array.from(delayNs);
  for (let f = 0; f < flows; f++) {
    for (let e = starts[f]!; e < starts[f + 1]!; e++) out[cell[e]!]! -= a[e]! * level.meanNs[f]!;
  }
  return out;
}

/** Returns the packets of each flow that arrived in these cells. A cell's packets are divided by the expected packets of its flows. */
function packetsIn(
  { received, layout }: Difference,
  { flows, places }: KnownLevels,
  belongs: (c: number) => boolean,
): Float64Array {
  const { m, q, n } = layout;
  const perFlow = m * q.length;
  const expected = new Float64Array(n);
  const each = (add: (f: number, c: number, share: number) => void) => {
    for (let f = 0; f < flows.count; f++) {
      for (let i = 0; i < perFlow; i++) {
        const c = places[f * perFlow + i]!;
        if (received[c]! > 0 && belongs(c)) add(f, c, (flows.packets[f]! * q[Math.floor(i / m)]!) / m);
      }
    }
  };
  each((_, c, share) => {
    expected[c]! += share;
  });
  const out = new Float64Array(flows.count);
  each((f, c, share) => {
    out[f]! += (share * received[c]!) / expected[c]!;
  });
  return out;
}

/**
 * Returns the shift of the common mean with which the levels explain the sum of the usable cells. Flows about which little is known are shrunk towards a robust
 * common mean, which hardly follows the few slow packets that dominate a mean behind a queue. That is right for one flow, but a bias when summed over flows.
 */
function centreOf(difference: Difference, known: KnownLevels, drawn: Float64Array) {
  const { packets, delayNs } = difference;
  const { prior, level } = known.decoded;
  const seen = packetsIn(difference, known, (c) => packets[c]! > 0);
  let excess = delayNs.reduce((sum, x) => sum + x, 0);
  let [weight, chance] = [0, 0];
  for (let f = 0; f < seen.length; f++) {
    excess -= seen[f]! * level.meanNs[f]!;
    weight += seen[f]! * drawn[f]!;
    chance += seen[f]! * packetVarianceOf(prior, f);
  }
  return weight > 0
    ? { offsetNs: excess / weight, variance: chance / weight ** 2 }
    : { offsetNs: 0, variance: 0 };
}

function restOfMean(difference: Difference, meanNs: number, unused: number): Rest {
  const { packets, delayNs, received, layout } = difference;
  const of = { cells: filledCells(packets), delaySumNs: delayNs, packets };
  const loose = fitSmooth(of);
  const beta = looseFlowVariance(of, loose);
  let variance = unused * unused * loose.meanVariance;
  for (let c = 0; c < packets.length; c++) {
    if (packets[c] === 0) variance += smoothVariance({ alpha: loose.second, beta }, received[c]!);
  }
  // A flow in one unusable cell is in others too, so their errors are correlated.
  const beyondMean = delayNs.map((y, c) => y - meanNs * packets[c]!);
  const ofFlows = { variance: variance * layout.m * layout.q.length, freedom: null };
  return { restNs: meanNs * unused, ...wider(ofFlows, shownByCells(difference, beyondMean, unused)) };
}

/** With this many degrees of freedom, Student's t quantile covers a single rare event (Poisson): 4.6 standard deviations upwards. */
const FEWEST = 2;

/**
 * Estimates directly from the sample by how much the mean of the usable cells is off for the others. The robust fit treats the few cells with slow packets
 * behind a rarely slow queue as outliers, although they make up much of the mean. The degrees of freedom are the number of cells that dominate the sum.
 */
function shownByCells({ used }: Difference, beyondNs: Float64Array, unused: number): RestError {
  let [squares, fourth] = [0, 0];
  for (const y of beyondNs) {
    const square = y * y;
    squares += square;
    fourth += square * square;
  }
  const variance = squares * (unused / used) ** 2 * (1 + used / unused);
  return { variance, freedom: fourth > 0 ? Math.max(FEWEST, (squares * squares) / fourth) : null };
}

type RestError = Pick<Rest, "variance" | "freedom">;

function wider(a: RestError, b: RestError): RestError {
  const reach = ({ variance, freedom }: RestError) => variance * (1 + 2 / (freedom ?? Infinity));
  return reach(b) > reach(a) ? b : a;
}

/** In multiples of the longest expected mean delay. */
const FAR_BEYOND = 10;

/** Returns true if the delay is so far beyond the one that b was chosen for that the fullest counters may have wrapped; it is then unknown which ones have. */
export function mayHaveWrapped(
  { packets, delayNs }: Difference,
  { b, unit, delay }: ColateParameters,
): boolean {
  const cells = filledCells(packets);
  const centre = Math.abs(median(cells.map((c) => delayNs[c]! / packets[c]!)) ?? 0);
  const fullest = cells.reduce((most, c) => Math.max(most, packets[c]!), 0);
  return centre > FAR_BEYOND * delay && fullest * centre > 2 ** (b - 2) * unit;
}

/** Fits how the delays of packets vary from the cells. */
export function spreadOf({ packets, delayNs }: Difference): SmoothBackground {
  const fit = fitSmooth({ cells: filledCells(packets), delaySumNs: delayNs, packets });
  return { alpha: fit.second, beta: fit.first };
}

/** Standard deviations from the value expected for its packets, beyond which a cell is taken to hold different packets at the two ends. */
const BEYOND = 30;
const MIN_COUNT = 20;

/**
 * Without enough digest bits, a cell that lost one packet and gained another looks intact, and is off by up to an epoch. If packets were lost and others
 * appeared, extremely unlikely cells are removed. Cells with a wrong timestamp are always removed.
 */
export function withoutOutliers(difference: Difference): Difference {
  const { packets, delayNs, missing, appeared } = difference;
  const wrong = outlierCells(filledCells(packets), delayNs, packets);
  difference.outliers = { cells: wrong.cells.length, most: wrong.most };
  for (const c of wrong.cells) leaveOut(difference, c);
  if (missing === 0 || appeared === 0 || difference.usedCells < MIN_COUNT) return difference;
  const cells = filledCells(packets);
  const fit = fitSmooth({ cells, delaySumNs: delayNs, packets });
  const background = { alpha: fit.second, beta: fit.first };
  for (const c of cells) {
    const n = packets[c]!;
    const y = delayNs[c]! - fit.meanNs * n;
    if (y * y <= BEYOND * BEYOND * (smoothVariance(background, n) + 1)) continue;
    leaveOut(difference, c);
    difference.swapped++;
  }
  return difference;
}

function leaveOut(difference: Difference, c: number): void {
  const n = difference.packets[c]!;
  difference.usable[c] = 0;
  difference.packets[c] = 0;
  difference.delayNs[c] = 0;
  difference.used -= n;
  difference.usedCells--;
  const vector = difference.vectors[difference.vector[c]!];
  if (vector) vector.used -= n;
}
