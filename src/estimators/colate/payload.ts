/**
 * The payload of a sealed epoch of counter vectors, and merging.
 *
 *   u8      b, bits of a time sum; plus 128 if a salt follows
 *   u8      check, bits of a digest per cell
 *   u8      log2 of the unit, ns
 *   u8      vectors
 *   varint  n, total number of counters
 *   varint  m
 *   u32     fingerprint: CRC-32C of seed, m, first cells and shares of the vectors, that is, of the mapping of packets to cells
 *   u64     salt (../cells/salt.ts), optional: the fingerprint is then that of the salted seed
 *   u8      x vectors: order k of the code of its counts, chosen for the shortest encoding
 *   bits    per cell: packets (exponential Golomb of order k); if not 0: time sum modulo 2^b, b bits; digest, check bits
 *
 * A cell takes b + check bits plus the bits of its count, about log2 of the mean count and two more. An empty cell takes k + 1 bits. The payload depends on the
 * cells only, so the merge of parts is bit-identical to the whole.
 */
import { BitReader, BitWriter, bitLength } from "../../base/bits.ts";
import { ByteReader, ByteWriter } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import { saltedSeed } from "../cells/salt.ts";
import type { SealedEpoch } from "../estimator.ts";
import { fingerprintOf, layoutOf } from "./layout.ts";
import type { ColateParameters } from "./parameters.ts";

export interface Counters {
  n: number;
  m: number;
  b: number;
  check: number;
  /** log2 of the unit. */
  shift: number;
  fingerprint: number;
  salt: bigint;
  /** First cell of each vector, and the end of the last. */
  starts: Uint32Array;
  count: Uint32Array;
  /** In units, 0 to 2^b - 1. */
  sum: Float64Array;
  digest: Uint32Array;
}

const NAME = "colate payload";
const MAX_ORDER = 31;
/** Flag in the first byte, next to b. */
const SALTED = 128;
/** The code length of counts below this is calculated once for all cells with that count. */
const FREQUENT = 1024;

export function emptyCounters(parameters: ColateParameters, seed: bigint, salt: bigint): Counters {
  const { n, m, b, check } = parameters;
  return {
    n,
    m,
    b,
    check,
    shift: Math.log2(parameters.unit),
    fingerprint: fingerprintOf(parameters, saltedSeed(seed, salt)),
    salt,
    starts: layoutOf(parameters).starts,
    count: new Uint32Array(n),
    sum: new Float64Array(n),
    digest: new Uint32Array(n),
  };
}

export function encodeCounters(counters: Counters): Uint8Array {
  const { n, m, b, check, starts, count, sum, digest } = counters;
  const vectors = starts.length - 1;
  const head = new ByteWriter(32);
  head.u8(counters.salt === 0n ? b : b | SALTED);
  head.u8(check);
  head.u8(counters.shift);
  head.u8(vectors);
  head.varint(n);
  head.varint(m);
  head.u32(counters.fingerprint);
  if (counters.salt !== 0n) head.u64(BigInt.asUintN(64, counters.salt));
  const bits = new BitWriter(Math.ceil((n * (b + check + 12)) / 8));
  for (let v = 0; v < vectors; v++) {
    const order = bestOrder(count, starts[v]!, starts[v + 1]!);
    head.u8(order);
    for (let c = starts[v]!; c < starts[v + 1]!; c++) {
      bits.expGolomb(count[c]!, order);
      if (count[c] === 0) continue;
      bits.bits(sum[c]!, b);
      bits.bits(digest[c]!, check);
    }
  }
  head.bytes(bits.finish());
  return head.finish();
}

/** Throws an error naming the difference if the payload was not made with these parameters (and this seed, if given). */
export function decodeCounters(
  sealed: SealedEpoch,
  parameters: ColateParameters,
  seed?: bigint,
  whose = "this",
): Counters {
  const { payload } = sealed;
  const reader = new ByteReader(payload, { file: NAME });
  const bad = (offset: number, message: string) => new FormatError("bad-record", NAME, offset, message);
  const first = reader.u8();
  const b = first & ~SALTED;
  const check = reader.u8();
  const shift = reader.u8();
  const vectors = reader.u8();
  const n = reader.varint();
  const m = reader.varint();
  const fingerprint = reader.u32();
  const salt = first === b ? 0n : reader.u64();
  if (first !== b && salt === 0n) throw bad(reader.offset - 8, "a salt of 0 is not written");
  requireEqual(whose, [
    ["n", n, parameters.n],
    ["m", m, parameters.m],
    ["vectors", vectors, parameters.vectors.length],
    ["b", b, parameters.b],
    ["unit", 2 ** shift, parameters.unit],
    ["check", check, parameters.check],
  ]);
  if (seed !== undefined && fingerprint !== fingerprintOf(parameters, saltedSeed(seed, salt))) {
    throw mismatch(`${whose} vector was made with another seed, or other shares of its vectors`);
  }
  const { starts } = layoutOf(parameters);
  const counters: Counters = {
    ...{ n, m, b, check, shift, fingerprint, salt, starts },
    count: new Uint32Array(n),
    sum: new Float64Array(n),
    digest: new Uint32Array(n),
  };
  const orders = Array.from({ length: vectors }, () => reader.u8());
  if (orders.some((k) => k > MAX_ORDER)) throw bad(reader.offset, "the order of a code is above 31");
  const bits = new BitReader(reader.bytes(reader.remaining), { file: NAME, baseOffset: reader.offset });
  let packets = 0;
  for (const [v, order] of orders.entries()) {
    for (let c = starts[v]!; c < starts[v + 1]!; c++) {
      const count = bits.expGolomb(order);
      if (count === 0) continue;
      if (count > 0xffff_ffff) throw bad(reader.offset, "a count is beyond 32 bits");
      packets += count;
      counters.count[c] = count;
      counters.sum[c] = bits.bits(b);
      counters.digest[c] = bits.bits(check);
    }
    if (order !== bestOrder(counters.count, starts[v]!, starts[v + 1]!)) {
      throw bad(reader.offset, "the counts are not in their shortest code");
    }
  }
  bits.expectEnd();
  if (packets !== sealed.packets) {
    throw bad(reader.offset, `${packets} packets in the cells of ${sealed.packets} seen`);
  }
  return counters;
}

export function requireSameCells(a: Counters, b: Counters): void {
  if (a.salt !== b.salt) throw mismatch("the counters of the two were placed for different epochs");
  if (a.fingerprint !== b.fingerprint)
    throw mismatch("the two vectors were made with different seeds, or other shares of their vectors");
}

export function mergeCounters(a: Counters, b: Counters): Counters {
  requireSameCells(a, b);
  const range = 2 ** a.b;
  return {
    ...a,
    count: a.count.map((x, c) => x + b.count[c]!),
    sum: a.sum.map((x, c) => (x + b.sum[c]!) % range),
    digest: a.digest.map((x, c) => x ^ b.digest[c]!),
  };
}

/** Returns the counters with times counted from `earlierNs` earlier. If that is not a multiple of the unit, a cell is off by at most half a unit. */
export function rebaseCounters(counters: Counters, earlierNs: number): Counters {
  const range = 1n << BigInt(counters.b);
  const unit = 1n << BigInt(counters.shift);
  const earlier = BigInt(Math.round(earlierNs));
  const sum = counters.sum.map((x, c) => {
    const moved = BigInt(x) + (earlier * BigInt(counters.count[c]!) + unit / 2n) / unit;
    return Number(((moved % range) + range) % range);
  });
  return { ...counters, sum };
}

/** Returns the order with the shortest code for the counts of cells [from, to); the smallest of equal ones. */
function bestOrder(count: Uint32Array, from: number, to: number): number {
  const frequent = new Float64Array(FREQUENT);
  const sizes = new Float64Array(MAX_ORDER + 1);
  const add = (x: number, times: number) => {
    for (let k = 0; k <= MAX_ORDER; k++) sizes[k]! += times * (2 * bitLength(x + 2 ** k) - 1 - k);
  };
  for (let c = from; c < to; c++) {
    const x = count[c]!;
    if (x < FREQUENT) frequent[x]!++;
    else add(x, 1);
  }
  for (let x = 0; x < FREQUENT; x++) if (frequent[x]! > 0) add(x, frequent[x]!);
  let best = 0;
  for (let k = 1; k <= MAX_ORDER; k++) if (sizes[k]! < sizes[best]!) best = k;
  return best;
}

function requireEqual(whose: string, checks: [string, number, number][]): void {
  for (const [name, found, wanted] of checks) {
    if (found === wanted) continue;
    throw mismatch(`${whose} vector has ${name}=${found}, not ${name}=${wanted}`);
  }
}

/** A mismatch explained: users see it if they configure different memory at the ends. Equation (4) would allow that, differences of counters do not. */
function mismatch(message: string): FormatError {
  const why =
    "a counter is compared with the same counter at the other end, so n, m, b, unit, vectors and seed must be equal";
  return new FormatError("bad-record", NAME, 0, `${message}; ${why}`);
}
