/** Results of the matcher's kernel: totals of a direction, intervals, and their log buckets (kernels/match/match-state.ts). */
import {
  IntervalBytes,
  IntervalLayout,
  matchStateConstants,
  TotalBytes,
  TotalLayout,
} from "../base/kernel-layout.ts";
import type { Kernels } from "../base/kernels.ts";
import { LogHistogram } from "../base/math/log-histogram.ts";
import type { BucketRun } from "./flow-result.ts";
import type { IntervalResult, TotalResult } from "./match-types.ts";

const HISTOGRAM_BIAS = matchStateConstants.HISTOGRAM_MIDDLE;
/** Above every count of a cell. */
const CELL_COUNTS = 2 ** 32;

/** Reads the sums of a Total or an Interval. */
function sumsOf(
  kernels: Kernels,
  record: number,
  layout: Record<"first" | "sum" | "squares" | "minimum" | "maximum", number>,
  count: number,
) {
  if (count === 0) return null;
  const field = (name: keyof typeof layout) => kernels.readF64(record + layout[name]);
  const mean = field("sum") / count;
  const variance = Math.max(0, field("squares") / count - mean * mean);
  return {
    count,
    meanNs: field("first") + mean,
    stdevNs: Math.sqrt(variance),
    minNs: field("minimum"),
    maxNs: field("maximum"),
  };
}

export function readTotal(kernels: Kernels, at: number, baseNs: number): TotalResult {
  const w = (name: keyof typeof TotalLayout) => kernels.readU32(at + TotalLayout[name]);
  const real = (name: keyof typeof TotalLayout) => kernels.readF64(at + TotalLayout[name]);
  const matched = w("matched");
  const delay = sumsOf(kernels, at, TotalLayout, matched);
  const histogram = new LogHistogram(baseNs);
  if (delay) {
    const { u32 } = kernels;
    const start = ((at + TotalBytes) >>> 2) + HISTOGRAM_BIAS;
    const last: number = kernels.call.bucketOfNs(delay.maxNs - baseNs);
    for (let b: number = kernels.call.bucketOfNs(delay.minNs - baseNs); b <= last; b++) {
      const n = u32[start + b]!;
      if (n > 0) histogram.addBucket(b, n);
    }
  }
  const jitterCount = real("jitterCount");
  return {
    matched,
    reordered: w("reordered"),
    extentMax: w("extentMax"),
    extentSum: real("extentSum"),
    delay,
    jitterNs: jitterCount > 0 ? real("jitter") / jitterCount : null,
    ttl: { lower: w("ttlLower"), equal: w("ttlEqual"), higher: w("ttlHigher") },
    negative: w("negative"),
    histogram,
  };
}

/** Returns `n` intervals with packets, in time order. */
export function readIntervals(kernels: Kernels, at: number, n: number): IntervalResult[] {
  const out: IntervalResult[] = [];
  for (let slot = 0; slot < n; slot++) {
    const record = at + slot * IntervalBytes;
    const matched = kernels.readU32(record + IntervalLayout.matched);
    const lost = kernels.readU32(record + IntervalLayout.lost);
    const index = kernels.readF64(record + IntervalLayout.index);
    const ambiguous = kernels.readU32(record + IntervalLayout.ambiguous);
    const delay = sumsOf(kernels, record, IntervalLayout, matched);
    out.push({ index, slot, matched: matched + ambiguous, lost, delay });
  }
  return out.sort((a, b) => a.index - b.index);
}

/** Returns the log buckets of `owners` intervals by their slots. */
export function readIntervalBuckets(
  kernels: Kernels,
  cells: number,
  owners: number,
  baseNs: number,
): (slot: number) => BucketRun {
  const used = kernels.call.cellsUsed(cells) >>> 0;
  const offsets = kernels.alloc((owners + 2) * 4);
  kernels.u32.fill(0, offsets >>> 2, (offsets >>> 2) + owners + 2);
  const out = kernels.alloc(Math.max(8, used * 8));
  kernels.call.cellsGroup(cells, owners, offsets, out);
  const starts = kernels.u32.slice(offsets >>> 2, (offsets >>> 2) + owners + 1);
  const pairs = kernels.u32.slice(out >>> 2, (out >>> 2) + 2 * used);
  kernels.free(offsets);
  kernels.free(out);
  return (owner) => {
    const [from = 0, to = 0] = [starts[owner], starts[owner + 1]];
    // Bucket and count in one number, as in a cell: typed arrays sort these without a comparator.
    const sorted = new Float64Array(to - from);
    for (let i = from; i < to; i++) sorted[i - from] = (pairs[2 * i]! | 0) * CELL_COUNTS + pairs[2 * i + 1]!;
    sorted.sort();
    const buckets = new Int32Array(sorted.length);
    const counts = new Uint32Array(sorted.length);
    for (let i = 0; i < sorted.length; i++) {
      buckets[i] = Math.floor(sorted[i]! / CELL_COUNTS);
      counts[i] = sorted[i]! - buckets[i]! * CELL_COUNTS;
    }
    return { baseNs, buckets, counts };
  };
}
