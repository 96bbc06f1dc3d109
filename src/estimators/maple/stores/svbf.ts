/**
 * Shared-vector Bloom filter (MAPLE, section 3.3.3; kernels/maple/svbf.ts): one filter; a packet of group i sets bits h_j + i, and a lookup reads bursts of k
 * bits. Guarantee: a stored packet's group is always among the candidates. Fails: with probability 1 - (1 - q)^(k-1) there are more candidates (Multi-Match); a
 * packet that was not stored gets an answer with probability 1 - (1 - q)^k.
 *
 *   body: head (filter-memory.ts), size = bits m | m/8 bytes, then the first `tail` bytes again
 */
import type { Kernels } from "../../../base/kernels.ts";
import { falsePositive } from "../dimension.ts";
import { withAsked } from "./asked.ts";
import { BitFilter } from "./bit-filter.ts";
import { badSize, readFilterHead } from "./filter-memory.ts";
import type { StoreGeometry } from "./packet-store.ts";

/** An unaligned 64-bit load may begin at the last byte. */
const LOAD_SLACK = 8;

/** Bytes repeated after the end, so that a burst of k bits never wraps around. */
export function tailBytes(groups: number): number {
  return Math.ceil(groups / 8) + 8;
}

export class SvbfStore extends BitFilter {
  constructor(kernels: Kernels, geometry: StoreGeometry, bits: number) {
    // At least as many bits as groups, so that a position wraps around at most once.
    const whole = Math.max(64, 8 * Math.ceil(geometry.groups / 8), 8 * Math.ceil(bits / 8));
    super(kernels, geometry, whole, tailBytes(geometry.groups), LOAD_SLACK);
  }

  static open(
    kernels: Kernels,
    geometry: StoreGeometry,
    body: Uint8Array,
    counts: ArrayLike<number>,
  ): SvbfStore {
    const { packets, size, rest } = readFilterHead(body, "maple svbf");
    const right = size % 8 === 0 && size >= Math.max(64, geometry.groups);
    if (!right || rest.remaining !== size / 8 + tailBytes(geometry.groups)) throw badSize(rest, size, "bits");
    return new SvbfStore(kernels, geometry, size).restore(packets, rest.bytes(rest.remaining), counts);
  }

  get absentAccepted(): number {
    const { groups, hashes } = this.geometry;
    return 1 - (1 - falsePositive(this.packets / this.bits, hashes)) ** groups;
  }

  protected put(keys: number, codes: number, count: number): void {
    const { hashes, seed } = this.geometry;
    this.kernels.call.svbfInsert(this.memory.address, this.bits, hashes, seed, keys, codes, count);
  }

  override close(counts: ArrayLike<number>): void {
    this.kernels.call.svbfClose(this.memory.address, this.bits, tailBytes(this.geometry.groups));
    super.close(counts);
  }

  lookup(keys: number, count: number, out: number): void {
    const { hashes, seed, groups } = this.geometry;
    const { address, counts } = this.memory;
    withAsked(this.kernels, { keys, count, out, counts }, (asked) =>
      this.kernels.call.svbfLookup(address, this.bits, hashes, seed, groups, asked),
    );
  }
}
