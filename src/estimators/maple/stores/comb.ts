/**
 * Combinatorial Bloom filter COMB(f, theta) (MAPLE, section 3.3.2; kernels/maple-filters.ts): group i has the i-th word of f bits with theta set;
 * a packet is put into one filter under each set bit. A look-up finds all f bits; candidates are the groups whose word is covered.
 *
 *   body: packets u32 | 0 u32 | bits m u32 | 0 u32 | m/8 bytes
 */
import { ByteReader, ByteWriter } from "../../../base/bytes.ts";
import { FormatError, UsageError } from "../../../base/errors.ts";
import type { Kernels } from "../../../base/kernels.ts";
import { falsePositive } from "../dimension.ts";
import { allocZeroed, type PacketStore, type StoreGeometry, storeCounts } from "./packet-store.ts";
import { BLOOM_HEAD_BYTES } from "./svbf.ts";

/** The first `count` words of f bits with theta set, in ascending order. */
export function combWords(f: number, theta: number, count: number): bigint[] {
  const words: bigint[] = [];
  let word = (1n << BigInt(theta)) - 1n;
  while (words.length < count && word < 1n << BigInt(f)) {
    words.push(word);
    // The next larger number with as many bits set.
    const lowest = word & -word;
    const ripple = word + lowest;
    word = ripple | (((word ^ ripple) >> 2n) / lowest);
  }
  return words;
}

export class CombStore implements PacketStore {
  readonly geometry: StoreGeometry;
  readonly bits: number;
  packets = 0;
  readonly leftOut = 0;
  readonly #kernels: Kernels;
  readonly #address: number;
  readonly #words: number;
  #counts = 0;

  constructor(kernels: Kernels, geometry: StoreGeometry, bits: number) {
    this.#kernels = kernels;
    this.geometry = geometry;
    const { f, theta, groups } = geometry;
    const words = f > 64 ? [] : combWords(f, theta, groups);
    if (words.length < groups) {
      throw new UsageError(
        "bad-parameter",
        `COMB(${f}, ${theta}) has ${words.length} codes, but there are ${groups} groups`,
        "take a larger f (at most 64), or fewer groups",
      );
    }
    this.bits = Math.max(64, 8 * Math.ceil(bits / 8));
    this.#address = allocZeroed(kernels, this.bits / 8);
    this.#words = kernels.alloc(groups * 8);
    kernels.u64.set(words, this.#words >>> 3);
  }

  static open(
    kernels: Kernels,
    geometry: StoreGeometry,
    body: Uint8Array,
    counts: ArrayLike<number>,
  ): CombStore {
    const reader = new ByteReader(body, { file: "maple comb" });
    const packets = reader.u32();
    reader.skip(4);
    const bits = reader.u32();
    reader.skip(4);
    if (bits % 8 !== 0 || bits < 64 || reader.remaining !== bits / 8) {
      throw new FormatError(
        "bad-record",
        "maple comb",
        8,
        `${bits} bits do not fit ${reader.remaining} bytes`,
      );
    }
    const store = new CombStore(kernels, geometry, bits);
    store.packets = packets;
    kernels.u8.set(reader.bytes(bits / 8), store.#address);
    store.#counts = storeCounts(kernels, counts, geometry.groups);
    return store;
  }

  /** That at least one group's word is covered by the bits found by chance: bounded by the union of all groups. */
  get absentAccepted(): number {
    const { theta, hashes, groups } = this.geometry;
    const q = falsePositive((theta * this.packets) / this.bits, hashes);
    return Math.min(1, groups * q ** theta);
  }

  insert(keys: number, codes: number, count: number): void {
    const { hashes, seed } = this.geometry;
    this.#kernels.call.combInsert!(this.#address, this.bits, hashes, seed, this.#words, keys, codes, count);
    this.packets += count;
  }

  close(counts: ArrayLike<number>): void {
    this.#counts = storeCounts(this.#kernels, counts, this.geometry.groups);
  }

  lookup(keys: number, count: number, out: number): void {
    const { hashes, seed, f, groups } = this.geometry;
    const { call } = this.#kernels;
    call.combLookup!(
      this.#address,
      this.bits,
      hashes,
      seed,
      f,
      this.#words,
      groups,
      this.#counts,
      keys,
      count,
      out,
    );
  }

  body(): Uint8Array {
    const out = new ByteWriter(BLOOM_HEAD_BYTES + this.bits / 8);
    out.u32(this.packets);
    out.u32(0);
    out.u32(this.bits);
    out.u32(0);
    out.bytes(this.#kernels.u8.subarray(this.#address, this.#address + this.bits / 8));
    return out.finish();
  }

  free(): void {
    this.#kernels.free(this.#address);
    this.#kernels.free(this.#words);
    if (this.#counts !== 0) this.#kernels.free(this.#counts);
  }
}
