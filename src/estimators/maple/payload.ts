/**
 * A sealed epoch of MAPLE in bytes, version 1, little-endian, never compressed: a question reads only the words it needs (docs/formats/maple-payload.md
 * describes the format for implementers in other languages).
 *
 *    0         4        6      8
 *   +---------+--------+------+--------------------------+
 *   | "MPLE"  | parts  | zero | per part: offset, bytes  |     parts begin at multiples of 8
 *   | u32     | u16    | u16  | 2 x u32                  |
 *   +---------+--------+------+--------------------------+
 *
 * A part is one tap's epoch. Stores cannot be merged without the packets' keys, so a merged payload has several parts, ordered by their bytes. SVBF and COMB
 * with the same centres and size are merged into one part, the OR of both.
 *
 *   part:  0      1       2      3        4        8      16            24     28       32        36
 *         +------+-------+------+--------+--------+------+-------------+------+--------+---------+------+
 *         | kind | flags | code | hashes | groups | seed | ns per byte | seen | stored | unknown | shed |
 *         | u8   | u8    | bits | u8     | u32    | u64  | f64         | u32  | u32    | u32     | u32  |
 *         +------+-------+------+--------+--------+------+-------------+------+--------+---------+------+
 *         40                    72    74      76     80      88     96           112        120     128
 *         +---------------------+-----+-------+------+-------+------+------------+----------+-------+
 *         | cells, digest store,| f   | theta | k    | bytes | sum  | squares    | min      | max   |
 *         | flow-ipid store,    | u16 | u16   | u32  | f64   | i64  | u128       | f64 ns   | f64   |
 *         | flow index: 4 x     |     |       |      |       |      |            |          |       |
 *         | (offset, bytes u32) |     |       |      |       |      |            |          |       |
 *         +---------------------+-----+-------+------+-------+------+------------+----------+-------+
 *   followed by the sections, each at a multiple of 8; a missing section has bytes 0.
 *   cell (48 bytes): base f64 | min f64 | max f64 | sum of (delay - base) i64 | sum of squares u96 | count u32
 *   flags: 1 queueing delays, 2 compact cells, 4 the sums are over all packets with a delay (seen - unknown), not only over stored ones, 8 delays are
 *   relative to a base, an f64 before the cells: sums, min, max and cells do not include it
 *   compact cell (flag 2): count | base - previous base | base - min | max - base | sum | squares, all LEB128; 2nd and 5th zigzag; only count if it is 0
 */

import { ByteReader, ByteWriter } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import { BASE_BYTES, CELL_BYTES, readBase } from "./cell-section.ts";
import type { EpochTotals } from "./epoch-buffer.ts";
import { STORE_KINDS, type StoreGeometry } from "./stores/packet-store.ts";

export const MAGIC = 0x454c_504d; // "MPLE"
const PAYLOAD_HEAD_BYTES = 8;
export const PART_HEAD_BYTES = 128;
export const SECTIONS = ["cells", "digest", "flow-ipid", "index"] as const;
export type Section = (typeof SECTIONS)[number];

const FLAGS = { queueing: 1, compact: 2, sumsOfAll: 4, base: 8 } as const;

export interface PartHead {
  geometry: StoreGeometry;
  /** Number of groups requested; an epoch's own centres may be fewer. */
  k: number;
  /** Subtracted from a packet's delay per byte before storing; 0: delays are stored unchanged. */
  nsPerByte: number;
  /** Cells are written in the compact form. */
  compact: boolean;
  totals: EpochTotals;
  /** Delays are relative to a base, stored before the cells (`readBase`). The base in `totals` is 0 until it is read. */
  hasBase: boolean;
  /** Offset from the start of the part; bytes 0 if missing. */
  sections: Record<Section, { offset: number; bytes: number }>;
}

export interface PartContents {
  geometry: StoreGeometry;
  k: number;
  nsPerByte: number;
  compact: boolean;
  totals: EpochTotals;
  sections: Partial<Record<Section, Uint8Array>>;
}

export function encodePart(part: PartContents): Uint8Array {
  const { geometry, totals } = part;
  const out = new ByteWriter(1024);
  out.u8(STORE_KINDS.indexOf(geometry.kind));
  out.u8(
    (part.nsPerByte === 0 ? 0 : FLAGS.queueing) |
      (part.compact ? FLAGS.compact : 0) |
      (totals.summed === totals.stored ? 0 : FLAGS.sumsOfAll) |
      (totals.baseNs === 0 ? 0 : FLAGS.base),
  );
  out.u8(geometry.codeBits);
  out.u8(geometry.hashes);
  out.u32(geometry.groups);
  out.u64(geometry.seed);
  out.f64(part.nsPerByte);
  for (const count of [totals.seen, totals.stored, totals.unknown, totals.shed]) out.u32(count);
  let at = PART_HEAD_BYTES;
  for (const name of SECTIONS) {
    // Sections follow each other; decodePartHead relies on it.
    const bytes = part.sections[name]?.length ?? 0;
    out.u32(bytes === 0 ? 0 : at);
    out.u32(bytes);
    at += 8 * Math.ceil(bytes / 8);
  }
  out.u16(geometry.f);
  out.u16(geometry.theta);
  out.u32(part.k);
  out.f64(totals.bytes);
  out.i64(totals.sum);
  out.u64(totals.squares & 0xffff_ffff_ffff_ffffn);
  out.u64(totals.squares >> 64n);
  out.f64(totals.minNs);
  out.f64(totals.maxNs);
  for (const name of SECTIONS) {
    const bytes = part.sections[name];
    if (!bytes) continue;
    out.bytes(bytes);
    out.bytes(new Uint8Array((8 - (bytes.length % 8)) % 8));
  }
  return out.finish();
}

/** `partBytes`: length of the part according to the payload's head. */
export function decodePartHead(bytes: Uint8Array, partBytes: number): PartHead {
  const reader = new ByteReader(bytes, { file: "maple part" });
  const bad = (at: number, message: string) => new FormatError("bad-record", "maple part", at, message);
  const kind = STORE_KINDS[reader.u8()];
  if (kind === undefined) throw bad(0, "an unknown kind of store");
  const flags = reader.u8();
  const compact = (flags & FLAGS.compact) !== 0;
  const codeBits = reader.u8();
  const hashes = reader.u8();
  const groups = reader.u32();
  const seed = reader.u64();
  const nsPerByte = reader.f64();
  const [seen, stored, unknown, shed] = [reader.u32(), reader.u32(), reader.u32(), reader.u32()];
  const sections = {} as PartHead["sections"];
  let next = PART_HEAD_BYTES;
  for (const name of SECTIONS) {
    const offset = reader.u32();
    const length = reader.u32();
    if (offset !== (length === 0 ? 0 : next)) {
      throw bad(reader.offset - 8, `section ${name} begins at ${offset}, not at ${next}`);
    }
    next += 8 * Math.ceil(length / 8);
    sections[name] = { offset, bytes: length };
  }
  if (next !== partBytes) throw bad(40, `the sections end at ${next}, the part at ${partBytes}`);
  const f = reader.u16();
  const theta = reader.u16();
  const k = reader.u32();
  const volume = reader.f64();
  const sum = reader.i64();
  const low = reader.u64();
  const squares = (reader.u64() << 64n) | low;
  if (!Number.isFinite(nsPerByte) || !Number.isFinite(volume))
    throw bad(16, `a transmission of ${nsPerByte} ns per byte and ${volume} bytes in all are no numbers`);
  const totals: EpochTotals = {
    seen,
    stored,
    unknown,
    shed,
    summed: (flags & FLAGS.sumsOfAll) === 0 ? stored : seen - unknown,
    baseNs: 0,
    bytes: volume,
    sum,
    squares,
    minNs: reader.f64(),
    maxNs: reader.f64(),
  };
  const hasBase = (flags & FLAGS.base) !== 0;
  const cellBytes =
    compact && stored > 0
      ? sections.cells.bytes
      : stored > 0
        ? groups * CELL_BYTES + (hasBase ? BASE_BYTES : 0)
        : 0;
  if (hasBase && sections.cells.bytes < BASE_BYTES) throw bad(1, "there is no base in front of the cells");
  if (codeBits > 16 || groups > 0xffff || sections.cells.bytes !== cellBytes) {
    throw bad(2, `${groups} groups of ${codeBits} bits with ${sections.cells.bytes} bytes of sums cannot be`);
  }
  return {
    geometry: { kind, groups, seed, codeBits, hashes, f, theta },
    k,
    nsPerByte,
    compact,
    totals,
    hasBase,
    sections,
  };
}

export function encodePayload(parts: readonly Uint8Array[]): Uint8Array {
  const out = new ByteWriter(64 + parts.reduce((n, p) => n + p.length, 0));
  out.u32(MAGIC);
  out.u16(parts.length);
  out.u16(0);
  let at = PAYLOAD_HEAD_BYTES + 8 * parts.length;
  for (const part of parts) {
    out.u32(at);
    out.u32(part.length);
    at += part.length;
  }
  for (const part of parts) out.bytes(part);
  return out.finish();
}

/** Returns the positions of a payload's parts, from its first bytes (8, plus 8 per part). */
export function decodePayloadHead(
  read: (offset: number, length: number) => Uint8Array,
  bytes: number,
): { offset: number; bytes: number }[] {
  const head = new ByteReader(read(0, Math.min(bytes, PAYLOAD_HEAD_BYTES)), { file: "maple payload" });
  if (head.u32() !== MAGIC) {
    throw new FormatError(
      "bad-record",
      "maple payload",
      0,
      "not a payload of MAPLE (it does not start with 'MPLE')",
    );
  }
  const count = head.u16();
  const table = new ByteReader(read(PAYLOAD_HEAD_BYTES, 8 * count), { file: "maple payload", baseOffset: 8 });
  let next = PAYLOAD_HEAD_BYTES + 8 * count;
  const parts = Array.from({ length: count }, () => {
    const at = table.offset;
    const [offset, length] = [table.u32(), table.u32()];
    if (length < PART_HEAD_BYTES || offset !== next) {
      throw new FormatError("bad-record", "maple payload", at, `a part begins at ${offset}, not at ${next}`);
    }
    next += length;
    return { offset, bytes: length };
  });
  if (next !== bytes) {
    throw new FormatError(
      "truncated",
      "maple payload",
      Math.min(next, bytes),
      `${bytes} bytes, expected ${next}`,
    );
  }
  return parts;
}

/** Decodes the parts of a whole payload. */
export function decodeParts(payload: Uint8Array): PartContents[] {
  const read = (offset: number, length: number) => payload.subarray(offset, offset + length);
  return decodePayloadHead(read, payload.length).map(({ offset, bytes }) => {
    const part = payload.subarray(offset, offset + bytes);
    const head = decodePartHead(part.subarray(0, PART_HEAD_BYTES), bytes);
    const sections: PartContents["sections"] = {};
    for (const name of SECTIONS) {
      const { offset: at, bytes: length } = head.sections[name];
      if (length > 0) sections[name] = part.subarray(at, at + length);
    }
    const { geometry, k, nsPerByte, compact, hasBase } = head;
    const baseNs = hasBase && sections.cells ? readBase(sections.cells) : 0;
    return { geometry, k, nsPerByte, compact, totals: { ...head.totals, baseNs }, sections };
  });
}
