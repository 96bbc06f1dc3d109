// The primitives of filters: each answers one question for every row of a batch and writes 1 or 0 per row into a plane, an array of bytes. Planes are then
// joined by and, or, not. Only columns are read, never packet bytes: simulated batches have none.
//
// `ends` selects which end of a packet must match, as a truth table over (source matches) + 2 * (destination matches). So the loops need no branches.

import { Batch, META_IPV6, META_PORTS } from "./batch";

export const ENDS_SOURCE: u32 = 0b1010;
export const ENDS_DESTINATION: u32 = 0b1100;
export const ENDS_EITHER: u32 = 0b1110;
export const ENDS_BOTH: u32 = 0b1000;

/** Sets every row to the same value. */
export function filterConstant(b: usize, plane: usize, value: u32): void {
  memory.fill(plane, <u8>value, changetype<Batch>(b).count);
}

/** (meta & mask) == value: protocol, IP version, VLAN. */
export function filterMeta(b: usize, plane: usize, mask: u64, value: u64): void {
  const n = changetype<Batch>(b).count;
  const meta: usize = changetype<Batch>(b).meta;
  for (let i: usize = 0; i < n; i++) {
    store<u8>(plane + i, <u8>((load<u64>(meta + (i << 3)) & mask) == value));
  }
}

/** Matches low <= (word >> shift & mask) <= high, or the opposite if `outside` is 1; in either case (meta & needMask) == needValue must hold. */
@unmanaged
export class WordQuestion {
  needMask: u64;
  needValue: u64;
  shift: u32;
  mask: u32;
  low: u32;
  high: u32;
  outside: u32;
}

/**
 * Tests a number in a column (needMask is for numbers that only some packets have). `column` is the address of the first word, `stride` the log2 of the bytes
 * between rows (half of a 64-bit column is a word, too).
 */
export function filterWord(b: usize, plane: usize, column: usize, stride: u32, question: usize): void {
  const n = changetype<Batch>(b).count;
  const meta: usize = changetype<Batch>(b).meta;
  const asked = changetype<WordQuestion>(question);
  const shift = asked.shift;
  const mask = asked.mask;
  const low = asked.low;
  const outside = asked.outside;
  const needMask = asked.needMask;
  const needValue = asked.needValue;
  const span = asked.high - low;
  for (let i: usize = 0; i < n; i++) {
    const x = (load<u32>(column + (i << stride)) >> shift) & mask;
    const fits = <u32>(x - low <= span) ^ outside;
    store<u8>(plane + i, <u8>(fits & <u32>((load<u64>(meta + (i << 3)) & needMask) == needValue)));
  }
}

/** Tests for a port in [low, high] of one of three protocols (to test for a single protocol, pass it three times). */
export function filterPort(
  b: usize, plane: usize, low: u32, high: u32, ends: u32, protoA: u32, protoB: u32, protoC: u32,
): void {
  const n = changetype<Batch>(b).count;
  const meta: usize = changetype<Batch>(b).meta;
  const span = high - low;
  for (let i: usize = 0; i < n; i++) {
    const m = load<u64>(meta + (i << 3));
    const proto = <u32>(m >> 32) & 0xff;
    const source = <u32>(((<u32>m) >> 16) - low <= span);
    const destination = <u32>((<u32>m & 0xffff) - low <= span);
    const known = <u32>((m & META_PORTS) != 0) & (<u32>(proto == protoA) | <u32>(proto == protoB) | <u32>(proto == protoC));
    store<u8>(plane + i, <u8>(known & (ends >> (source | (destination << 1)))));
  }
}

/** Tests IPv4 addresses: (address & mask) == net. */
export function filterNet4(b: usize, plane: usize, net: u32, mask: u32, ends: u32): void {
  const n = changetype<Batch>(b).count;
  const meta: usize = changetype<Batch>(b).meta;
  const addrA: usize = changetype<Batch>(b).addrA;
  for (let i: usize = 0; i < n; i++) {
    const a = load<u64>(addrA + (i << 3));
    const source = <u32>((<u32>(a >> 32) & mask) == net);
    const destination = <u32>((<u32>a & mask) == net);
    const v4 = <u32>((load<u64>(meta + (i << 3)) & META_IPV6) == 0);
    store<u8>(plane + i, <u8>(v4 & (ends >> (source | (destination << 1)))));
  }
}

/** Tests IPv6 addresses, in halves. */
export function filterNet6(b: usize, plane: usize, netHigh: u64, netLow: u64, maskHigh: u64, maskLow: u64, ends: u32): void {
  const batch = changetype<Batch>(b);
  const n = batch.count;
  const meta: usize = batch.meta;
  const addrA: usize = batch.addrA;
  const addrB: usize = batch.addrB;
  const addrC: usize = batch.addrC;
  const addrD: usize = batch.addrD;
  for (let i: usize = 0; i < n; i++) {
    const o = i << 3;
    const source = <u32>((((load<u64>(addrA + o) ^ netHigh) & maskHigh) | ((load<u64>(addrB + o) ^ netLow) & maskLow)) == 0);
    const destination = <u32>((((load<u64>(addrC + o) ^ netHigh) & maskHigh) | ((load<u64>(addrD + o) ^ netLow) & maskLow)) == 0);
    const v6 = <u32>((load<u64>(meta + o) & META_IPV6) != 0);
    store<u8>(plane + i, <u8>(v6 & (ends >> (source | (destination << 1)))));
  }
}

/** plane &= other */
export function filterAnd(b: usize, plane: usize, other: usize): void {
  const n: usize = changetype<Batch>(b).count;
  let i: usize = 0;
  // Do not write beyond the rows: the byte behind a plane belongs to another plane.
  for (; i + 8 <= n; i += 8) store<u64>(plane + i, load<u64>(plane + i) & load<u64>(other + i));
  for (; i < n; i++) store<u8>(plane + i, load<u8>(plane + i) & load<u8>(other + i));
}

/** plane |= other */
export function filterOr(b: usize, plane: usize, other: usize): void {
  const n: usize = changetype<Batch>(b).count;
  let i: usize = 0;
  for (; i + 8 <= n; i += 8) store<u64>(plane + i, load<u64>(plane + i) | load<u64>(other + i));
  for (; i < n; i++) store<u8>(plane + i, load<u8>(plane + i) | load<u8>(other + i));
}

export function filterNot(b: usize, plane: usize): void {
  const n: usize = changetype<Batch>(b).count;
  let i: usize = 0;
  for (; i + 8 <= n; i += 8) store<u64>(plane + i, load<u64>(plane + i) ^ 0x0101010101010101);
  for (; i < n; i++) store<u8>(plane + i, load<u8>(plane + i) ^ 1);
}
