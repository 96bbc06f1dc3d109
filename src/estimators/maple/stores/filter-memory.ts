/**
 * What the streaming stores (section 3.3) have in common: zeroed kernel memory, the groups' counts, which break ties, and a payload section with the same head.
 *
 *   section: packets u32 | left out u32 | size u32 (bits, or slots of the hash table) | 0 u32 | front matter | the memory
 */
import { ByteReader, ByteWriter } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import type { Kernels } from "../../../base/kernels.ts";

export const FILTER_HEAD_BYTES = 16;

export interface FilterHead {
  packets: number;
  leftOut: number;
  size: number;
}

/** Reads the section's head; the reader then stands after it. */
export function readFilterHead(body: Uint8Array, file: string): FilterHead & { rest: ByteReader } {
  const rest = new ByteReader(body, { file });
  const [packets, leftOut, size] = [rest.u32(), rest.u32(), rest.u32()];
  rest.skip(4);
  return { packets, leftOut, size, rest };
}

/** Returns the error for a size that does not match the number of bytes. */
export function badSize(rest: ByteReader, size: number, unit: string): FormatError {
  const message = `${size} ${unit} do not fit ${rest.remaining} bytes`;
  return new FormatError("bad-record", rest.file, 8, message);
}

export class FilterMemory {
  readonly address: number;
  readonly bytes: number;
  readonly #kernels: Kernels;
  #counts = 0;

  /** `slack`: bytes after the end that a wide load may touch; they are not part of the section. */
  constructor(kernels: Kernels, bytes: number, slack = 0) {
    this.#kernels = kernels;
    this.bytes = bytes;
    this.address = kernels.alloc(bytes + slack);
    kernels.u8.fill(0, this.address, this.address + bytes + slack);
  }

  /** Address of one u32 per group. */
  get counts(): number {
    return this.#counts;
  }

  setCounts(counts: ArrayLike<number>, groups: number): void {
    this.#counts ||= this.#kernels.alloc(Math.max(1, groups) * 4);
    const { u32 } = this.#kernels;
    for (let i = 0; i < groups; i++) u32[(this.#counts >>> 2) + i] = Math.min(0xffff_fffe, counts[i] ?? 0);
  }

  fill(bytes: Uint8Array): void {
    this.#kernels.u8.set(bytes, this.address);
  }

  section(head: FilterHead, front: Uint8Array = new Uint8Array(0)): Uint8Array {
    const out = new ByteWriter(FILTER_HEAD_BYTES + front.length + this.bytes);
    for (const word of [head.packets, head.leftOut, head.size, 0]) out.u32(word);
    out.bytes(front);
    out.bytes(this.#kernels.u8.subarray(this.address, this.address + this.bytes));
    return out.finish();
  }

  free(): void {
    this.#kernels.free(this.address);
    if (this.#counts !== 0) this.#kernels.free(this.#counts);
  }
}
