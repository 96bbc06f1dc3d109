/**
 * Partitioned Bloom filter (MAPLE, section 3.3.1; kernels/maple-filters.ts): a filter per group, sized by the share of packets that the group had two
 * epochs before. A group that gets more packets than its filter was made for leaves the rest out: they are never found.
 *
 *   body: packets u32 | left out u32 | bits m u32 | 0 u32 | per group: first bit u32, bits u32, capacity u32, used u32 | m/8 bytes
 */
import { ByteReader, ByteWriter } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import type { Kernels } from "../../../base/kernels.ts";
import { falsePositive } from "../dimension.ts";
import { allocZeroed, type PacketStore, type StoreGeometry, storeCounts } from "./packet-store.ts";
import { BLOOM_HEAD_BYTES } from "./svbf.ts";

const PART_BYTES = 16;
/** A group nobody expected still gets room for a few packets. */
const LEAST_PART_BITS = 64;

export class PbfStore implements PacketStore {
  readonly geometry: StoreGeometry;
  readonly bits: number;
  packets = 0;
  leftOut = 0;
  readonly #kernels: Kernels;
  readonly #address: number;
  readonly #parts: number;
  #counts = 0;

  /** `shares`: what part of the packets each group is expected to get; equal ones where it is null. */
  constructor(kernels: Kernels, geometry: StoreGeometry, bits: number, shares: Float64Array | null) {
    this.#kernels = kernels;
    this.geometry = geometry;
    const { groups, hashes } = geometry;
    const total = Math.max(8 * Math.ceil(bits / 8), groups * LEAST_PART_BITS);
    const spare = total - groups * LEAST_PART_BITS;
    this.#parts = kernels.alloc(groups * PART_BYTES);
    let first = 0;
    for (let i = 0; i < groups; i++) {
      const size = LEAST_PART_BITS + Math.floor(spare * (shares?.[i] ?? 1 / groups));
      // At this load half of the bits are set: the filter is full.
      const capacity = Math.floor((size * Math.LN2) / hashes);
      kernels.u32.set([first, size, capacity, 0], (this.#parts + i * PART_BYTES) >>> 2);
      first += size;
    }
    this.bits = total;
    this.#address = allocZeroed(kernels, this.bits / 8);
  }

  static open(
    kernels: Kernels,
    geometry: StoreGeometry,
    body: Uint8Array,
    counts: ArrayLike<number>,
  ): PbfStore {
    const reader = new ByteReader(body, { file: "maple pbf" });
    const packets = reader.u32();
    const leftOut = reader.u32();
    const bits = reader.u32();
    reader.skip(4);
    const parts = reader.bytes(geometry.groups * PART_BYTES);
    const store = new PbfStore(kernels, geometry, bits, null);
    const view = new DataView(parts.buffer, parts.byteOffset, parts.byteLength);
    for (let i = 0; i < geometry.groups; i++) {
      const at = i * PART_BYTES;
      if (view.getUint32(at, true) + view.getUint32(at + 4, true) > bits) {
        throw new FormatError(
          "bad-record",
          "maple pbf",
          BLOOM_HEAD_BYTES + at,
          "a group lies outside of the filter",
        );
      }
    }
    if (store.bits !== bits || reader.remaining !== bits / 8) {
      throw new FormatError(
        "bad-record",
        "maple pbf",
        8,
        `${bits} bits do not fit ${reader.remaining} bytes`,
      );
    }
    store.packets = packets;
    store.leftOut = leftOut;
    kernels.u8.set(parts, store.#parts);
    kernels.u8.set(reader.bytes(bits / 8), store.#address);
    store.#counts = storeCounts(kernels, counts, geometry.groups);
    return store;
  }

  get absentAccepted(): number {
    const { groups, hashes } = this.geometry;
    let none = 1;
    for (let i = 0; i < groups; i++) {
      const [, size, , used] = this.#kernels.u32.subarray((this.#parts + i * PART_BYTES) >>> 2);
      none *= 1 - falsePositive(used! / size!, hashes);
    }
    return 1 - none;
  }

  insert(keys: number, codes: number, count: number): void {
    const { hashes, seed } = this.geometry;
    const { call } = this.#kernels;
    this.leftOut += call.pbfInsert!(this.#address, this.#parts, hashes, seed, keys, codes, count) >>> 0;
    this.packets += count;
  }

  close(counts: ArrayLike<number>): void {
    this.#counts = storeCounts(this.#kernels, counts, this.geometry.groups);
  }

  lookup(keys: number, count: number, out: number): void {
    const { hashes, seed, groups } = this.geometry;
    const { call } = this.#kernels;
    call.pbfLookup!(this.#address, this.#parts, hashes, seed, groups, this.#counts, keys, count, out);
  }

  body(): Uint8Array {
    const { groups } = this.geometry;
    const out = new ByteWriter(BLOOM_HEAD_BYTES + groups * PART_BYTES + this.bits / 8);
    out.u32(this.packets);
    out.u32(this.leftOut);
    out.u32(this.bits);
    out.u32(0);
    const { u8 } = this.#kernels;
    out.bytes(u8.subarray(this.#parts, this.#parts + groups * PART_BYTES));
    out.bytes(u8.subarray(this.#address, this.#address + this.bits / 8));
    return out.finish();
  }

  free(): void {
    this.#kernels.free(this.#address);
    this.#kernels.free(this.#parts);
    if (this.#counts !== 0) this.#kernels.free(this.#counts);
  }
}
