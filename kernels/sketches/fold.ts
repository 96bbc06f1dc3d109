// Adds cells that were filled elsewhere (datapath/: one array per CPU) to those of a tap. LDA, LDS and COLATE have the same cells:
//
//   cell (16 bytes): sum i64, wraps | packets u32 | xor of digests u32

import { Lds } from "./lds";

/** Adds `count` cells at `from` to those at `to`. */
export function cellsFold(to: usize, from: usize, count: u32): void {
  const end = from + (<usize>count << 4);
  while (from < end) {
    const word = load<u64>(from, 8);
    if (word != 0) {
      store<i64>(to, load<i64>(to) + load<i64>(from));
      // Counts stay below 2^32, so that nothing carries into the digests, which are xored.
      const own = load<u64>(to, 8);
      const packets = (own & 0xffffffff) + (word & 0xffffffff);
      store<u64>(to, (packets & 0xffffffff) | ((own ^ word) & 0xffffffff00000000), 8);
    }
    to += 16;
    from += 16;
  }
}

/** Recomputes the total of each row from its counts, for cells that were added by cellsFold. */
export function ldsCountRows(p: usize): void {
  const lds = changetype<Lds>(p);
  let cell: usize = lds.cells;
  for (let r: u32 = 0; r < lds.rows; r++) {
    let total: u64 = 0;
    for (let c: u32 = 0; c < lds.columns; c++) {
      total += <u64>load<u32>(cell, 8);
      cell += 16;
    }
    store<u64>(lds.table + r * 32, total, 24);
  }
}
