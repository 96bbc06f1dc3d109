/**
 * Hash table without collision handling (MAPLE, section 3.4.1; kernels/maple/filters.ts). The key chooses a slot, and the group's number overwrites what the
 * slot holds. It always gives one answer, which is wrong for overwritten packets.
 *
 *   body: head (filter-memory.ts), size = slots | slots of codeBits bits, 0 for empty, else group + 1
 */
import type { Kernels } from "../../../base/kernels.ts";
import { badSize, FilterMemory, readFilterHead } from "./filter-memory.ts";
import type { PacketStore, StoreGeometry } from "./packet-store.ts";

/** A 32-bit load may begin at the last byte. */
const LOAD_SLACK = 4;

export class HashTableStore implements PacketStore {
  readonly geometry: StoreGeometry;
  packets = 0;
  readonly leftOut = 0;
  readonly #kernels: Kernels;
  readonly #memory: FilterMemory;
  readonly #slots: number;

  constructor(kernels: Kernels, geometry: StoreGeometry, bits: number) {
    this.#kernels = kernels;
    this.geometry = geometry;
    this.#slots = Math.max(1, Math.floor(bits / geometry.codeBits));
    this.#memory = new FilterMemory(kernels, Math.ceil(this.bits / 8), LOAD_SLACK);
  }

  static open(kernels: Kernels, geometry: StoreGeometry, body: Uint8Array): HashTableStore {
    const { packets, size, rest } = readFilterHead(body, "maple table");
    if (rest.remaining !== Math.ceil((size * geometry.codeBits) / 8)) throw badSize(rest, size, "slots");
    const store = new HashTableStore(kernels, geometry, size * geometry.codeBits);
    store.packets = packets;
    store.#memory.fill(rest.bytes(rest.remaining));
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
    this.#kernels.call.tableInsert(this.#memory.address, this.#slots, codeBits, seed, keys, codes, count);
    this.packets += count;
  }

  close(): void {}

  lookup(keys: number, count: number, out: number): void {
    const { codeBits, seed } = this.geometry;
    this.#kernels.call.tableLookup(this.#memory.address, this.#slots, codeBits, seed, keys, count, out);
  }

  body(): Uint8Array {
    return this.#memory.section({ packets: this.packets, leftOut: 0, size: this.#slots });
  }

  free(): void {
    this.#memory.free();
  }
}
