/**
 * What SVBF and COMB have in common: one filter of m bits for all groups, the same payload section (filter-memory.ts, size = m), and the groups' counts, which
 * break ties. Neither leaves a packet out: a stored packet's group is always among the candidates.
 */
import type { Kernels } from "../../../base/kernels.ts";
import { type FilterHead, FilterMemory } from "./filter-memory.ts";
import type { PacketStore, StoreGeometry } from "./packet-store.ts";

export abstract class BitFilter implements PacketStore {
  readonly geometry: StoreGeometry;
  readonly bits: number;
  packets = 0;
  readonly leftOut = 0;
  protected readonly kernels: Kernels;
  protected readonly memory: FilterMemory;

  /** `repeated`: bytes of the section after the bits; `slack`: bytes after those that a wide load may touch. */
  protected constructor(kernels: Kernels, geometry: StoreGeometry, bits: number, repeated = 0, slack = 0) {
    this.kernels = kernels;
    this.geometry = geometry;
    this.bits = bits;
    this.memory = new FilterMemory(kernels, bits / 8 + repeated, slack);
  }

  abstract get absentAccepted(): number;
  protected abstract put(keys: number, codes: number, count: number): void;
  abstract lookup(keys: number, count: number, out: number): void;

  insert(keys: number, codes: number, count: number): void {
    this.put(keys, codes, count);
    this.packets += count;
  }

  close(counts: ArrayLike<number>): void {
    this.memory.setCounts(counts, this.geometry.groups);
  }

  body(): Uint8Array {
    const head: FilterHead = { packets: this.packets, leftOut: 0, size: this.bits };
    return this.memory.section(head);
  }

  free(): void {
    this.memory.free();
  }

  /** Restores the sealed content. */
  protected restore(packets: number, bytes: Uint8Array, counts: ArrayLike<number>): this {
    this.packets = packets;
    this.memory.fill(bytes);
    this.memory.setCounts(counts, this.geometry.groups);
    return this;
  }
}
