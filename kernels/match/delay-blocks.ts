// Delays over the course of the captures, by blocks of consecutive pairs: repeated packets are paired by them (kernels/match/repeat-pairs.ts). Blocks contain a
// number of pairs, not a time span: they depend on the captures only, not on the length of intervals.

/** Initial number of pairs per block; at MOST_BLOCKS, blocks are merged in twos. */
const FIRST_SIZE: u32 = 256;
const MOST_BLOCKS: u32 = 4096;

@unmanaged
export class DelayBlock {
  matched: u32;
  others: u32; //   delays of the other kind
  from: f64; //     time at BEFORE of its first pair, never before that of the previous block
  first: f64; //    sums are relative to the first delay
  sum: f64;
  squares: f64;
  minimum: f64;
  maximum: f64;
  low: f64; //      delays are between low and high and, if they are of two kinds (a clock was set), between otherLow and otherHigh, else NaN
  high: f64;
  otherLow: f64;
  otherHigh: f64;
}
/** Delays further from the others than this many widths, and this many ns, are of another kind. */
const APART: f64 = 2;
const APART_AT_LEAST: f64 = 1000000;
/** Fewer pairs do not show the usual delay. */
const ENOUGH: u32 = 8;
/** A level has at least this many of a block's delays, and one in PER_LEVEL. */
const FEWEST_AT_LEVEL: u32 = 3;
const PER_LEVEL: u32 = 32;
const BLOCK_BYTES: u32 = offsetof<DelayBlock>();

@unmanaged
class DelayBlocks {
  blocks: u32;
  count: u32;
  room: u32;
  size: u32;
}

export function delayBlocksNew(): u32 {
  const p = heap.alloc(offsetof<DelayBlocks>());
  const b = changetype<DelayBlocks>(p);
  b.room = 16;
  b.blocks = <u32>heap.alloc(b.room * BLOCK_BYTES);
  b.count = 0;
  b.size = FIRST_SIZE;
  return <u32>p;
}

export function delayBlocksFree(p: u32): void {
  heap.free(changetype<DelayBlocks>(p).blocks);
  heap.free(p);
}

// @ts-ignore: decorator
@inline
function blockOf(b: DelayBlocks, i: u32): DelayBlock {
  return changetype<DelayBlock>(<usize>(b.blocks + i * BLOCK_BYTES));
}

function halve(b: DelayBlocks): void {
  for (let i: u32 = 0; i < b.count >> 1; i++) {
    const one = blockOf(b, 2 * i);
    const two = blockOf(b, 2 * i + 1);
    const apart = two.first - one.first;
    const n = <f64>two.matched;
    one.squares += two.squares + 2 * apart * two.sum + n * apart * apart;
    one.sum += two.sum + n * apart;
    one.minimum = min<f64>(one.minimum, two.minimum);
    one.maximum = max<f64>(one.maximum, two.maximum);
    // Merged blocks no longer distinguish kinds.
    one.low = one.minimum;
    one.high = one.maximum;
    noOther(one);
    one.matched += two.matched;
    memory.copy(changetype<usize>(blockOf(b, i)), changetype<usize>(one), BLOCK_BYTES);
  }
  b.count >>= 1;
  b.size <<= 1;
}

function begin(b: DelayBlocks, send: f64, delay: f64): void {
  if (b.count == MOST_BLOCKS) halve(b);
  if (b.count == b.room) {
    b.room <<= 1;
    b.blocks = <u32>heap.realloc(b.blocks, b.room * BLOCK_BYTES);
  }
  const block = blockOf(b, b.count);
  block.matched = 0;
  block.from = b.count > 0 ? max<f64>(send, blockOf(b, b.count - 1).from) : send;
  block.first = delay;
  block.sum = 0;
  block.squares = 0;
  block.minimum = delay;
  block.maximum = delay;
  block.low = delay;
  block.high = delay;
  noOther(block);
  b.count++;
}

/** Adds a delay outside the range of the first kind. One that is far from both kinds belongs to neither. */
function widen(block: DelayBlock, delay: f64): void {
  if (delay >= block.otherLow && delay <= block.otherHigh) {
    block.others++;
    return;
  }
  const toFirst = delay < block.low ? block.low - delay : delay - block.high;
  const toOther = delay < block.otherLow ? block.otherLow - delay : delay - block.otherHigh;
  if (isNaN(toOther)) {
    if (isApart(block.low, block.high, toFirst)) beginOther(block, delay);
    else widenFirst(block, delay, delay);
    return;
  }
  // Further away than the two kinds are from each other: they are one.
  if (min<f64>(toFirst, toOther) > max<f64>(block.otherLow - block.high, block.low - block.otherHigh)) {
    widenFirst(block, block.otherLow, block.otherHigh);
    noOther(block);
    widen(block, delay);
  } else if (isApart(block.low, block.high, toFirst) && isApart(block.otherLow, block.otherHigh, toOther)) {
    return;
  } else if (toOther < toFirst) {
    block.otherLow = min<f64>(block.otherLow, delay);
    block.otherHigh = max<f64>(block.otherHigh, delay);
    block.others++;
  } else widenFirst(block, delay, delay);
}

function isApart(low: f64, high: f64, distance: f64): bool {
  return distance > APART * (high - low) + APART_AT_LEAST;
}
function beginOther(block: DelayBlock, delay: f64): void {
  block.otherLow = delay;
  block.otherHigh = delay;
  block.others = 1;
}
function noOther(block: DelayBlock): void {
  block.otherLow = NaN;
  block.otherHigh = NaN;
  block.others = 0;
}
function widenFirst(block: DelayBlock, low: f64, high: f64): void {
  block.low = min<f64>(block.low, low);
  block.high = max<f64>(block.high, high);
}

/** Returns whether a block has two levels: a few late packets are no level. */
function hasLevels(block: DelayBlock): bool {
  const least = max<u32>(FEWEST_AT_LEVEL, block.matched / PER_LEVEL);
  return block.others >= least && block.matched - block.others >= least;
}

/** Returns whether the last block or the one before it has two levels. */
export function hadLevels(p: u32): bool {
  const b = changetype<DelayBlocks>(p);
  for (let k = b.count > 1 ? b.count - 2 : 0; k < b.count; k++) if (hasLevels(blockOf(b, k))) return true;
  return false;
}

/**
 * Returns whether delays around that time are of two kinds (a clock was set), and this one is of neither: then the range of both says nothing about it. `levels`:
 * only if there are several of either kind, and this one is between them.
 */
export function isOfNoKind(p: u32, time: f64, delay: f64, levels: bool): bool {
  const own = delayBlockAt(p, time);
  const b = changetype<DelayBlocks>(p);
  // The last block may have few pairs: those before it show the kinds, too.
  if (own == 0 || (b.count == 1 && changetype<DelayBlock>(own).matched < ENOUGH)) return false;
  const number = (<u32>own - b.blocks) / BLOCK_BYTES;
  let two = false;
  for (let k = number > 0 ? number - 1 : 0; k < b.count && k <= number + 1; k++) {
    const block = blockOf(b, k);
    if (isAmong(block.low, block.high, delay) || isAmong(block.otherLow, block.otherHigh, delay)) return false;
    two = two || (levels ? hasLevels(block) && delay > min<f64>(block.low, block.otherLow) && delay < max<f64>(block.high, block.otherHigh) : !isNaN(block.otherLow));
  }
  return two;
}

function isAmong(low: f64, high: f64, delay: f64): bool {
  const width = (high - low) / 2 + APART_AT_LEAST;
  return delay >= low - width && delay <= high + width;
}

/** Adds n pairs of one direction, in the order in which they were found: times at BEFORE, and delays. */
export function delayBlocksTake(p: u32, sends: usize, delays: usize, n: u32): void {
  const b = changetype<DelayBlocks>(p);
  for (let i: u32 = 0; i < n; ) {
    if (b.count == 0 || blockOf(b, b.count - 1).matched >= b.size) begin(b, load<f64>(sends + (i << 3)), load<f64>(delays + (i << 3)));
    const block = blockOf(b, b.count - 1);
    const to = min<u32>(n, i + b.size - block.matched);
    block.matched += to - i;
    const first = block.first;
    let sum = block.sum;
    let squares = block.squares;
    let minimum = block.minimum;
    let maximum = block.maximum;
    for (; i < to; i++) {
      const delay = load<f64>(delays + (i << 3));
      const x = delay - first;
      sum += x;
      squares += x * x;
      minimum = min<f64>(minimum, delay);
      maximum = max<f64>(maximum, delay);
      if (delay < block.low || delay > block.high) widen(block, delay);
    }
    block.sum = sum;
    block.squares = squares;
    block.minimum = minimum;
    block.maximum = maximum;
  }
}

/** Adds n deferred pairs of packets without identical others: each to the block of its time. */
export function delayBlocksAdd(p: u32, sends: usize, delays: usize, n: u32): void {
  for (let i: u32 = 0; i < n; i++) {
    const delay = load<f64>(delays + (i << 3));
    const at = delayBlockAt(p, load<f64>(sends + (i << 3)));
    if (at == 0) {
      delayBlocksTake(p, sends + (i << 3), delays + (i << 3), 1);
      continue;
    }
    const block = changetype<DelayBlock>(at);
    const x = delay - block.first;
    block.matched++;
    block.sum += x;
    block.squares += x * x;
    block.minimum = min<f64>(block.minimum, delay);
    block.maximum = max<f64>(block.maximum, delay);
    if (delay < block.low || delay > block.high) widen(block, delay);
  }
}

/** Minimum and maximum delay of the block requested last and its neighbours: a packet near their border may be in either. */
export let aroundMinimum: f64 = 0;
export let aroundMaximum: f64 = 0;

/** Sets that range for the last two blocks; returns false if they have too few pairs. */
export function lastRange(p: u32): bool {
  const b = changetype<DelayBlocks>(p);
  if (b.count == 0) return false;
  const last = blockOf(b, b.count - 1);
  const previous = blockOf(b, b.count > 1 ? b.count - 2 : 0);
  if (b.count == 1 && last.matched < ENOUGH) return false;
  aroundMinimum = min<f64>(last.minimum, previous.minimum);
  aroundMaximum = max<f64>(last.maximum, previous.maximum);
  return true;
}

/** Returns the block of packets that passed BEFORE at `time`; 0 without pairs. */
export function delayBlockAt(p: u32, time: f64): usize {
  const b = changetype<DelayBlocks>(p);
  if (b.count == 0) return 0;
  let low: u32 = 0;
  let high = b.count;
  while (high - low > 1) {
    const mid = (low + high) >> 1;
    if (blockOf(b, mid).from <= time) low = mid;
    else high = mid;
  }
  aroundMinimum = blockOf(b, low).minimum;
  aroundMaximum = blockOf(b, low).maximum;
  for (let k = low > 0 ? low - 1 : 0; k < b.count && k <= low + 1; k++) {
    aroundMinimum = min<f64>(aroundMinimum, blockOf(b, k).minimum);
    aroundMaximum = max<f64>(aroundMaximum, blockOf(b, k).maximum);
  }
  return changetype<usize>(blockOf(b, low));
}
