/**
 * Handles the pcapng blocks at which the kernel's walk stops: sections, interfaces, statistics, and unknown ones. Keeps the interfaces of all sections and the
 * byte order of the current one.
 */
import type { Kernels } from "../../base/kernels.ts";
import type { Chunk, Shortage } from "../source/chunk.ts";
import { InterfaceTable } from "./interface-table.ts";
import {
  BLOCK,
  type CaptureInterface,
  minBlockBytes,
  readInterface,
  readStatistics,
} from "./pcapng-blocks.ts";

/** Blocks of these kinds must be in memory as a whole to be parsed; longer ones are treated as damage. */
const MAX_SPECIAL_BLOCK = 1 << 20;
/** More interfaces than any capture has: a file with more of them is damaged, and would fill the memory. */
const MAX_INTERFACES = 1 << 16;
const MAX_WARNINGS = 20;

const isMagic = (magic: number) => magic === 0x1a2b3c4d || magic === 0x4d3c2b1a;

export class SpecialBlocks {
  readonly interfaces: CaptureInterface[] = [];
  readonly warnings: string[] = [];
  readonly #chunk: Chunk;
  readonly #table: InterfaceTable;
  #sectionStart = 0;
  #little = true;

  constructor(kernels: Kernels, chunk: Chunk) {
    this.#chunk = chunk;
    this.#table = new InterfaceTable(kernels, chunk);
  }

  warn(text: string): void {
    if (this.warnings.length < MAX_WARNINGS) this.warnings.push(text);
  }

  /** Returns whether the current block can be taken without moving the chunk that rows point into. */
  isAtHand(): boolean {
    const { have } = this.#chunk;
    return have >= 12 && this.#chunk.view(12).getUint32(4, this.#little) <= have;
  }

  /** Takes the current block. Returns null, or why the capture ends here. */
  async take(): Promise<Shortage> {
    const chunk = this.#chunk;
    if (chunk.have < 12) {
      const short = await chunk.refill(12);
      if (short !== null) return short;
    }
    const head = chunk.view(12);
    const type = head.getUint32(0, this.#little);
    if (type === BLOCK.section) {
      const magic = head.getUint32(8, true);
      if (!isMagic(magic)) {
        const what = "the section header's byte-order magic is neither 1a2b3c4d nor 4d3c2b1a";
        return { offset: chunk.offset + 8, what };
      }
      this.#little = magic === 0x1a2b3c4d;
      chunk.set("swapped", this.#little ? 0 : 1);
    }
    const length = head.getUint32(4, this.#little);
    const known = type === BLOCK.section || type === BLOCK.interface || type === BLOCK.statistics;
    if (length < minBlockBytes(type) || length % 4 !== 0 || (known && length > MAX_SPECIAL_BLOCK)) {
      const what = `impossible block length (${length}); the file is damaged from here on`;
      return { offset: chunk.offset, what };
    }
    if (!known) return await chunk.skip(length);
    if (chunk.have < length) {
      const short = await chunk.refill(length);
      if (short !== null) return short;
    }
    const block = chunk.view(length);
    if (block.getUint32(length - 4, this.#little) !== length)
      return {
        offset: chunk.offset,
        what: "the block's two lengths differ; the file is damaged from here on",
      };
    if (type === BLOCK.interface && this.interfaces.length === MAX_INTERFACES)
      return { offset: chunk.offset, what: `more than ${MAX_INTERFACES} interfaces are described` };
    this.#read(type, block);
    chunk.advance(length);
    return null;
  }

  free(): void {
    this.#table.free();
  }

  #read(type: number, block: DataView): void {
    if (type === BLOCK.section) {
      this.#sectionStart = this.interfaces.length;
      this.#table.clear(this.#sectionStart);
    } else if (type === BLOCK.interface) {
      const { description, ticks, warning } = readInterface(block, this.#little, this.interfaces.length);
      if (warning) this.warn(warning);
      this.interfaces.push(description);
      this.#table.add(description.link, ticks);
    } else {
      const counts = readStatistics(block, this.#little);
      const iface = counts ? this.interfaces[this.#sectionStart + counts.interfaceId] : undefined;
      // Statistics are running totals: the last block counts.
      if (counts && iface) iface.dropped = counts.dropped;
    }
  }
}
