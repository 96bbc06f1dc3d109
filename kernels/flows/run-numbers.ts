// Flows numbered where runs of their keys are found (kernels/flows/key-runs.ts), in order of appearance, for the thread that looks the flows up: a table by these small numbers
// stays in its cache, an index by hashes does not. Keys are told apart by the upper half of their hashes alone, so two may share a number: whoever is given one compares the key.
//
//   slot: upper half of the hash u32 << 32 | number u32; 0 is free

import { runAt } from "./key-runs";

@unmanaged
class RunNumbers {
  slots: u32;
  bits: u32; //  log2 of the slots
  count: u32;
}

const FIRST_BITS: u32 = 12;
const TAG: u64 = 0xffffffff00000000;

export function runNumbersNew(): usize {
  const p = heap.alloc(offsetof<RunNumbers>());
  const numbers = changetype<RunNumbers>(p);
  numbers.bits = FIRST_BITS;
  numbers.slots = <u32>heap.alloc(8 << FIRST_BITS);
  numbers.count = 0;
  memory.fill(numbers.slots, 0, 8 << FIRST_BITS);
  return p;
}

export function runNumbersFree(p: usize): void {
  heap.free(changetype<RunNumbers>(p).slots);
  heap.free(p);
}

/** Numbers of the first `n` runs, in the lower half of their hashes. */
export function numberRuns(p: usize, runs: usize, n: u32): void {
  const numbers = changetype<RunNumbers>(p);
  const slots = numbers.slots;
  const shift = 64 - numbers.bits;
  const mask: u32 = (1 << numbers.bits) - 1;
  // Loads that do not wait for each other overlap their cache misses; without branches, since a slot that another key took is met at random.
  for (let i: u32 = 0; i < n; i++) {
    const hash = load<u64>(runAt(runs, i), 8);
    const j = <u32>(hash >> shift);
    const first = load<u64>(slots + (j << 3));
    const second = load<u64>(slots + (((j + 1) & mask) << 3));
    const isFirst: u32 = 0 - <u32>((first ^ hash) >> 32 == 0);
    const isSecond: u32 = 0 - <u32>((second ^ hash) >> 32 == 0);
    store<u32>(runAt(runs, i), (<u32>first & isFirst) | (<u32>second & isSecond & ~isFirst), 8);
  }
  for (let i: u32 = 0; i < n; i++) {
    const run = runAt(runs, i);
    if (load<u32>(run, 8) == 0) store<u32>(run, numberOf(numbers, load<u64>(run, 8)), 8);
  }
}

/** The number of the key with this hash, made where it is new; from 1 on. */
function numberOf(numbers: RunNumbers, hash: u64): u32 {
  const mask: u32 = (1 << numbers.bits) - 1;
  let j = <u32>(hash >> (64 - numbers.bits));
  for (;;) {
    const slot = load<u64>(numbers.slots + (j << 3));
    if (slot == 0) break;
    if ((slot ^ hash) >> 32 == 0) return <u32>slot;
    j = (j + 1) & mask;
  }
  const number = ++numbers.count;
  store<u64>(numbers.slots + (j << 3), (hash & TAG) | <u64>number);
  if (number >> (numbers.bits - 1) != 0) grow(numbers);
  return number;
}

/** Twice the slots. */
function grow(numbers: RunNumbers): void {
  const old = numbers.slots;
  const end = old + (8 << numbers.bits);
  const bits = numbers.bits + 1;
  const mask: u32 = (1 << bits) - 1;
  const slots = <u32>heap.alloc(8 << bits);
  memory.fill(slots, 0, 8 << bits);
  for (let at = old; at < end; at += 8) {
    const slot = load<u64>(at);
    if (slot == 0) continue;
    let j = <u32>(slot >> (64 - bits));
    while (load<u64>(slots + (j << 3)) != 0) j = (j + 1) & mask;
    store<u64>(slots + (j << 3), slot);
  }
  heap.free(old);
  numbers.slots = slots;
  numbers.bits = bits;
}
