/**
 * A packet ring mapped into the kernels' memory: its pages replace a piece of that memory, so packets are decoded where the interface wrote them, without a
 * copy. A WebAssembly memory of Node grows in place and is never moved (it lies in a reservation of its full size). Should it move all the same, the window is
 * lost: `address` is then null, and blocks are copied from then on.
 */
import { type KernelMemory, type Kernels, MemoryError } from "../../../base/kernels.ts";
import type { Libc } from "./libc.ts";

/** A multiple of the page size of every machine. Kernels may also load words beyond the last frame. */
const PAGE_BYTES = 1 << 16;
const PROT_READ_WRITE = 3;
const MAP_SHARED = 1;
const MAP_PRIVATE = 2;
const MAP_FIXED = 0x10;
const MAP_ANONYMOUS = 0x20;
const MAP_NORESERVE = 0x4000;

export class RingWindow {
  readonly #libc: Libc;
  readonly #kernels: Kernels;
  readonly #allocated: number;
  readonly #start: number;
  readonly #bytes: number;
  readonly #base: bigint;
  #buffer: KernelMemory["buffer"];
  #lost = false;

  private constructor(libc: Libc, kernels: Kernels, allocated: number, bytes: number, base: bigint) {
    this.#libc = libc;
    this.#kernels = kernels;
    this.#allocated = allocated;
    this.#start = Math.ceil(allocated / PAGE_BYTES) * PAGE_BYTES;
    this.#bytes = bytes;
    this.#base = base;
    this.#buffer = kernels.memory.buffer;
  }

  /** Returns null if the ring cannot be mapped. */
  static open(libc: Libc, kernels: Kernels, fd: number, bytes: number): RingWindow | null {
    let allocated: number;
    try {
      allocated = kernels.alloc(bytes + 2 * PAGE_BYTES);
    } catch (error) {
      if (error instanceof MemoryError) return null;
      throw error;
    }
    const window = new RingWindow(libc, kernels, allocated, bytes, libc.addressOf(kernels.u8));
    if (window.#map(MAP_SHARED | MAP_FIXED, fd)) return window;
    kernels.free(allocated);
    return null;
  }

  /** Address of the ring in the kernels' memory; null once the window is lost. */
  get address(): number | null {
    const { buffer } = this.#kernels.memory;
    if (buffer !== this.#buffer) {
      this.#buffer = buffer;
      this.#lost ||= this.#libc.addressOf(this.#kernels.u8) !== this.#base;
    }
    return this.#lost ? null : this.#start;
  }

  /** Replaces the ring with plain memory again. */
  close(): void {
    const plain =
      this.address === null || this.#map(MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1);
    if (plain) this.#kernels.free(this.#allocated);
  }

  #map(flags: number, fd: number): boolean {
    return this.#libc.mapOver(this.#base + BigInt(this.#start), this.#bytes, PROT_READ_WRITE, flags, fd);
  }
}
