/**
 * Partitioned Bloom filter (MAPLE, section 3.3.1; kernels/maple/filters.ts): one filter per group, sized by the group's expected share of packets. If a group
 * gets more packets than its filter is sized for, the rest is left out and never found.
 *
 * The share left out is the distance between expectation and truth: Σ max(0, share_i - expected_i) if memory is given for all packets. It depends only on how
 * similar epochs are (centres/pipeline.ts makes the expectation).
 *
 *   body: head (filter-memory.ts), size = bits m | per group: first bit u32, bits u32, capacity u32, used u32 | m/8 bytes
 */
import { FormatError } from "../../../base/errors.ts";
import type { Kernels } from "../../../base/kernels.ts";
import { falsePositive } from "../dimension.ts";
import { withAsked } from "./asked.ts";
import { badSize, FILTER_HEAD_BYTES, FilterMemory, readFilterHead } from "./filter-memory.ts";
import type { PacketStore, StoreGeometry } from "./packet-store.ts";

const PART_BYTES = 16;
/** A group without an expected share still gets room for a few packets. */
const MIN_PART_BITS = 64;

export class PbfStore implements PacketStore {
  readonly geometry: StoreGeometry;
  readonly bits: number;
  packets = 0;
  leftOut = 0;
  readonly #kernels: Kernels;
  readonly #memory: FilterMemory;
  readonly #parts: number;

  /**
   * `shares`: expected share of packets of each group; null: equal shares. `expected`: number of packets that the bits are for (table 1: 12.8 bits each with 9
   * hash functions). Default: as many as leave half of the bits unset.
   */
  constructor(
    kernels: Kernels,
    geometry: StoreGeometry,
    bits: number,
    shares: Float64Array | null,
    expected?: number,
  ) {
    this.#kernels = kernels;
    this.geometry = geometry;
    const { groups, hashes } = geometry;
    const total = Math.max(8 * Math.ceil(bits / 8), groups * MIN_PART_BITS);
    const spare = total - groups * MIN_PART_BITS;
    const perBit = expected === undefined ? Math.LN2 / hashes : expected / bits;
    this.#parts = kernels.alloc(groups * PART_BYTES);
    let first = 0;
    for (let i = 0; i < groups; i++) {
      const size = MIN_PART_BITS + Math.floor(spare * (shares?.[i] ?? 1 / groups));
      const capacity = Math.floor(size * perBit);
      kernels.u32.set([first, size, capacity, 0], (this.#parts + i * PART_BYTES) >>> 2);
      first += size;
    }
    this.bits = total;
    this.#memory = new FilterMemory(kernels, this.bits / 8);
  }

  static open(
    kernels: Kernels,
    geometry: StoreGeometry,
    body: Uint8Array,
    counts: ArrayLike<number>,
  ): PbfStore {
    const { packets, leftOut, size, rest } = readFilterHead(body, "maple pbf");
    const parts = rest.bytes(geometry.groups * PART_BYTES);
    const store = new PbfStore(kernels, geometry, size, null);
    const view = new DataView(parts.buffer, parts.byteOffset, parts.byteLength);
    for (let at = 0; at < parts.length; at += PART_BYTES) {
      if (view.getUint32(at, true) + view.getUint32(at + 4, true) <= size) continue;
      const message = "a group lies outside of the filter";
      throw new FormatError("bad-record", rest.file, FILTER_HEAD_BYTES + at, message);
    }
    if (store.bits !== size || rest.remaining !== size / 8) throw badSize(rest, size, "bits");
    store.packets = packets;
    store.leftOut = leftOut;
    kernels.u8.set(parts, store.#parts);
    store.#memory.fill(rest.bytes(rest.remaining));
    store.#memory.setCounts(counts, geometry.groups);
    return store;
  }

  get absentAccepted(): number {
    const { groups, hashes } = this.geometry;
    let none = 1;
    for (let i = 0; i < groups; i++) {
      const part = this.#kernels.u32.subarray((this.#parts + i * PART_BYTES) >>> 2);
      const [size, used] = [part[1]!, part[3]!];
      none *= 1 - falsePositive(used / size, hashes);
    }
    return 1 - none;
  }

  insert(keys: number, codes: number, count: number): void {
    const { hashes, seed } = this.geometry;
    const { call } = this.#kernels;
    this.leftOut += call.pbfInsert(this.#memory.address, this.#parts, hashes, seed, keys, codes, count) >>> 0;
    this.packets += count;
  }

  close(counts: ArrayLike<number>): void {
    this.#memory.setCounts(counts, this.geometry.groups);
  }

  lookup(keys: number, count: number, out: number): void {
    const { hashes, seed, groups } = this.geometry;
    const { address, counts } = this.#memory;
    withAsked(this.#kernels, { keys, count, out, counts }, (asked) =>
      this.#kernels.call.pbfLookup(address, this.#parts, hashes, seed, groups, asked),
    );
  }

  body(): Uint8Array {
    const parts = this.#kernels.u8.subarray(this.#parts, this.#parts + this.geometry.groups * PART_BYTES);
    return this.#memory.section({ packets: this.packets, leftOut: this.leftOut, size: this.bits }, parts);
  }

  free(): void {
    this.#memory.free();
    this.#kernels.free(this.#parts);
  }
}
