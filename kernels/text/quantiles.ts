// Quantiles of one flow after the other, from the log buckets of its delays (kernels/flows/flow-lists.ts, kernels/sketches/cells.ts): a dense histogram that is
// cleared after use, with sums of 64 buckets each above it, so that few buckets are read.

import { LONGEST_LIST } from "../flows/flow-lists";
import { FlowMore } from "../flows/flow-records";
import { bucketOf, cellsCount } from "../sketches/cells";

const BUCKETS: u32 = 16384;
const MIDDLE: i32 = 8192;
const GROUP_BITS: u32 = 6;
export const QUANTILES_BYTES: u32 = (BUCKETS + (BUCKETS >> GROUP_BITS)) * 4;

// @ts-ignore: decorator
@inline
function addTo(counts: u32, b: u32, n: u32): void {
  const at = counts + (b << 2);
  store<u32>(at, load<u32>(at) + n);
  const sum = counts + ((BUCKETS + (b >> GROUP_BITS)) << 2);
  store<u32>(sum, load<u32>(sum) + n);
}

/** Counts the delays of flow `id` (more than three) into `counts`, by bucket of their distance from `base`. `counts`: QUANTILES_BYTES, all 0. */
export function countBuckets(counts: u32, cells: usize, id: u32, matched: u32, more: FlowMore, base: f64): void {
  const length = more.listState & 0xffff;
  // The list's biased bucket numbers are the histogram's.
  for (let i: u32 = 0; i < length; i++) addTo(counts, load<u16>(more.list + (i << 1)), 1);
  if (matched <= max<u32>(length, LONGEST_LIST)) return;
  const last = bucketOf(more.maximum - base);
  for (let b = bucketOf(more.minimum - base); b <= last; b++) {
    const n = <u32>cellsCount(cells, id, b);
    if (n != 0) addTo(counts, <u32>(b + MIDDLE), n);
  }
}

/** Clears what countBuckets has filled. */
export function clearBuckets(counts: u32, matched: u32, more: FlowMore, base: f64): void {
  const from = <u32>(bucketOf(more.minimum - base) + MIDDLE);
  const to = <u32>(bucketOf(more.maximum - base) + MIDDLE);
  if (to - from < 4 * matched) memory.fill(counts + (from << 2), 0, (to - from + 1) << 2);
  else {
    const length = more.listState & 0xffff;
    for (let i: u32 = 0; i < length; i++) store<u32>(counts + (<u32>load<u16>(more.list + (i << 1)) << 2), 0);
    if (matched > max<u32>(length, LONGEST_LIST)) memory.fill(counts + (from << 2), 0, (to - from + 1) << 2);
  }
  const sums = counts + (BUCKETS << 2);
  memory.fill(sums + ((from >> GROUP_BITS) << 2), 0, ((to >> GROUP_BITS) - (from >> GROUP_BITS) + 1) << 2);
}

/** Returns the bucket of the delay of this rank, from 1. */
export function bucketOfRank(counts: u32, rank: u32, more: FlowMore, base: f64): i32 {
  const sums = counts + (BUCKETS << 2);
  const last = <u32>(bucketOf(more.maximum - base) + MIDDLE);
  let group = <u32>(bucketOf(more.minimum - base) + MIDDLE) >> GROUP_BITS;
  let left = rank;
  while (left > load<u32>(sums + (group << 2)) && group < last >> GROUP_BITS) {
    left -= load<u32>(sums + (group << 2));
    group++;
  }
  let b = group << GROUP_BITS;
  while (b < last && left > load<u32>(counts + (b << 2))) {
    left -= load<u32>(counts + (b << 2));
    b++;
  }
  return <i32>b - MIDDLE;
}

/** Returns the middle of a bucket of 0 or above, as bucketMid of src/base/math/log-histogram.ts does. */
// @ts-ignore: decorator
@inline
function middleOf(b: i32): f64 {
  if (b < 256) return <f64>b;
  const octave = <u64>((b - 256) >> 7);
  const low = <f64>(((128 + <u64>((b - 256) & 127)) << (octave + 1)));
  const high = min<f64>(9007199254740992, low + <f64>((<u64>1 << (octave + 1)) - 1));
  return low + (high - low) / 2;
}

export function bucketMiddle(b: i32): f64 {
  return b < 0 ? -middleOf(-1 - b) : middleOf(b);
}

/** Returns the nearest rank, as nearestRank of src/base/math/log-histogram.ts does. */
export function rankOf(share: f64, n: u32): u32 {
  return <u32>max<f64>(1, min<f64>(<f64>n, Math.ceil(share * <f64>n * (1 - 8.881784197001252e-16))));
}
