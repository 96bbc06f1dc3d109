/**
 * Hash table without collision handling (MAPLE, section 3.4.1; kernels/maple-filters.ts): the key chooses a slot, the group's number is written
 * there, whoever was there before. Always one answer, which is wrong for packets that were overwritten.
 *
 *   body: packets u32 | 0 u32 | slots u32 | 0 u32 | slots of codeBits bits, 0 for empty, else group + 1
 */
import { ByteReader, ByteWriter } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import type { Kernels } from "../../../base/kernels.ts";
import { allocZeroed, type PacketStore, type StoreGeometry } from "./packet-store.ts";
import { BLOOM_HEAD_BYTES } from "./svbf.ts";

/** A 32-bit load may begin at the last byte. */
const LOAD_SLACK = 4;

export class HashTableStore implements PacketStore {
  readonly geometry: StoreGeometry;
  packets = 0;
  readonly leftOut = 0;
  readonly #kernels: Kernels;
  readonly #address: number;
  readonly #slots: number;

  constructor(kernels: Kernels, geometry: StoreGeometry, bits: number) {
    this.#kernels = kernels;
    this.geometry = geometry;
    this.#slots = Math.max(1, Math.floor(bits / geometry.codeBits));
    this.#address = allocZeroed(kernels, this.#bytes + LOAD_SLACK);
  }

  get #bytes(): number {
    return Math.ceil((this.#slots * this.geometry.codeBits) / 8);
  }

  static open(kernels: Kernels, geometry: StoreGeometry, body: Uint8Array): HashTableStore {
    const reader = new ByteReader(body, { file: "maple table" });
    const packets = reader.u32();
    reader.skip(4);
    const slots = reader.u32();
    reader.skip(4);
    if (reader.remaining !== Math.ceil((slots * geometry.codeBits) / 8)) {
      throw new FormatError(
        "bad-record",
        "maple table",
        8,
        `${slots} slots do not fit ${reader.remaining} bytes`,
      );
    }
    const store = new HashTableStore(kernels, geometry, slots * geometry.codeBits);
    store.packets = packets;
    kernels.u8.set(reader.bytes(reader.remaining), store.#address);
    return store;
  }

  get bits(): number {
    return this.#slots * this.geometry.codeBits;
  }

  get absentAccepted(): number {
    return -Math.expm1(-this.packets / this.#slots);
  }

  insert(keys: number, codes: number, count: number): void {
    const { codeBits, seed } = this.geometry;
    this.#kernels.call.tableInsert!(this.#address, this.#slots, codeBits, seed, keys, codes, count);
    this.packets += count;
  }

  close(): void {}

  lookup(keys: number, count: number, out: number): void {
    const { codeBits, seed } = this.geometry;
    this.#kernels.call.tableLookup!(this.#address, this.#slots, codeBits, seed, keys, count, out);
  }

  body(): Uint8Array {
    const out = new ByteWriter(BLOOM_HEAD_BYTES + this.#bytes);
    out.u32(this.packets);
    out.u32(0);
    out.u32(this.#slots);
    out.u32(0);
    out.bytes(this.#kernels.u8.subarray(this.#address, this.#address + this.#bytes));
    return out.finish();
  }

  free(): void {
    this.#kernels.free(this.#address);
  }
}
