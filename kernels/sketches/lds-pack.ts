// Writes the cells of an LDS or SDS as the planes of a payload (src/estimators/lds/payload.ts has the layout, and the same code in TypeScript for merging
// payloads). Output goes piece by piece into a small buffer, so that sealing takes no memory that grows with the sketch.

import { varint } from "../flows/varint";
import { Lds } from "./lds";

/** Planes, in payload order. */
const COUNTS: u32 = 0;
const SUMS: u32 = 1;
const DIGESTS: u32 = 2;
const BYTES: u32 = 3;
const DONE: u32 = 4;
/** Maximum bytes of a cell in a plane. */
const LONGEST: usize = 16;

@unmanaged
class Packing {
  plane: u32;
  cell: u32; //   next of the plane
  digest: u32; // bytes of each digest
  pad: u32;
  centre: i64;
}

/** `centre`: whole ns that are subtracted from the mean of each sum. */
export function ldsPackNew(digestBits: u32, centre: f64): usize {
  const q = heap.alloc(offsetof<Packing>());
  const packing = changetype<Packing>(q);
  packing.plane = COUNTS;
  packing.cell = 0;
  packing.digest = digestBits >> 3;
  packing.centre = <i64>centre;
  return q;
}

/** Returns the sum of all cells' values, from which the centre is computed. */
export function ldsSum(p: usize): f64 {
  const lds = changetype<Lds>(p);
  const end = lds.cells + lds.rows * lds.columns * 16;
  let sum: f64 = 0;
  for (let c: usize = lds.cells; c < end; c += 16) sum += <f64>load<i64>(c);
  return sum;
}

/** Returns the sum of all cells' counts. */
export function ldsCounted(p: usize): f64 {
  const lds = changetype<Lds>(p);
  const end = lds.cells + lds.rows * lds.columns * 16;
  let n: u64 = 0;
  for (let c: usize = lds.cells; c < end; c += 16) n += <u64>load<u32>(c, 8);
  return <f64>n;
}

function packCounts(cells: usize, n: u32, packing: Packing, out: usize, end: usize): usize {
  let i = packing.cell;
  while (i < n && out + LONGEST <= end) {
    const count = load<u32>(cells + (<usize>i << 4), 8);
    i++;
    out = varint(out, count);
    if (count != 0) continue;
    const first = i;
    while (i < n && load<u32>(cells + (<usize>i << 4), 8) == 0) i++;
    out = varint(out, i - first);
  }
  packing.cell = i;
  return out;
}

/** Writes non-empty cells: their sums relative to the centre, or their digests. */
function packCells(cells: usize, n: u32, packing: Packing, out: usize, end: usize): usize {
  const centre = packing.centre;
  const sums = packing.plane == SUMS;
  let i = packing.cell;
  for (; i < n && out + LONGEST <= end; i++) {
    const c = cells + (<usize>i << 4);
    const count = load<u32>(c, 8);
    if (count == 0) continue;
    if (sums) {
      const v = load<i64>(c) - <i64>count * centre;
      out = varint(out, <u64>((v << 1) ^ (v >> 63)));
    } else {
      store<u32>(out, load<u32>(c, 12));
      out += packing.digest;
    }
  }
  packing.cell = i;
  return out;
}

function packBytes(lds: Lds, n: u32, packing: Packing, out: usize, end: usize): usize {
  const cells: usize = lds.cells;
  const bytes: usize = lds.bytes;
  let i = packing.cell;
  for (; i < n && out + LONGEST <= end; i++) {
    if (load<u32>(cells + (<usize>i << 4), 8) != 0) out = varint(out, load<u64>(bytes + (<usize>i << 3)));
  }
  packing.cell = i;
  return out;
}

/**
 * Writes the next bytes of the planes to `to`, up to `room`, which must exceed LONGEST. Returns their number, or 0 after the last ones; the packing has then
 * been freed.
 */
export function ldsPack(p: usize, q: usize, to: usize, room: u32): u32 {
  const lds = changetype<Lds>(p);
  const packing = changetype<Packing>(q);
  const n = lds.rows * lds.columns;
  const end = to + room;
  let out = to;
  while (packing.plane != DONE) {
    const plane = packing.plane;
    if (plane == COUNTS) out = packCounts(lds.cells, n, packing, out, end);
    else if ((plane == DIGESTS && packing.digest == 0) || (plane == BYTES && lds.bytes == 0)) packing.cell = n;
    else if (plane == BYTES) out = packBytes(lds, n, packing, out, end);
    else out = packCells(lds.cells, n, packing, out, end);
    // The rest does not fit now.
    if (packing.cell < n) break;
    packing.plane++;
    packing.cell = 0;
  }
  if (out == to) heap.free(q);
  return <u32>(out - to);
}
