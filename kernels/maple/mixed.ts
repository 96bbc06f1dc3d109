// Distributes the packets of an epoch over three ribbons by their hash: class c stores group numbers without their last c bits.

import { rehash } from "../decode/digest";
import { KIND_MATCH } from "./svbf";

const SALT: u64 = 0x6d69786564726962;

/** Returns the class of a key: 0 below the first threshold, 1 below the second, otherwise 2. */
// @ts-ignore: decorator
@inline
function classOf(key: u64, seed: u64, first: u32, second: u32): u32 {
  const u = <u32>(rehash(key, seed ^ SALT) >> 32);
  return u < first ? 0 : u < second ? 1 : 2;
}

/** Output of mixedSplit: keys (u64), group numbers (u16) and original row (u32) sorted by class, and the size of each class (3 u32). */
@unmanaged
class Split {
  keys: u32;
  codes: u32;
  rows: u32;
  counts: u32;
}

/** Sorts keys (u64) and, if given, group numbers (u16) by class, and drops the last bits of the numbers. */
export function mixedSplit(keys: usize, codes: usize, n: u32, seed: u64, first: u32, second: u32, split: usize): void {
  const into = changetype<Split>(split);
  const outKeys: usize = into.keys;
  const outCodes: usize = into.codes;
  const rows: usize = into.rows;
  const counts: usize = into.counts;
  memory.fill(counts, 0, 12);
  for (let i: u32 = 0; i < n; i++) {
    const at = counts + (classOf(load<u64>(keys + (i << 3)), seed, first, second) << 2);
    store<u32>(at, load<u32>(at) + 1);
  }
  let next0: u32 = 0;
  let next1: u32 = load<u32>(counts);
  let next2: u32 = next1 + load<u32>(counts, 4);
  for (let i: u32 = 0; i < n; i++) {
    const key = load<u64>(keys + (i << 3));
    const c = classOf(key, seed, first, second);
    const to = c == 0 ? next0++ : c == 1 ? next1++ : next2++;
    store<u64>(outKeys + (to << 3), key);
    store<u32>(rows + (to << 2), i);
    if (codes != 0) store<u16>(outCodes + (to << 1), <u16>(<u32>load<u16>(codes + (i << 1)) >> c));
  }
}

/** Copies the answers of one class's ribbon to their original rows, expanded to the groups that a shortened number may stand for. */
export function mixedGather(answers: usize, rows: usize, n: u32, shift: u32, groups: u32, out: usize): void {
  for (let i: u32 = 0; i < n; i++) {
    const word = load<u32>(answers + (i << 3));
    const q = out + (load<u32>(rows + (i << 2)) << 3);
    if (word >> 16 == 0) {
      store<u64>(q, 0);
      continue;
    }
    const low = (word & 0xffff) << shift;
    const high = min<u32>(groups - 1, low + (1 << shift) - 1);
    store<u32>(q, low | KIND_MATCH);
    store<u32>(q, low | (high << 16), 4);
  }
}
