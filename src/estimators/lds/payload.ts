/**
 * The payload of a sealed LDS or SDS epoch (layouts 1 and 2), and merging. Integers are exact. The payload is stored plane by plane, so that similar values are
 * adjacent.
 *
 *   u8 layout | u8 flags (1: delay sums, 2: bytes, 4: keys) | u8 digest bits | u32 fingerprint | layout 2: u64 salt | varint rows | varint columns
 *   keys              of the heaviest flows: heavy-keys.ts
 *   rows x varint     sum of everything added to the counts of a row
 *   zigzag            centre: ns, the mean value of all cells
 *   counts            varint per cell; an empty cell is 0 followed by a varint: the number of further empty cells after it
 *   sums              per non-empty cell: zigzag LEB128 of (sum - count x centre) as a 64-bit integer
 *   digests           per non-empty cell: digestBits / 8 bytes
 *   bytes             per non-empty cell: varint
 *
 * Relative to the centre, a cell of n packets needs about log2(epoch x sqrt(n) / 3.5) bits for its sum instead of 64: a cell of 100 packets in a second costs 5
 * + 1 bytes instead of 12 in memory. The payload depends on the cells only, so the merge of parts is bit-identical to the whole (including keys, if all flows
 * fitted). Layout 2 is written if a salt placed the cells (../cells/salt.ts), otherwise layout 1.
 */
import { ByteReader, ByteWriter } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import { mulHigh32 } from "../../base/hash.ts";
import type { KnownFlows, SealedEpoch } from "../estimator.ts";
import { addCells, emptyCells, type SketchCells, signed64 } from "./cells.ts";
import {
  type HeavyKeys,
  knownHeavyFlows,
  mergeHeavyKeys,
  readHeavyKeys,
  writeHeavyKeys,
} from "./heavy-keys.ts";

const LAYOUT = 1;
const SALTED_LAYOUT = 2;
const DELAYS = 1;
const BYTES = 2;
const KEYS = 4;

/** The shape that a payload must have: others are refused before memory is allocated for them. */
export interface Expected {
  rows: number;
  columns: number;
  /** Required fingerprint, or a function of the salt. Undefined: that of the payload is accepted. */
  fingerprint?: number | ((salt: bigint) => number);
  delays: boolean;
  /** Maximum flow keys of a merged payload (default: no limit). */
  maxKeys?: number;
}

/** Everything before the planes. */
export type PayloadHead = Pick<
  SketchCells,
  "rows" | "columns" | "digestBits" | "delays" | "fingerprint" | "salt" | "totals"
> & {
  bytes: boolean;
  /** Bytes as written by heavy-keys.ts. */
  keys: Uint8Array | null;
};

/** The mean value of all cells in whole ns. Any number would be correct; this one makes the sums short. */
export function centreOf(sum: number, packets: number): number {
  const centre = packets > 0 ? Math.round(sum / packets) : 0;
  return Math.abs(centre) < 2 ** 52 ? centre + 0 : 0;
}

export function writeHead(w: ByteWriter, head: PayloadHead, centre: number): void {
  w.u8(head.salt === 0n ? LAYOUT : SALTED_LAYOUT);
  w.u8((head.delays ? DELAYS : 0) | (head.bytes ? BYTES : 0) | (head.keys ? KEYS : 0));
  w.u8(head.digestBits);
  w.u32(head.fingerprint);
  if (head.salt !== 0n) w.u64(BigInt.asUintN(64, head.salt));
  w.varint(head.rows);
  w.varint(head.columns);
  if (head.keys) w.bytes(head.keys);
  for (const total of head.totals) w.varint(total);
  w.zigzag(centre);
}

/** Encodes cells held in TypeScript, such as merged ones. kernels/sketches/lds-pack.ts encodes a tap's cells, byte for byte the same. */
export function encodeCells(cells: SketchCells): Uint8Array {
  const { count, sumLow, sumHigh, digest, digestBits, bytes } = cells;
  const n = count.length;
  const w = new ByteWriter(64 + n * 8);
  const centre = meanOf(cells);
  const keys = cells.keys ? keyBytes(cells.keys) : null;
  writeHead(w, { ...cells, bytes: bytes !== null, keys }, centre);
  for (let i = 0; i < n; ) {
    w.varint(count[i]!);
    if (count[i++] !== 0) continue;
    const first = i;
    while (i < n && count[i] === 0) i++;
    w.varint(i - first);
  }
  const centreHigh = Math.floor(centre / 0x1_0000_0000) | 0;
  const centreLow = centre >>> 0;
  for (let i = 0; i < n; i++) {
    const c = count[i]!;
    if (c === 0) continue;
    // (sum - count x centre) mod 2^64 in two halves.
    const productLow = Math.imul(c, centreLow) >>> 0;
    const productHigh = (mulHigh32(c, centreLow) + Math.imul(c, centreHigh)) | 0;
    const low = sumLow[i]! - productLow;
    writeZigzag64(w, (sumHigh[i]! - productHigh - (low < 0 ? 1 : 0)) | 0, low | 0);
  }
  for (let i = 0; digestBits > 0 && i < n; i++) {
    if (count[i] === 0) continue;
    for (let shift = 0; shift < digestBits; shift += 8) w.u8((digest[i]! >>> shift) & 0xff);
  }
  for (let i = 0; bytes && i < n; i++) if (count[i] !== 0) w.varint(bytes[i]!);
  return w.finish();
}

export function decodeCells(payload: Uint8Array, expected: Expected, file = "payload"): SketchCells {
  const r = new ByteReader(payload, { file });
  const head = readHead(r, expected, file);
  const cells = emptyCells(head);
  cells.keys = head.hasKeys ? readHeavyKeys(r, file) : null;
  const { rows, columns, digestBits } = cells;
  for (let row = 0; row < rows; row++) cells.totals[row] = r.varint();
  const centre = r.zigzag();
  const n = rows * columns;
  const { count, sumLow, sumHigh, digest, bytes } = cells;
  for (let i = 0; i < n; ) {
    const start = r.offset;
    const value = r.varint();
    if (value > 0xffff_ffff) throw new FormatError("bad-record", file, start, "a count is beyond 32 bits");
    if (value > 0) {
      count[i++] = value;
      continue;
    }
    i += 1 + r.varint();
    if (i > n) throw new FormatError("bad-record", file, start, "more empty cells than the sketch has");
  }
  const centreHigh = Math.floor(centre / 0x1_0000_0000) | 0;
  const centreLow = centre >>> 0;
  for (let i = 0; i < n; i++) {
    const c = count[i]!;
    if (c === 0) continue;
    readZigzag64(r, file);
    const low = half.low + (Math.imul(c, centreLow) >>> 0);
    sumLow[i] = low;
    sumHigh[i] = half.high + mulHigh32(c, centreLow) + Math.imul(c, centreHigh) + (low > 0xffff_ffff ? 1 : 0);
  }
  for (let i = 0; digestBits > 0 && i < n; i++) {
    if (count[i] === 0) continue;
    let value = 0;
    for (let shift = 0; shift < digestBits; shift += 8) value |= r.u8() << shift;
    digest[i] = value;
  }
  if (bytes) for (let i = 0; i < n; i++) if (count[i] !== 0) bytes[i] = r.varint();
  r.expectEnd();
  return cells;
}

/** Returns the heaviest flows without reading the cells; null if no keys were kept. */
export function readHeavyFlows(payload: Uint8Array, expected: Expected): KnownFlows | null {
  const r = new ByteReader(payload, { file: "payload" });
  return readHead(r, expected, "payload").hasKeys ? knownHeavyFlows(readHeavyKeys(r, "payload")) : null;
}

/** Reads everything before the keys and planes, and checks the shape. */
function readHead(r: ByteReader, expected: Expected, file: string) {
  const layout = r.u8();
  if (layout !== LAYOUT && layout !== SALTED_LAYOUT)
    throw new FormatError("bad-version", file, 0, `layout ${layout} is not known`);
  const flags = r.u8();
  if (flags > (DELAYS | BYTES | KEYS))
    throw new FormatError("bad-record", file, 1, `flags ${flags} are not known`);
  const digestBits = r.u8();
  if (![0, 8, 16, 32].includes(digestBits)) {
    throw new FormatError("bad-record", file, 2, `a digest cannot have ${digestBits} bits`);
  }
  const delays = (flags & DELAYS) !== 0;
  if (delays !== expected.delays) {
    throw new FormatError("bad-record", file, 1, `sums of ${delays ? "delays" : "times"} were not expected`);
  }
  const fingerprint = r.u32();
  const salt = layout === SALTED_LAYOUT ? r.u64() : 0n;
  if (layout === SALTED_LAYOUT && salt === 0n)
    throw new FormatError("bad-record", file, 7, "a salt of 0 has a layout of its own");
  const wanted = expected.fingerprint;
  if (wanted !== undefined && fingerprint !== (typeof wanted === "number" ? wanted : wanted(salt))) {
    throw new FormatError("bad-record", file, 3, "the sketch has another seed, geometry, rates or weights");
  }
  const at = r.offset;
  const rows = r.varint();
  const columns = r.varint();
  if (rows !== expected.rows || columns !== expected.columns) {
    const shape = `${expected.rows} x ${expected.columns}`;
    throw new FormatError("bad-record", file, at, `${rows} x ${columns} cells where ${shape} are expected`);
  }
  const [bytes, hasKeys] = [(flags & BYTES) !== 0, (flags & KEYS) !== 0];
  return { rows, columns, digestBits, delays, bytes, fingerprint, salt, hasKeys };
}

/** Returns a payload that is bit-identical to that of one tap that saw both parts. */
export function mergePayloads(a: SealedEpoch, b: SealedEpoch, expected: Expected): SealedEpoch {
  const cells = decodeCells(a.payload, expected, "first payload");
  const other = decodeCells(b.payload, expected, "second payload");
  requireSameSketch(cells, other, "second payload");
  addCells(cells, other);
  cells.keys =
    cells.keys && other.keys ? mergeHeavyKeys(cells.keys, other.keys, expected.maxKeys ?? Infinity) : null;
  return { payload: encodeCells(cells), packets: a.packets + b.packets };
}

export function requireSameSketch(a: SketchCells, b: SketchCells, file: string): void {
  const differs =
    a.salt !== b.salt
      ? "cells placed for another epoch"
      : a.fingerprint !== b.fingerprint
        ? "another seed, geometry, rates or weights"
        : a.digestBits !== b.digestBits
          ? `digests of ${b.digestBits} bits, not ${a.digestBits}`
          : (a.bytes === null) !== (b.bytes === null)
            ? "bytes counted at one side only"
            : null;
  if (differs !== null)
    throw new FormatError("bad-record", file, 0, `the sketches do not belong together: ${differs}`);
}

function keyBytes(keys: HeavyKeys): Uint8Array {
  const w = new ByteWriter(32 + 40 * keys.count);
  writeHeavyKeys(w, keys);
  return w.finish();
}

function meanOf(cells: SketchCells): number {
  let sum = 0;
  let n = 0;
  for (let i = 0; i < cells.count.length; i++) {
    sum += signed64(cells.sumHigh[i]!, cells.sumLow[i]!);
    n += cells.count[i]!;
  }
  return centreOf(sum, n);
}

function writeZigzag64(w: ByteWriter, high: number, low: number): void {
  const sign = high >> 31;
  let h = (((high << 1) | (low >>> 31)) ^ sign) >>> 0;
  let l = ((low << 1) ^ sign) >>> 0;
  while (h !== 0 || l >= 0x80) {
    w.u8((l & 0x7f) | 0x80);
    l = ((l >>> 7) | (h << 25)) >>> 0;
    h >>>= 7;
  }
  w.u8(l);
}

const half = { high: 0, low: 0 };

function readZigzag64(r: ByteReader, file: string): void {
  const start = r.offset;
  let h = 0;
  let l = 0;
  for (let shift = 0; ; shift += 7) {
    const byte = r.u8();
    const bits = byte & 0x7f;
    if (shift === 63 && bits > 1) throw new FormatError("bad-record", file, start, "a sum is beyond 64 bits");
    if (shift < 32) l |= bits << shift;
    if (shift > 24) h |= shift < 32 ? bits >>> (32 - shift) : bits << (shift - 32);
    if (byte < 0x80) {
      if (byte === 0 && shift > 0) {
        throw new FormatError("bad-record", file, start, "a sum is not in its shortest form");
      }
      break;
    }
    if (shift === 63) throw new FormatError("bad-record", file, start, "a sum is beyond 64 bits");
  }
  const sign = -(l & 1);
  half.low = (((l >>> 1) | (h << 31)) ^ sign) >>> 0;
  half.high = ((h >>> 1) ^ sign) | 0;
}
