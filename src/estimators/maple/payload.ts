/**
 * A sealed epoch of MAPLE in bytes, version 1, little-endian, never compressed: a question reads the words it needs by range
 * (docs/formats/maple-payload.md is the page for readers of other languages).
 *
 *    0         4        6      8
 *   +---------+--------+------+--------------------------+
 *   | "MPLE"  | parts  | zero | per part: offset, bytes  |     parts begin at multiples of 8
 *   | u32     | u16    | u16  | 2 x u32                  |
 *   +---------+--------+------+--------------------------+
 *
 * A part is one tap's epoch. Stores cannot be merged without the packets' keys, so a merged payload has several parts, in the order of their bytes;
 * SVBF and COMB of the same centres and size are one part, the OR of both.
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
 *   then the sections, each at a multiple of 8; bytes 0 where there is none.
 *   cell (48 bytes): base f64 | min f64 | max f64 | sum of (delay - base) i64 | sum of squares u96 | count u32
 *   flags: 1 queueing delays, 2 compact cells, 4 the sums are over all packets with a delay (seen - unknown), not only over those stored, 8 delays count from a base, an
 *   f64 in front of the cells: sums, min, max and cells are beyond it
 *   compact cell (flag 2): count | base - the one before | base - min | max - base | sum | squares, all LEB128; the 2nd and 5th zigzag; count alone where it is 0
 */

import { ByteReader, ByteWriter } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import { entryAt } from "../../base/lists.ts";
import { addSums, type CellSums } from "./cell-table.ts";
import type { EpochTotals } from "./epoch-buffer.ts";
import { STORE_KINDS, type StoreGeometry } from "./stores/packet-store.ts";

export const MAGIC = 0x454c_504d; // "MPLE"
export const PAYLOAD_HEAD_BYTES = 8;
export const PART_HEAD_BYTES = 128;
export const CELL_BYTES = 48;
export const SECTIONS = ["cells", "digest", "flow-ipid", "index"] as const;
export type Section = (typeof SECTIONS)[number];

const FLAGS = { queueing: 1, compact: 2, sumsOfAll: 4, base: 8 } as const;
const BASE_BYTES = 8;

export interface PartHead {
  geometry: StoreGeometry;
  /** Groups that were wanted; an epoch's own centres may be fewer. */
  k: number;
  /** Taken off a packet's delay per byte of it before it was stored; 0: delays as they are. */
  nsPerByte: number;
  /** Cells are written in few bytes. */
  compact: boolean;
  totals: EpochTotals;
  /** Delays count from a base, which lies in front of the cells (`readBase`); `totals` has 0 until that is read. */
  hasBase: boolean;
  /** From the start of the part; bytes 0 where there is none. */
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

/** `baseNs`: what the delays count from; it lies in front of the cells where it is not 0. */
export function encodeCells(cells: readonly CellSums[], compact = false, baseNs = 0): Uint8Array {
  const out = new ByteWriter(cells.length * CELL_BYTES);
  if (baseNs !== 0) out.f64(baseNs);
  let before = 0n;
  for (const cell of cells) {
    if (compact) {
      putBig(out, BigInt(cell.count));
      if (cell.count === 0) continue;
      const base = BigInt(cell.baseNs);
      putBig(out, zigzag(base - before));
      putBig(out, zigzag(base - BigInt(cell.minNs)));
      putBig(out, zigzag(BigInt(cell.maxNs) - base));
      putBig(out, zigzag(cell.sum));
      putBig(out, cell.squares);
      before = base;
      continue;
    }
    out.f64(cell.baseNs);
    out.f64(cell.minNs);
    out.f64(cell.maxNs);
    out.i64(BigInt.asIntN(64, cell.sum));
    out.u64(cell.squares & 0xffff_ffff_ffff_ffffn);
    out.u32(Number((cell.squares >> 64n) & 0xffff_ffffn));
    out.u32(cell.count);
  }
  return out.finish();
}

export function decodeCells(bytes: Uint8Array, compact = false, baseNs = 0): CellSums[] {
  const reader = new ByteReader(bytes.subarray(baseNs === 0 ? 0 : BASE_BYTES), { file: "maple cells" });
  const cells: CellSums[] = [];
  let before = 0n;
  while (reader.remaining > 0) {
    if (compact) {
      const count = Number(takeBig(reader));
      if (count === 0) {
        const none = { minNs: Infinity, maxNs: -Infinity, sum: 0n, squares: 0n };
        cells.push({ baseNs: Number(before), count, ...none });
        continue;
      }
      before += unzigzag(takeBig(reader));
      const minNs = Number(before - unzigzag(takeBig(reader)));
      const maxNs = Number(before + unzigzag(takeBig(reader)));
      const sum = unzigzag(takeBig(reader));
      cells.push({ baseNs: Number(before), minNs, maxNs, sum, squares: takeBig(reader), count });
      continue;
    }
    // Whole cells only: decodePartHead has checked it.
    const [baseNs, minNs, maxNs] = [reader.f64(), reader.f64(), reader.f64()];
    const sum = reader.i64();
    const low = reader.u64();
    const high = BigInt(reader.u32());
    cells.push({ baseNs, minNs, maxNs, sum, squares: (high << 64n) | low, count: reader.u32() });
  }
  return cells;
}

const zigzag = (value: bigint): bigint => (value < 0n ? -2n * value - 1n : 2n * value);
const unzigzag = (value: bigint): bigint => (value & 1n ? -(value + 1n) / 2n : value / 2n);

function putBig(out: ByteWriter, value: bigint): void {
  let rest = value;
  for (; rest >= 0x80n; rest >>= 7n) out.u8(Number(rest & 0x7fn) | 0x80);
  out.u8(Number(rest));
}

/** No sum needs more than 14 bytes of 7 bits. */
function takeBig(reader: ByteReader): bigint {
  let value = 0n;
  for (let shift = 0n; shift < 98n; shift += 7n) {
    const byte = reader.u8();
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  throw new FormatError("bad-record", reader.file, reader.offset, "a number of more than 98 bits");
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

/** `partBytes`: how long the part is, as the payload's head says. */
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

/** What a part's delays count from, where it says that they do: the head of its cells. */
export function readBase(cells: Uint8Array): number {
  const baseNs = new ByteReader(cells.subarray(0, BASE_BYTES), { file: "maple cells" }).f64();
  if (Number.isSafeInteger(baseNs / 2 ** 20) && baseNs !== 0) return baseNs;
  throw new FormatError("bad-record", "maple cells", 0, `${baseNs} cannot be what delays count from`);
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

/** Where the parts of a payload lie, from its first bytes (8 and 8 per part). */
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
      `${next} bytes are promised, ${bytes} are there`,
    );
  }
  return parts;
}

/** Parts of whole payloads as contents. */
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

/** The union of two lists of parts (see above). Equal inputs in either order give equal bytes. */
export function mergeParts(a: readonly PartContents[], b: readonly PartContents[]): Uint8Array {
  const parts: PartContents[] = [];
  for (const part of [...a, ...b]) {
    const at = parts.findIndex((other) => joins(other, part));
    if (at < 0) parts.push(part);
    else parts[at] = joinParts(entryAt(parts, at), part);
  }
  try {
    return encodePayload(parts.map(encodePart).sort(compareBytes));
  } catch (cause) {
    // The writer refuses sums that do not fit: no honest epochs have such.
    if (!(cause instanceof RangeError)) throw cause;
    throw new FormatError("bad-record", "maple payload", 0, "sums of the two do not fit together", { cause });
  }
}

/** Empty parts join anything that joins at all; else size, hashes and centres must be the same. */
function joins(a: PartContents, b: PartContents): boolean {
  if (
    a.geometry.kind !== b.geometry.kind ||
    a.geometry.seed !== b.geometry.seed ||
    a.nsPerByte !== b.nsPerByte ||
    a.compact !== b.compact
  )
    return false;
  const [emptyA, emptyB] = [a.totals.stored === 0, b.totals.stored === 0];
  if (emptyA && emptyB) return true;
  const { kind, groups, hashes, f, theta } = a.geometry;
  if (kind !== "svbf" && kind !== "comb") return false;
  if (emptyA || emptyB) return true;
  if (
    groups !== b.geometry.groups ||
    hashes !== b.geometry.hashes ||
    f !== b.geometry.f ||
    theta !== b.geometry.theta
  )
    return false;
  if (SECTIONS.some((s) => (a.sections[s]?.length ?? 0) !== (b.sections[s]?.length ?? 0))) return false;
  if (a.totals.baseNs !== b.totals.baseNs) return false;
  const [cellsA, cellsB] = [cellsOf(a), cellsOf(b)];
  return cellsA.every((cell, i) => cell.baseNs === cellsB[i]?.baseNs);
}

function cellsOf({ sections, compact, totals }: PartContents): CellSums[] {
  return sections.cells ? decodeCells(sections.cells, compact, totals.baseNs) : [];
}

function joinParts(a: PartContents, b: PartContents): PartContents {
  const totals: EpochTotals = {
    seen: a.totals.seen + b.totals.seen,
    stored: a.totals.stored + b.totals.stored,
    unknown: a.totals.unknown + b.totals.unknown,
    shed: a.totals.shed + b.totals.shed,
    summed: a.totals.summed + b.totals.summed,
    baseNs: a.totals.stored > 0 ? a.totals.baseNs : b.totals.baseNs,
    bytes: a.totals.bytes + b.totals.bytes,
    sum: a.totals.sum + b.totals.sum,
    squares: a.totals.squares + b.totals.squares,
    minNs: Math.min(a.totals.minNs, b.totals.minNs),
    maxNs: Math.max(a.totals.maxNs, b.totals.maxNs),
  };
  if (a.totals.stored === 0) return { ...b, totals };
  if (b.totals.stored === 0) return { ...a, totals };
  const [cellsA, cellsB] = [cellsOf(a), cellsOf(b)];
  const sections: PartContents["sections"] = {
    cells: encodeCells(
      cellsA.map((cell, i) => addSums(cell, entryAt(cellsB, i))),
      a.compact,
      totals.baseNs,
    ),
  };
  for (const name of ["digest", "flow-ipid"] as const) {
    const [x, y] = [a.sections[name], b.sections[name]];
    if (x && y) sections[name] = orFilters(x, y);
  }
  return { ...a, totals, sections };
}

/** Bodies of SVBF and COMB: packets u32, then what is equal, then bits. */
function orFilters(x: Uint8Array, y: Uint8Array): Uint8Array {
  const out = x.map((byte, i) => byte | y[i]!);
  const view = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  view(out).setUint32(0, view(x).getUint32(0, true) + view(y).getUint32(0, true), true);
  return out;
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
  return Buffer.compare(a, b);
}
