/** The interfaces of a pcapng file as the kernel reads them: one entry per interface of the current section (kernels/decode/walk.ts, Interface). */
import type { Kernels } from "../../base/kernels.ts";
import type { Chunk } from "../source/chunk.ts";
import type { TickRule } from "./pcapng-blocks.ts";

const ENTRY_BYTES = 40;

export class InterfaceTable {
  readonly #kernels: Kernels;
  readonly #chunk: Chunk;
  #address = 0;
  #room = 0;

  constructor(kernels: Kernels, chunk: Chunk) {
    this.#kernels = kernels;
    this.#chunk = chunk;
  }

  /** A new section: its interfaces are counted from 0 again; `base` is the number of its first one in the whole file. */
  clear(base: number): void {
    this.#chunk.set("interfaceBase", base);
    this.#chunk.set("interfaceCount", 0);
  }

  add(link: number, ticks: TickRule): void {
    const kernels = this.#kernels;
    const count = this.#chunk.get("interfaceCount");
    if (count === this.#room) {
      const room = Math.max(16, 2 * count);
      const address = kernels.alloc(room * ENTRY_BYTES);
      if (this.#address !== 0) {
        kernels.u8.copyWithin(address, this.#address, this.#address + count * ENTRY_BYTES);
        kernels.free(this.#address);
      }
      this.#address = address;
      this.#room = room;
      this.#chunk.set("interfaces", address);
    }
    const entry = this.#address + count * ENTRY_BYTES;
    kernels.u32[entry >>> 2] = link;
    kernels.u32[(entry >>> 2) + 1] = ticks.kind;
    kernels.u64[(entry >>> 3) + 1] = ticks.scale;
    kernels.i64[(entry >>> 3) + 2] = ticks.offsetNs;
    kernels.u64[(entry >>> 3) + 3] = ticks.maxTicks;
    this.#chunk.set("interfaceCount", count + 1);
  }

  free(): void {
    if (this.#address !== 0) this.#kernels.free(this.#address);
  }
}
