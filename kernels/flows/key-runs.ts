// Groups rows of a batch into runs of one flow key. Packets come in bursts, so there are far fewer runs than rows: the key is masked and hashed once per run,
// one look-up finds the flow of all its rows, and runs instead of keys are sent to another thread.
//
//   head: minimum f64 | maximum time of the rows f64
//   run: end u32 (one past its last row, counted from the first row of all runs) | bytes on the wire u32 | hash u64 | meta u64 | addrA u64
//   after room for `capacity` runs (the batch's), for IPv6 runs: addrB u64 | addrC u64 | addrD u64
//
// If most keys are not looked up (AFTER's packets belong to the flows of the packets that they match), IPv4 rows have their masked keys in place of the runs,
// not hashed: meta u64 | addrA u64 each.

import { Batch, META_IPV6 } from "../decode/batch";
import { avalanche, mixWord, P5 } from "../decode/digest";

export const RUNS_HEAD: u32 = 16;
export const RUN: u32 = 32;
export const WIDE_RUN: u32 = 24;
export const ROW_KEY: u32 = 16;
/** Flag in the count: entries are rows with a key each, not runs. */
export const KEY_PER_ROW: u32 = 1 << 30;

/** Returns the address of run `i`. */
// @ts-ignore: decorator
@inline
export function runAt(runs: usize, i: u32): usize {
  return runs + RUNS_HEAD + i * RUN;
}
/** Returns the address of its IPv6 words. */
// @ts-ignore: decorator
@inline
export function wideRun(runs: usize, capacity: u32, i: u32): usize {
  return runs + RUNS_HEAD + capacity * RUN + i * WIDE_RUN;
}

/**
 * Finds the runs of rows [from, to), with keys masked by `mask` (as keyFlows takes it). Returns how many there are; bit 31 is set if some of them are IPv6.
 */
export function keyRuns(b: usize, from: u32, to: u32, mask: usize, seed: u64, runs: usize): u32 {
  const batch = changetype<Batch>(b);
  const meta4 = load<u64>(mask);
  const addr4 = load<u64>(mask, 8);
  const metas = batch.meta;
  const addresses = batch.addrA;
  let n: u32 = 0;
  let wide: u32 = 0;
  let i = from;
  while (i < to) {
    const start = i;
    const o = i << 3;
    const meta = load<u64>(metas + o);
    const run = runAt(runs, n);
    if ((meta & META_IPV6) != 0) {
      wide |= keyWide(batch, i, mask, seed, run, wideRun(runs, batch.capacity, n));
      i++;
      while (i < to && sameWide(batch, i)) i++;
    } else {
      const key = meta & meta4;
      const a = load<u64>(addresses + o) & addr4;
      store<u64>(run, avalanche(mixWord(mixWord(seed + P5, key), a)), 8);
      store<u64>(run, key, 16);
      store<u64>(run, a, 24);
      i++;
      while (i < to) {
        const next = load<u64>(metas + (i << 3));
        if ((next & meta4) != key || (load<u64>(addresses + (i << 3)) & addr4) != a || (next & META_IPV6) != 0) break;
        i++;
      }
    }
    store<u32>(run, i - from);
    store<u32>(run, bytesOf(batch, start, i), 4);
    n++;
  }
  timeBounds(batch, from, to, runs);
  return n | (wide << 31);
}

/** Writes the masked keys of rows [from, to) one by one. Returns 0, and writes no keys, if some of them are IPv6. */
export function keyRows(b: usize, from: u32, to: u32, mask: usize, runs: usize): u32 {
  const batch = changetype<Batch>(b);
  const meta4 = load<u64>(mask);
  const addr4 = load<u64>(mask, 8);
  const metas = batch.meta;
  const addresses = batch.addrA;
  let all: u64 = 0;
  let out = runs + RUNS_HEAD;
  for (let i = from; i < to; i++) {
    const meta = load<u64>(metas + (i << 3));
    all |= meta;
    store<u64>(out, meta & meta4);
    store<u64>(out, load<u64>(addresses + (i << 3)) & addr4, 8);
    out += ROW_KEY;
  }
  if ((all & META_IPV6) != 0) return 0;
  timeBounds(batch, from, to, runs);
  return 1;
}

function timeBounds(batch: Batch, from: u32, to: u32, out: usize): void {
  let minimum: f64 = Infinity;
  let maximum: f64 = -Infinity;
  for (let i = from; i < to; i++) {
    const time = load<f64>(batch.time + (i << 3));
    if (time < minimum) minimum = time;
    if (time > maximum) maximum = time;
  }
  store<f64>(out, minimum);
  store<f64>(out, maximum, 8);
}

/** Returns the bytes of rows [from, to). Lengths of a mebibyte or more, which only a damaged capture claims, are limited. */
// @ts-ignore: decorator
@inline
function bytesOf(batch: Batch, from: u32, to: u32): u32 {
  let sum: u32 = 0;
  for (let i = from; i < to; i++) sum += min<u32>(load<u32>(batch.wireLength + (i << 2)), 0xfffff);
  return sum;
}

/** Returns whether row i has exactly the addresses and the meta word of the previous row. */
function sameWide(batch: Batch, i: u32): bool {
  const o = i << 3;
  return (
    load<u64>(batch.meta + o) == load<u64>(batch.meta + o - 8) &&
    load<u64>(batch.addrA + o) == load<u64>(batch.addrA + o - 8) &&
    load<u64>(batch.addrB + o) == load<u64>(batch.addrB + o - 8) &&
    load<u64>(batch.addrC + o) == load<u64>(batch.addrC + o - 8) &&
    load<u64>(batch.addrD + o) == load<u64>(batch.addrD + o - 8)
  );
}

/** Writes the key of an IPv6 row. Returns 1 if it uses the wide words; a key without addresses is the same for both IP versions and has no version bit. */
function keyWide(batch: Batch, i: u32, mask: usize, seed: u64, run: usize, wide: usize): u32 {
  const o = i << 3;
  const meta = load<u64>(batch.meta + o) & load<u64>(mask, 16);
  const a = load<u64>(batch.addrA + o) & load<u64>(mask, 24);
  let h = mixWord(mixWord(seed + P5, meta), a);
  store<u64>(run, meta, 16);
  store<u64>(run, a, 24);
  const isWide: u32 = (meta & META_IPV6) != 0 ? 1 : 0;
  if (isWide != 0) {
    const b = load<u64>(batch.addrB + o) & load<u64>(mask, 32);
    const c = load<u64>(batch.addrC + o) & load<u64>(mask, 40);
    const d = load<u64>(batch.addrD + o) & load<u64>(mask, 48);
    store<u64>(wide, b);
    store<u64>(wide, c, 8);
    store<u64>(wide, d, 16);
    h = mixWord(mixWord(mixWord(h, b), c), d);
  }
  store<u64>(run, avalanche(h), 8);
  return isWide;
}
