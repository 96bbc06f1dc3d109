/**
 * Finds the offset between two captures whose clocks differ by more than any matching window.
 *
 * Input: a sample of packets with equal digests, paired regardless of time. Differences of true pairs are close together (delay variation plus drift); false
 * pairs and repeats of equal packets are spread over the spans of the two captures. The answer is the densest cluster. Its width is chosen among powers of two
 * by the scan statistic: of n differences of unrelated times, a window of width w contains a share of at most w/R, R being the longer capture, so k of them in
 * it are as surprising as n * KL(k/n || w/R). The cluster must exceed what the best of n windows of each width shows by chance: surprise > ln(n * widths) + 7
 * (false-alarm rate below 1 in 1,000 for pairs of unrelated times).
 *
 * How it fails: equal packets sent periodically make one cluster per period; the true one wins only by the packets that occur once and by the overlap of the
 * captures. `support` against `total` and `runnerUp` show it.
 */
export interface AlignmentPair {
  /** Times relative to an origin common to both captures. */
  beforeNs: number;
  afterNs: number;
}

export interface Alignment {
  /** Median of (after - before) in the cluster. */
  offsetNs: number;
  /** Pairs in the cluster, of `total`. */
  support: number;
  total: number;
  /** Width of the cluster; packets that queued for longer are above it. */
  spreadNs: number;
  /** Pairs in the densest window of the same width that does not touch the cluster, and the first difference of that window. */
  runnerUp: number;
  runnerUpNs: number | null;
}

const NARROWEST_NS = 1024;
const SURPRISE_MARGIN = 7;
/** Fewer pairs show no offset: one or two equal packets may be repeats. */
export const MIN_PAIRS = 3;

/** Returns null if no cluster stands out. A single pair is accepted (`total` shows that it was alone). */
export function findAlignment(pairs: readonly AlignmentPair[]): Alignment | null {
  const usable = pairs.filter((p) => Number.isFinite(p.afterNs - p.beforeNs));
  const diff = Float64Array.from(usable, (p) => p.afterNs - p.beforeNs).sort();
  const total = diff.length;
  if (total === 0) return null;
  const spread = diff[total - 1]! - diff[0]!;
  if (spread <= NARROWEST_NS) return describe(diff, 0, total);
  const range = Math.max(spanOf(usable.map((p) => p.beforeNs)), spanOf(usable.map((p) => p.afterNs)));
  const widths = [];
  for (let width = NARROWEST_NS; width < 2 * spread; width *= 2) widths.push(width);
  const needed = Math.log(total * widths.length) + SURPRISE_MARGIN;
  let best: { from: number; to: number; surprise: number } | null = null;
  for (const width of widths) {
    const { from, to } = densest(diff, width, 0, total);
    const share = Math.min(1, width / range);
    // A window starts at one of the differences, so only the others count as surprising.
    const others = to - from - 1;
    const surprise = others > share * (total - 1) ? surpriseOf(others, total - 1, share) : 0;
    if (surprise > needed && (!best || surprise > best.surprise)) best = { from, to, surprise };
  }
  return best && describe(diff, best.from, best.to);
}

/**
 * Aligns packets that are distinct in both captures, if findAlignment found no cluster: their delays vary by more than short captures last. They are the same
 * packets nevertheless, so their offset is accepted if most of them then match within the window.
 */
export function alignDistinct(pairs: readonly AlignmentPair[], windowNs: number): Alignment | null {
  const diff = Float64Array.from(pairs, (p) => p.afterNs - p.beforeNs).sort();
  const { from, to } = densest(diff, windowNs / 2, 0, diff.length);
  return 2 * (to - from) > diff.length ? describe(diff, from, to) : null;
}

function spanOf(times: readonly number[]): number {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const t of times) {
    if (t < low) low = t;
    if (t > high) high = t;
  }
  return high - low;
}

/** n * KL(k/n || p): the exponent of the probability that k of n uniformly spread values are in a window of share p. */
function surpriseOf(k: number, n: number, p: number): number {
  const q = k / n;
  const outside = q < 1 ? (1 - q) * Math.log((1 - q) / (1 - p)) : 0;
  return n * (q * Math.log(q / p) + outside);
}

/** Returns the window of the given width over sorted[from, to) with the most values. */
function densest(
  sorted: Float64Array,
  width: number,
  from: number,
  to: number,
): { from: number; to: number } {
  let best = { from, to: from };
  for (let left = from, right = from; left < to; left++) {
    while (right < to && sorted[right]! - sorted[left]! <= width) right++;
    if (right - left > best.to - best.from) best = { from: left, to: right };
  }
  return best;
}

function describe(sorted: Float64Array, from: number, to: number): Alignment {
  const spreadNs = sorted[to - 1]! - sorted[from]!;
  const width = Math.max(spreadNs, NARROWEST_NS);
  // The shoulders of the cluster are not a rival.
  let below = from;
  while (below > 0 && sorted[below - 1]! >= sorted[from]! - width) below--;
  let above = to;
  while (above < sorted.length && sorted[above]! <= sorted[to - 1]! + width) above++;
  const left = densest(sorted, width, 0, below);
  const right = densest(sorted, width, above, sorted.length);
  const rival = left.to - left.from >= right.to - right.from ? left : right;
  return {
    offsetNs: (sorted[(from + to - 1) >> 1]! + sorted[(from + to) >> 1]!) / 2,
    support: to - from,
    total: sorted.length,
    spreadNs,
    runnerUp: rival.to - rival.from,
    runnerUpNs: rival.to > rival.from ? sorted[rival.from]! : null,
  };
}
