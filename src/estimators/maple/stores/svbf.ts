/**
 * Shared-vector Bloom filter (MAPLE, section 3.3.3; kernels/maple-svbf.ts): one filter, a packet of group i sets bits h_j + i, a look-up reads
 * bursts of k bits. Guarantee: a stored packet's group is always among the candidates. Fails: with probability 1 - (1 - q)^(k-1) there are more of them
 * (Multi-Match); a packet never stored is answered with probability 1 - (1 - q)^k.
 *
 *   body: packets u32 | left out u32 (0) | bits m u32 | 0 u32 | m/8 bytes, then the first `tail` bytes again
 */
import { ByteReader, ByteWriter } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import type { Kernels } from "../../../base/kernels.ts";
import { falsePositive } from "../dimension.ts";
import { allocZeroed, type PacketStore, type StoreGeometry, storeCounts } from "./packet-store.ts";

export const BLOOM_HEAD_BYTES = 16;
/** An unaligned 64-bit load may begin at the last byte. */
const LOAD_SLACK = 8;

/** Bytes repeated behind the end, so that a burst of k bits never wraps. */
export function tailBytes(groups: number): number {
  return Math.ceil(groups / 8) + 8;
}

export class SvbfStore implements PacketStore {
  readonly geometry: StoreGeometry;
  readonly bits: number;
  packets = 0;
  readonly leftOut = 0;
  readonly #kernels: Kernels;
  readonly #address: number;
  readonly #tail: number;
  #counts = 0;

  constructor(kernels: Kernels, geometry: StoreGeometry, bits: number) {
    this.#kernels = kernels;
    this.geometry = geometry;
    // At least as many bits as groups, so that a position wraps at most once.
    this.bits = Math.max(64, 8 * Math.ceil(geometry.groups / 8), 8 * Math.ceil(bits / 8));
    this.#tail = tailBytes(geometry.groups);
    this.#address = allocZeroed(kernels, this.bits / 8 + this.#tail + LOAD_SLACK);
  }

  static open(
    kernels: Kernels,
    geometry: StoreGeometry,
    body: Uint8Array,
    counts: ArrayLike<number>,
  ): SvbfStore {
    const reader = new ByteReader(body, { file: "maple svbf" });
    const packets = reader.u32();
    reader.skip(4);
    const bits = reader.u32();
    reader.skip(4);
    const tail = tailBytes(geometry.groups);
    if (bits % 8 !== 0 || bits < Math.max(64, geometry.groups) || reader.remaining !== bits / 8 + tail) {
      throw new FormatError(
        "bad-record",
        "maple svbf",
        8,
        `${bits} bits do not fit ${reader.remaining} bytes`,
      );
    }
    const store = new SvbfStore(kernels, geometry, bits);
    store.packets = packets;
    kernels.u8.set(reader.bytes(bits / 8 + tail), store.#address);
    store.#counts = storeCounts(kernels, counts, geometry.groups);
    return store;
  }

  get absentAccepted(): number {
    const { groups, hashes } = this.geometry;
    return 1 - (1 - falsePositive(this.packets / this.bits, hashes)) ** groups;
  }

  insert(keys: number, codes: number, count: number): void {
    const { hashes, seed } = this.geometry;
    this.#kernels.call.svbfInsert!(this.#address, this.bits, hashes, seed, keys, codes, count);
    this.packets += count;
  }

  close(counts: ArrayLike<number>): void {
    this.#kernels.call.svbfClose!(this.#address, this.bits, this.#tail);
    this.#counts = storeCounts(this.#kernels, counts, this.geometry.groups);
  }

  lookup(keys: number, count: number, out: number): void {
    const { hashes, seed, groups } = this.geometry;
    const { call } = this.#kernels;
    call.svbfLookup!(this.#address, this.bits, hashes, seed, groups, this.#counts, keys, count, out);
  }

  body(): Uint8Array {
    const out = new ByteWriter(BLOOM_HEAD_BYTES + this.bits / 8 + this.#tail);
    out.u32(this.packets);
    out.u32(0);
    out.u32(this.bits);
    out.u32(0);
    out.bytes(this.#kernels.u8.subarray(this.#address, this.#address + this.bits / 8 + this.#tail));
    return out.finish();
  }

  free(): void {
    this.#kernels.free(this.#address);
    if (this.#counts !== 0) this.#kernels.free(this.#counts);
  }
}
