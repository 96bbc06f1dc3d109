/**
 * The payload of colate-literal (layout 1): only the paper's counters.
 *
 *   u8      b, bits of a counter
 *   u8      log2 of the unit, ns
 *   varint  n
 *   varint  m
 *   u32     fingerprint: CRC-32C of seed, n and m
 *   bits    n x b: the counters
 */
import { BitReader, BitWriter } from "../../../base/bits.ts";
import { ByteReader, ByteWriter } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import { fingerprintOf } from "../../colate/layout.ts";
import type { SealedEpoch } from "../../estimator.ts";
import { type LiteralParameters, vectorOf } from "./parameters.ts";

export interface LiteralCounters {
  n: number;
  m: number;
  b: number;
  shift: number;
  fingerprint: number;
  /** In units, 0 to 2^b - 1. */
  sum: Float64Array;
}

const NAME = "colate-literal payload";

export function encodeLiteral(counters: LiteralCounters): Uint8Array {
  const { n, b, sum } = counters;
  const head = new ByteWriter(32);
  head.u8(b);
  head.u8(counters.shift);
  head.varint(n);
  head.varint(counters.m);
  head.u32(counters.fingerprint);
  const bits = new BitWriter(Math.ceil((n * b) / 8));
  for (let c = 0; c < n; c++) bits.bits(sum[c]!, b);
  head.bytes(bits.finish());
  return head.finish();
}

export function decodeLiteral(
  sealed: SealedEpoch,
  parameters: LiteralParameters,
  seed?: bigint,
): LiteralCounters {
  const reader = new ByteReader(sealed.payload, { file: NAME });
  const b = reader.u8();
  const shift = reader.u8();
  const n = reader.varint();
  const m = reader.varint();
  const fingerprint = reader.u32();
  const wanted = { n: parameters.n, m: parameters.m, b: parameters.b, unit: parameters.unit };
  for (const [name, found] of Object.entries({ n, m, b, unit: 2 ** shift })) {
    if (found !== wanted[name as keyof typeof wanted]) {
      throw mismatch(`a vector has ${name}=${found}, not ${wanted[name as keyof typeof wanted]}`);
    }
  }
  if (seed !== undefined && fingerprint !== fingerprintOf(vectorOf(parameters), seed)) {
    throw mismatch("a vector was made with another seed");
  }
  const bytes = reader.bytes(reader.remaining);
  if (bytes.length !== Math.ceil((n * b) / 8)) {
    throw new FormatError(
      "bad-record",
      NAME,
      reader.offset,
      `${bytes.length} bytes for ${n} counters of ${b} bits`,
    );
  }
  const bits = new BitReader(bytes, { file: NAME });
  const sum = new Float64Array(n);
  for (let c = 0; c < n; c++) sum[c] = bits.bits(b);
  bits.expectEnd();
  return { n, m, b, shift, fingerprint, sum };
}

export function mergeLiteral(a: LiteralCounters, b: LiteralCounters): LiteralCounters {
  if (a.fingerprint !== b.fingerprint) {
    throw mismatch("the two vectors were made with different seeds");
  }
  const range = 2 ** a.b;
  return { ...a, sum: a.sum.map((x, c) => (x + b.sum[c]!) % range) };
}

function mismatch(message: string): FormatError {
  return new FormatError("bad-record", NAME, 0, message);
}
