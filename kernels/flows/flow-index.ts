// Finds flows by their keys: a hash index over kernels/flows/flow-records.ts. Whole keys are compared, so two flows never share a record because their hashes
// collide.
//
//   index: upper half of the key's hash << 32 | number + 1, at the slot given by the hash's first bits

import { Batch, META_IPV6 } from "../decode/batch";
import { avalanche, hashKey, mixWord, P5 } from "../decode/digest";
import { addRecord, addWide, directionOf, Flow, flowIn, flowSegments, FlowStats, statsCount, WIDE, wideOf } from "./flow-records";
import { statsTurn } from "./flow-sums";
import { ROW_KEY, runAt, RUNS_HEAD, wideRun } from "./key-runs";
import { allocate } from "./tables";

const TAG: u64 = 0xffffffff00000000;
/** With this many bits the index and the records accessed through it no longer fit in the cache. */
const MANY_BITS: u32 = 15;

/** Writes a flow's key as five u64: meta, addrA to addrD. */
export function statsKey(p: usize, id: u32, out: usize): void {
  const stats = changetype<FlowStats>(p);
  const flow = flowIn(flowSegments(stats), id);
  store<u64>(out, flow.meta);
  store<u64>(out, flow.addrA, 8);
  if (flow.wide == 0) memory.fill(out + 16, 0, WIDE);
  else memory.copy(out + 16, wideOf(stats, flow), WIDE);
}

/** Doubles the slots. Flows lie in the order of their hashes before and after, so both tables are read and written sequentially. */
function growIndex(stats: FlowStats): void {
  const old = stats.index;
  const end = old + (8 << stats.indexBits);
  const bits = stats.indexBits + 1;
  const mask: u32 = (1 << bits) - 1;
  const index = allocate(8 << bits);
  memory.fill(index, 0, 8 << bits);
  for (let at = old; at < end; at += 8) {
    const slot = load<u64>(at);
    if (slot == 0) continue;
    let j = <u32>(slot >> (64 - bits));
    while (load<u64>(index + (j << 3)) != 0) j = (j + 1) & mask;
    store<u64>(index + (j << 3), slot);
  }
  heap.free(old);
  stats.index = index;
  stats.indexBits = bits;
}

// @ts-ignore: decorator
@inline
function sameKey(stats: FlowStats, flow: Flow, meta: u64, a: u64, wide: usize): bool {
  if (flow.meta != meta || flow.addrA != a) return false;
  if ((meta & META_IPV6) == 0) return true;
  const w = wideOf(stats, flow);
  return load<u64>(w) == load<u64>(wide) && load<u64>(w, 8) == load<u64>(wide, 8) && load<u64>(w, 16) == load<u64>(wide, 16);
}

/** Returns the number of the flow with this key, or -1 - the free slot where the search ended. `wide`: the rest of an IPv6 key. */
// @ts-ignore: decorator
@inline
function search(stats: FlowStats, hash: u64, meta: u64, a: u64, wide: usize): i32 {
  const segments = flowSegments(stats);
  const index = stats.index;
  const mask: u32 = (1 << stats.indexBits) - 1;
  let j = <u32>(hash >> (64 - stats.indexBits));
  while (true) {
    const slot = load<u64>(index + (j << 3));
    if (slot == 0) return -1 - <i32>j;
    if (((slot ^ hash) & TAG) == 0 && sameKey(stats, flowIn(segments, <u32>slot - 1), meta, a, wide)) return <i32>(<u32>slot - 1);
    j = (j + 1) & mask;
  }
  return -1;
}

function addFlow(stats: FlowStats, slot: u32, hash: u64, meta: u64, a: u64, wide: usize): u32 {
  const id = statsCount(changetype<usize>(stats));
  const flow = addRecord(stats);
  flow.meta = meta;
  flow.addrA = a;
  if ((meta & META_IPV6) != 0) {
    addWide(stats, flow, wide);
  }
  store<u64>(stats.index + (slot << 3), (hash & TAG) | <u64>(id + 1));
  if ((id + 1) >> (stats.indexBits - 1) != 0) growIndex(stats);
  return id;
}

/** Returns the number of the flow of run `i`; adds the flow if it is new. */
// @ts-ignore: decorator
@inline
export function flowOfRun(stats: FlowStats, runs: usize, capacity: u32, i: u32): u32 {
  const run = runAt(runs, i);
  const hash = load<u64>(run, 8);
  const meta = load<u64>(run, 16);
  const a = load<u64>(run, 24);
  const wide = wideRun(runs, capacity, i);
  const found = search(stats, hash, meta, a, wide);
  return found >= 0 ? <u32>found : addFlow(stats, <u32>(-1 - found), hash, meta, a, wide);
}

/** Returns the number of the flow of row `i`, for rows stored with a key each; adds the flow if it is new. */
export function flowOfRow(stats: FlowStats, runs: usize, i: u32): u32 {
  const key = runs + RUNS_HEAD + i * ROW_KEY;
  const meta = load<u64>(key);
  const a = load<u64>(key, 8);
  const hash = avalanche(mixWord(mixWord(stats.seed + P5, meta), a));
  const found = search(stats, hash, meta, a, 0);
  return found >= 0 ? <u32>found : addFlow(stats, <u32>(-1 - found), hash, meta, a, 0);
}

/**
 * Number of runs or pairs touched before they are processed: enough for their cache misses to overlap, few enough for the first to be still in the L1 cache
 * when its turn comes.
 */
export const TOUCHED_AT_ONCE: u32 = 64;

/**
 * Loads the memory that look-ups of runs [from, to) will need: independent loads overlap their cache misses, the dependent ones of a look-up do not. Writes to
 * `scratch`, a u32 per run, the likely flow of each (its number + 1; 0: unknown), for likelyFlowOfRun. Returns false, without doing anything, for a small
 * index, which is in the cache.
 */
export function touchRuns(stats: FlowStats, runs: usize, from: u32, to: u32, scratch: u32): bool {
  if (stats.indexBits < MANY_BITS) return false;
  likelyFlows(stats, runs, from, to, scratch);
  const segments = flowSegments(stats);
  let sum: u32 = 0;
  for (let i = from; i < to; i++) {
    const id = load<u32>(scratch + (i << 2));
    sum += flowIn(segments, id - <u32>(id != 0)).sent;
  }
  stats.touched = sum;
  return true;
}

/** Looks only at the first two slots, without branches: whether another flow occupies a slot is random. */
function likelyFlows(stats: FlowStats, runs: usize, from: u32, to: u32, scratch: u32): void {
  const index = stats.index;
  const shift = 64 - stats.indexBits;
  const mask: u32 = (1 << stats.indexBits) - 1;
  for (let i = from; i < to; i++) {
    const hash = load<u64>(runAt(runs, i), 8);
    const j = <u32>(hash >> shift);
    const first = load<u64>(index + (j << 3));
    const second = load<u64>(index + (((j + 1) & mask) << 3));
    const isFirst: u32 = 0 - <u32>(((first ^ hash) & TAG) == 0);
    const isSecond: u32 = 0 - <u32>(((second ^ hash) & TAG) == 0);
    store<u32>(scratch + (i << 2), (<u32>first & isFirst) | (<u32>second & isSecond & ~isFirst));
  }
}

/** Returns the number of the flow of run `i`, for which touchRuns found flow `likely` - 1. */
// @ts-ignore: decorator
@inline
export function likelyFlowOfRun(stats: FlowStats, runs: usize, capacity: u32, i: u32, likely: u32): u32 {
  const run = runAt(runs, i);
  if (likely != 0 && sameKey(stats, flowIn(flowSegments(stats), likely - 1), load<u64>(run, 16), load<u64>(run, 24), wideRun(runs, capacity, i)))
    return likely - 1;
  return flowOfRun(stats, runs, capacity, i);
}

/** Returns the flow of the opposite direction (addresses and ports exchanged), or -1. `scratch`: 40 bytes. */
export function statsReverse(p: usize, id: u32, scratch: usize): i32 {
  const stats = changetype<FlowStats>(p);
  statsKey(p, id, scratch);
  const meta = load<u64>(scratch);
  const a = load<u64>(scratch, 8);
  const ports = <u32>meta;
  store<u64>(scratch, (meta & TAG) | <u64>((ports >> 16) | (ports << 16)));
  if ((meta & META_IPV6) == 0) store<u64>(scratch, rotl<u64>(a, 32), 8);
  else {
    const b = load<u64>(scratch, 16);
    store<u64>(scratch, load<u64>(scratch, 24), 8);
    store<u64>(scratch, load<u64>(scratch, 32), 16);
    store<u64>(scratch, a, 24);
    store<u64>(scratch, b, 32);
  }
  const found = search(stats, hashKey(scratch, stats.seed), load<u64>(scratch), load<u64>(scratch, 8), scratch + 16);
  return found >= 0 ? found : -1;
}

/**
 * Returns the next flow from `from` on that has matched packets and whose opposite has some too and a higher number. Returns -1 if there is none, or after
 * looking at `maximum` flows. Writes the opposite's number to `scratch` + 40. `scratch`: 48 bytes.
 */
export function statsPeer(p: usize, from: u32, maximum: u32, scratch: usize): i32 {
  const segments = flowSegments(changetype<FlowStats>(p));
  const count = statsCount(p);
  let asked: u32 = 0;
  for (let id = from; id < count && asked < maximum; id++) {
    if (flowIn(segments, id).matched == 0) continue;
    asked++;
    const other = statsReverse(p, id, scratch);
    if (other <= <i32>id || flowIn(segments, <u32>other).matched == 0) continue;
    store<u32>(scratch, <u32>other, 40);
    return <i32>id;
  }
  return -1;
}

/** Sets the direction of the flow with the key at `key` (five u64, as statsKey writes it), whatever its packets show; adds the flow if it is new. */
export function statsDirect(p: usize, key: usize, direction: u32): void {
  const stats = changetype<FlowStats>(p);
  const hash = hashKey(key, stats.seed);
  const meta = load<u64>(key);
  const a = load<u64>(key, 8);
  const found = search(stats, hash, meta, a, key + 16);
  const id = found >= 0 ? <u32>found : addFlow(stats, <u32>(-1 - found), hash, meta, a, key + 16);
  statsTurn(p, id, direction);
}

/** Returns the place in a bitmap of a pair of hosts, the same for either order; bit 31 is the order. -1: both ends are the same host. */
function hostPlace(stats: FlowStats, flow: Flow, bits: u32): u32 {
  let one = flow.addrA >> 32;
  let other = flow.addrA & 0xffffffff;
  if ((flow.meta & META_IPV6) != 0) {
    const wide = wideOf(stats, flow);
    one = mixWord(flow.addrA, load<u64>(wide));
    other = mixWord(load<u64>(wide, 8), load<u64>(wide, 16));
  }
  if (one == other) return -1;
  const low = min<u64>(one, other);
  const high = max<u64>(one, other);
  return <u32>(avalanche(mixWord(low + P5, high)) >> (64 - bits)) | (one < other ? <u32>1 << 31 : 0);
}

/**
 * Writes to `out`, up to `room`, the numbers of flows with matched packets between hosts that also have some in the opposite order; returns how many. A few
 * other flows are included, because bitmap places are shared. `maps`: two bitmaps of 2^bits bits, all 0.
 */
export function statsBothWays(p: usize, maps: usize, bits: u32, out: usize, room: u32): u32 {
  const stats = changetype<FlowStats>(p);
  const segments = flowSegments(stats);
  const count = statsCount(p);
  const half: u32 = 1 << (bits - 3);
  let n: u32 = 0;
  for (let pass = 0; pass < 2; pass++) {
    for (let id: u32 = 0; id < count && n < room; id++) {
      const flow = flowIn(segments, id);
      if (flow.matched == 0) continue;
      const place = hostPlace(stats, flow, bits);
      if (place == -1) continue;
      const byte = maps + ((place & 0x7fffffff) >> 3);
      const bit: u8 = 1 << (<u8>place & 7);
      const own: u32 = place >> 31;
      if (pass == 0) store<u8>(byte + own * half, load<u8>(byte + own * half) | bit);
      else if ((load<u8>(byte + (1 - own) * half) & bit) != 0) store<u32>(out + (n++ << 2), id);
    }
  }
  return n;
}

/** Deselects rows (plane 0 of `select`) whose flow does not go in this direction. `runs` has the rows' keys. */
export function statsSelect(p: usize, b: usize, runs: usize, runCount: u32, direction: u32): void {
  const stats = changetype<FlowStats>(p);
  const segments = flowSegments(stats);
  const batch = changetype<Batch>(b);
  let row: u32 = 0;
  for (let r: u32 = 0; r < runCount; r++) {
    const run = runAt(runs, r);
    const end = load<u32>(run);
    const wide = wideRun(runs, batch.capacity, r);
    const found = search(stats, load<u64>(run, 8), load<u64>(run, 16), load<u64>(run, 24), wide);
    // A flow of unknown direction counts as BEFORE to AFTER, as in the report.
    const way: u32 = found >= 0 && directionOf(flowIn(segments, <u32>found)) == 2 ? 2 : 1;
    if (way != direction) memory.fill(batch.select + row, 0, end - row);
    row = end;
  }
}
