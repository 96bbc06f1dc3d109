/**
 * The payload of an LDA, version 1: integers only, column by column, each with the rows of all banks in order.
 *
 *   u16  banks
 *   u8   1 if rows have digests, else 0
 *   u8   0
 *   u32  rows per bank
 *   u32  fingerprint: CRC-32C of seed (u64), rows (u32) and hash ranges (u64 each), that is, of the mapping of packets to rows
 *   i64  x banks x rows: sum of the packets' times, ns after the epoch's start, modulo 2^64
 *   u32  x banks x rows: packets
 *   u32  x banks x rows, if there are digests: xor of the lower halves of the packets' digests
 *
 * Sums wrap around: only the difference of two of them is used, which is a sum of delays and fits.
 */
import { ByteReader, ByteWriter, crc32c } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import type { SealedEpoch } from "../estimator.ts";
import type { LdaParameters } from "./parameters.ts";
import { hashRanges } from "./sampling.ts";

export interface LdaRows {
  banks: number;
  rows: number;
  fingerprint: number;
  sum: BigInt64Array;
  count: Uint32Array;
  digest: Uint32Array | null;
}

const NAME = "lda payload";
const HEADER_BYTES = 12;

export function payloadBytes(parameters: LdaParameters): number {
  return HEADER_BYTES + parameters.banks * parameters.rows * (parameters.digest ? 16 : 12);
}

export function fingerprint(seed: bigint, parameters: LdaParameters): number {
  const out = new ByteWriter();
  out.u64(BigInt.asUintN(64, seed));
  out.u32(parameters.rows);
  const { from, limit } = hashRanges(parameters.sampling);
  for (const edge of [...from, limit]) out.u64(edge);
  return crc32c(out.view());
}

export function encodeRows(rows: LdaRows): Uint8Array {
  const cells = rows.banks * rows.rows;
  const out = new ByteWriter(HEADER_BYTES + 16 * cells);
  out.u16(rows.banks);
  out.u8(rows.digest ? 1 : 0);
  out.u8(0);
  out.u32(rows.rows);
  out.u32(rows.fingerprint);
  for (let i = 0; i < cells; i++) out.i64(rows.sum[i]!);
  for (let i = 0; i < cells; i++) out.u32(rows.count[i]!);
  if (rows.digest) for (let i = 0; i < cells; i++) out.u32(rows.digest[i]!);
  return out.finish();
}

/** Throws if the payload was not made with these parameters (and this seed, if given). */
export function decodeRows(sealed: SealedEpoch, parameters: LdaParameters, seed?: bigint): LdaRows {
  const reader = new ByteReader(sealed.payload, { file: NAME });
  const bad = (offset: number, message: string) => new FormatError("bad-record", NAME, offset, message);
  const banks = reader.u16();
  const hasDigests = reader.u8();
  const zero = reader.u8();
  const rows = reader.u32();
  if (banks !== parameters.banks || rows !== parameters.rows) {
    throw bad(0, `${banks} banks of ${rows} rows, expected ${parameters.banks} of ${parameters.rows}`);
  }
  if (hasDigests !== (parameters.digest ? 1 : 0) || zero !== 0) {
    throw bad(2, `rows with${hasDigests === 1 ? "" : "out"} digests, expected digest=${parameters.digest}`);
  }
  const print = reader.u32();
  if (seed !== undefined && print !== fingerprint(seed, parameters)) {
    throw bad(8, "made with another seed or other sampling");
  }
  const cells = banks * rows;
  const out: LdaRows = {
    banks,
    rows,
    fingerprint: print,
    sum: new BigInt64Array(cells),
    count: new Uint32Array(cells),
    digest: hasDigests === 1 ? new Uint32Array(cells) : null,
  };
  let sampled = 0;
  for (let i = 0; i < cells; i++) out.sum[i] = reader.i64();
  for (let i = 0; i < cells; i++) sampled += out.count[i] = reader.u32();
  if (out.digest) for (let i = 0; i < cells; i++) out.digest[i] = reader.u32();
  reader.expectEnd();
  if (sampled > sealed.packets) {
    throw bad(HEADER_BYTES + 8 * cells, `${sampled} packets in the rows of ${sealed.packets} seen`);
  }
  return out;
}

/** Returns the union of two sketches with the same mapping of packets to rows. */
export function mergeRows(a: LdaRows, b: LdaRows): LdaRows {
  if (a.fingerprint !== b.fingerprint) {
    throw new FormatError("bad-record", NAME, 8, "the two were made with different seeds or sampling");
  }
  const { digest } = b;
  return {
    ...a,
    sum: a.sum.map((s, i) => BigInt.asIntN(64, s + b.sum[i]!)),
    count: a.count.map((n, i) => n + b.count[i]!),
    digest: a.digest && digest ? a.digest.map((d, i) => d ^ digest[i]!) : null,
  };
}

/** Returns the rows with times counted from `earlierNs` earlier. */
export function rebaseRows(rows: LdaRows, earlierNs: bigint): LdaRows {
  return { ...rows, sum: rows.sum.map((s, i) => BigInt.asIntN(64, s + earlierNs * BigInt(rows.count[i]!))) };
}
