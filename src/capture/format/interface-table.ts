/** The interfaces of a pcapng file in kernel memory: one entry per interface of the current section (kernels/decode/walk.ts, Interface). */
import { InterfaceLayout as FIELD, InterfaceBytes } from "../../base/kernel-layout.ts";
import type { Kernels } from "../../base/kernels.ts";
import type { Chunk } from "../source/chunk.ts";
import type { TickRule } from "./pcapng-blocks.ts";

export class InterfaceTable {
  readonly #kernels: Kernels;
  readonly #chunk: Chunk;
  #address = 0;
  #room = 0;

  constructor(kernels: Kernels, chunk: Chunk) {
    this.#kernels = kernels;
    this.#chunk = chunk;
  }

  /** Starts a new section: its interfaces are numbered from 0 again. `base` is the number of its first interface in the whole file. */
  clear(base: number): void {
    this.#chunk.set("interfaceBase", base);
    this.#chunk.set("interfaceCount", 0);
  }

  add(link: number, ticks: TickRule): void {
    const kernels = this.#kernels;
    const count = this.#chunk.get("interfaceCount");
    if (count === this.#room) {
      const room = Math.max(16, 2 * count);
      const address = kernels.alloc(room * InterfaceBytes);
      if (this.#address !== 0) {
        kernels.u8.copyWithin(address, this.#address, this.#address + count * InterfaceBytes);
        kernels.free(this.#address);
      }
      this.#address = address;
      this.#room = room;
      this.#chunk.set("interfaces", address);
    }
    const entry = this.#address + count * InterfaceBytes;
    kernels.writeU32(entry + FIELD.link, link);
    kernels.writeU32(entry + FIELD.kind, ticks.kind);
    kernels.writeU64(entry + FIELD.scale, ticks.scale);
    kernels.writeU64(entry + FIELD.offset, ticks.offsetNs);
    kernels.writeU64(entry + FIELD.maxTicks, ticks.maxTicks);
    this.#chunk.set("interfaceCount", count + 1);
  }

  free(): void {
    if (this.#address !== 0) this.#kernels.free(this.#address);
  }
}
