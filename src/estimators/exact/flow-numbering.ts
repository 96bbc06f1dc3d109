/**
 * Flows by number: whole keys in a table of their own (kernels/flows.ts), so that statistics need only the numbers. Where another thread
 * numbers the flows, its keys are loaded when it is done; they are looked up by key only when asked for.
 */
import type { Kernels } from "../../base/kernels.ts";
import type { PacketBatch } from "../../capture/batch.ts";

/** Keys of flows 0, 1, ... as 64-bit words: meta and two IPv4 addresses, or (wide) meta and two IPv6 ones. */
export interface FlowKeys {
  words: Uint32Array<ArrayBuffer>;
  wide: boolean;
}

const NARROW_WORDS = 4;
const WIDE_WORDS = 10;
/** Keys moved per kernel call. */
const PIECE = 8192;

export class FlowNumbering {
  readonly #kernels: Kernels;
  readonly #flows: number;
  readonly #scratch: number;
  readonly #seed: bigint;
  /** Keys that another thread numbered; they are put into the table when one is looked up. */
  #loaded: FlowKeys | null = null;

  /** `seed`: the one that flow keys are hashed with. */
  constructor(kernels: Kernels, seed: bigint) {
    this.#kernels = kernels;
    this.#seed = seed;
    this.#flows = kernels.call.flowsNew!(0) >>> 0;
    kernels.call.flowsTrail!(this.#flows);
    this.#scratch = kernels.alloc(64);
  }

  get count(): number {
    if (this.#loaded) return this.#loaded.words.length / wordsOf(this.#loaded);
    return this.#kernels.call.flowsCount!(this.#flows) >>> 0;
  }

  /**
   * Writes the flow numbers of rows [from, to) to their places in `ids` (u32 per row of the batch); new flows get the next ones. Rows of
   * AFTER (side 1) mostly are those of BEFORE in the same order, which makes them cheap where BEFORE's were numbered first.
   */
  assign(side: 0 | 1, batch: PacketBatch, ids: number, from: number, to: number): void {
    const { call } = this.#kernels;
    if (side === 0) call.flowsLead!(this.#flows, batch.address, ids, from, to);
    else call.flowsFollow!(this.#flows, batch.address, ids, from, to);
  }

  /** A flow's key as words for FlowKeySpec.describe, from `at` on. */
  keyWords(id: number): { words: Uint32Array; at: number } {
    if (this.#loaded) return { words: this.#loaded.words, at: id * wordsOf(this.#loaded) };
    const record = this.#kernels.call.flowsRecord!(this.#flows, id) >>> 0;
    return { words: this.#kernels.u32, at: (record + 8) >>> 2 };
  }

  /** The flow with addresses and ports exchanged, or -1. */
  reverseOf(id: number): number {
    this.#fill();
    return this.#kernels.call.flowsReverse!(this.#flows, id, this.#seed, this.#scratch) | 0;
  }

  /** All keys, to be loaded elsewhere. */
  keys(): FlowKeys {
    const kernels = this.#kernels;
    const wide = kernels.call.flowsWide!(this.#flows) !== 0;
    const each = wordsOf({ wide });
    const { count } = this;
    const words = new Uint32Array(count * each);
    const piece = kernels.alloc(PIECE * each * 4);
    for (let from = 0; from < count; from += PIECE) {
      const n = Math.min(PIECE, count - from);
      kernels.call.flowsKeys!(this.#flows, from, n, wide ? 1 : 0, piece);
      words.set(kernels.u32.subarray(piece >>> 2, (piece >>> 2) + n * each), from * each);
    }
    kernels.free(piece);
    return { words, wide };
  }

  /** Takes the keys of another numbering; ours is empty before. */
  load(keys: FlowKeys): void {
    this.#loaded = keys;
  }

  #fill(): void {
    if (!this.#loaded) return;
    const { words, wide } = this.#loaded;
    const kernels = this.#kernels;
    const each = wordsOf(this.#loaded);
    const piece = kernels.alloc(PIECE * each * 4);
    for (let at = 0; at < words.length; at += PIECE * each) {
      const part = words.subarray(at, at + PIECE * each);
      kernels.u32.set(part, piece >>> 2);
      kernels.call.flowsLoad!(this.#flows, piece, part.length / each, wide ? 1 : 0, this.#seed);
    }
    kernels.free(piece);
    kernels.call.flowsIndex!(this.#flows);
    this.#loaded = null;
  }

  free(): void {
    this.#kernels.call.flowsFree!(this.#flows);
    this.#kernels.free(this.#scratch);
  }
}

function wordsOf({ wide }: Pick<FlowKeys, "wide">): number {
  return wide ? WIDE_WORDS : NARROW_WORDS;
}
