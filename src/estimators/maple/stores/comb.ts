/**
 * Combinatorial Bloom filter COMB(f, theta) (MAPLE, section 3.3.2; kernels/maple/filters.ts): group i has the i-th word of f bits with theta bits set, and a
 * packet is added to one filter per set bit. A lookup finds all f bits; candidates are the groups whose word is covered.
 *
 *   body: head (filter-memory.ts), size = bits m | m/8 bytes
 */
import { UsageError } from "../../../base/errors.ts";
import type { Kernels } from "../../../base/kernels.ts";
import { falsePositive } from "../dimension.ts";
import { withAsked } from "./asked.ts";
import { BitFilter } from "./bit-filter.ts";
import { badSize, readFilterHead } from "./filter-memory.ts";
import type { StoreGeometry } from "./packet-store.ts";

/** The first `count` words of f bits with theta bits set, ascending. */
function combWords(f: number, theta: number, count: number): bigint[] {
  const words: bigint[] = [];
  let word = (1n << BigInt(theta)) - 1n;
  while (words.length < count && word < 1n << BigInt(f)) {
    words.push(word);
    // The next larger number with the same number of set bits.
    const lowest = word & -word;
    const ripple = word + lowest;
    word = ripple | (((word ^ ripple) >> 2n) / lowest);
  }
  return words;
}

export class CombStore extends BitFilter {
  readonly #words: number;

  constructor(kernels: Kernels, geometry: StoreGeometry, bits: number) {
    const words = wordsFor(geometry);
    super(kernels, geometry, Math.max(64, 8 * Math.ceil(bits / 8)));
    this.#words = kernels.alloc(geometry.groups * 8);
    kernels.u64.set(words, this.#words >>> 3);
  }

  static open(
    kernels: Kernels,
    geometry: StoreGeometry,
    body: Uint8Array,
    counts: ArrayLike<number>,
  ): CombStore {
    const { packets, size, rest } = readFilterHead(body, "maple comb");
    if (size % 8 !== 0 || size < 64 || rest.remaining !== size / 8) throw badSize(rest, size, "bits");
    return new CombStore(kernels, geometry, size).restore(packets, rest.bytes(rest.remaining), counts);
  }

  /** Probability that the bits found by chance cover at least one group's word; an upper bound (union over all groups). */
  get absentAccepted(): number {
    const { theta, hashes, groups } = this.geometry;
    const q = falsePositive((theta * this.packets) / this.bits, hashes);
    return Math.min(1, groups * q ** theta);
  }

  protected put(keys: number, codes: number, count: number): void {
    const { hashes, seed } = this.geometry;
    const { address } = this.memory;
    this.kernels.call.combInsert(address, this.bits, hashes, seed, this.#words, keys, codes, count);
  }

  lookup(keys: number, count: number, out: number): void {
    const { hashes, seed, f, groups } = this.geometry;
    const { address, counts } = this.memory;
    withAsked(this.kernels, { keys, count, out, counts }, (asked) =>
      this.kernels.call.combLookup(address, this.bits, hashes, seed, f, this.#words, groups, asked),
    );
  }

  override free(): void {
    super.free();
    this.kernels.free(this.#words);
  }
}

function wordsFor({ f, theta, groups }: StoreGeometry): bigint[] {
  const words = f > 64 ? [] : combWords(f, theta, groups);
  if (words.length === groups) return words;
  throw new UsageError(
    "bad-parameter",
    `COMB(${f}, ${theta}) has ${words.length} codes, but there are ${groups} groups`,
    "take a larger f (at most 64), or fewer groups",
  );
}
