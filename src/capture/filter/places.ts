/**
 * Where the numbers that filters ask for are stored, and what a comparison means for them; shared by batches (filter.ts) and eBPF
 * (src/capture/ebpf/kernel-filter.ts).
 */
import { batchConstants, filterConstants } from "../../base/kernel-layout.ts";
import type { FilterEnd, FilterNumber } from "./expression.ts";

const { META_PROTO, META_IPV6, META_PORTS } = batchConstants;
const MAX_WORD = 0xffff_ffff;

/** The kernels' codes for the ends of a packet. */
export const ENDS: Record<FilterEnd, number> = {
  src: filterConstants.ENDS_SOURCE,
  dst: filterConstants.ENDS_DESTINATION,
  either: filterConstants.ENDS_EITHER,
  both: filterConstants.ENDS_BOTH,
};

/** Position of a number: `bits` bits from bit `shift` of a u32 column or of the upper half of meta. Its lowest `up` bits read as 0. */
export interface Place {
  column: "wireLength" | "flags" | "ipid" | "metaHigh";
  shift: number;
  bits: number;
  up?: number;
  /** What meta must contain for the packet to have the number: mask and value. */
  need?: [bigint, bigint];
}

export const PLACES: Record<FilterNumber, Place> = {
  len: { column: "wireLength", shift: 0, bits: 32 },
  ipid: { column: "ipid", shift: 0, bits: 32 },
  ttl: { column: "flags", shift: 0, bits: 8 },
  tcpflags: {
    column: "flags",
    shift: 8,
    bits: 8,
    need: [META_PROTO | META_PORTS, (6n << 32n) | META_PORTS],
  },
  proto: { column: "metaHigh", shift: 0, bits: 8 },
  dscp: { column: "metaHigh", shift: 8, bits: 6 },
  // The DSCP at its position in the octet. The two bits below it in metaHigh belong to the protocol and are masked away (`up`).
  tos: { column: "metaHigh", shift: 6, bits: 8, up: 2 },
};

/**
 * Returns the mask of the requested bits of a number, in their column. If both shifts together exceed 31 the mask is 0, so that a shift modulo 32 does no harm.
 */
export function keptBits(place: Place, shift: number, mask: number): number {
  const whole = place.bits === 32 ? MAX_WORD : 2 ** place.bits - 1;
  const valid = whole - (2 ** (place.up ?? 0) - 1);
  return ((valid >>> shift) & mask) >>> 0;
}

export function versionNeed(version: 4 | 6 | null): [bigint, bigint] {
  return version === null ? [0n, 0n] : [META_IPV6, version === 6 ? META_IPV6 : 0n];
}

/** Returns the range of matching numbers (for "!=": of those that do not match), or null if there are none. */
export function rangeOf(comparison: string, value: number): [number, number] | null {
  switch (comparison) {
    case "<":
      return value === 0 ? null : [0, value - 1];
    case "<=":
      return [0, value];
    case ">":
      return value >= MAX_WORD ? null : [value + 1, MAX_WORD];
    case ">=":
      return [value, MAX_WORD];
    default:
      return [value, value];
  }
}
