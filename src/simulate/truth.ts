/**
 * True delays per flow, for any flow key: packets, lost packets, sum and sum of squares of the delays (whole ns). The tables are in kernel memory; call `free`
 * when done.
 */
import { FlowTruthBytes, FlowTruthLayout } from "../base/kernel-layout.ts";
import type { Kernels } from "../base/kernels.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { type FlowKey, FlowKeySpec } from "../capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../capture/reader.ts";

/** Numeric fields of a flow, each f64. */
type FlowNumber = Exclude<
  keyof typeof FlowTruthLayout,
  "hash" | "meta" | "addrA" | "addrB" | "addrC" | "addrD"
>;
/** Words of eight bytes. */
const WORDS = FlowTruthBytes / 8;

export interface FlowTruth {
  key: FlowKey;
  /** The flow hash (keyFlows with the same seed) as [low, high]. */
  hash: [number, number];
  /** meta, addrA..addrD as ten words, in the kernels' layout. */
  keyWords: Uint32Array;
  /** Packets sent. */
  sent: number;
  lost: number;
  /** Packets that arrived; the sums are over these. */
  packets: number;
  bytes: number;
  sumNs: number;
  sumSquaresNs2: number;
  /** Over the packets that arrived; null if none did. */
  meanNs: number | null;
  deviationNs: number | null;
  minNs: number | null;
  maxNs: number | null;
  firstSentNs: number;
  lastSentNs: number;
}

export class FlowTruthTable {
  readonly key: FlowKeySpec;
  readonly seed: bigint;
  readonly #kernels: Kernels;
  readonly #address: number;
  readonly #mask: number;

  constructor(kernels: Kernels, options: { key?: FlowKeySpec; seed?: bigint } = {}) {
    this.#kernels = kernels;
    this.key = options.key ?? FlowKeySpec.parse();
    this.seed = options.seed ?? DEFAULT_SEED;
    this.#address = kernels.call.simTruthNew() >>> 0;
    this.#mask = this.key.store(kernels);
  }

  /** Keys the batch in place (its key columns become the masked key) and adds it. `delay` NaN = lost. */
  update(batch: PacketBatch): void {
    this.#kernels.call.keyFlows(batch.address, this.#mask, this.seed);
    this.updateKeyed(batch);
  }

  /** Adds a batch that the caller has already keyed with the same key. */
  updateKeyed(batch: PacketBatch): void {
    this.#kernels.call.simTruthUpdate(this.#address, batch.address);
  }

  get size(): number {
    return this.#kernels.call.simTruthCount(this.#address) >>> 0;
  }

  /** Returns one field of all flows, in the order in which the flows first appeared. */
  column(name: FlowNumber): Float64Array {
    const start = (this.#start() + FlowTruthLayout[name]) >>> 3;
    const from = this.#kernels.f64;
    const out = new Float64Array(this.size);
    for (let i = 0; i < out.length; i++) out[i] = from[start + i * WORDS]!;
    return out;
  }

  /** Returns the flow hashes as pairs [low, high], in the same order. */
  hashes(): Uint32Array {
    const start = this.#start() >>> 2;
    const from = this.#kernels.u32;
    const out = new Uint32Array(2 * this.size);
    for (let i = 0; i < out.length; i++) out[i] = from[start + (i >>> 1) * 2 * WORDS + (i & 1)]!;
    return out;
  }

  /** Returns meta, addrA..addrD of a flow as ten words. */
  keyWords(i: number): Uint32Array {
    const start = (this.#start() + i * 8 * WORDS) >>> 2;
    return this.#kernels.u32.slice(start + 2, start + 12);
  }

  flow(i: number): FlowTruth {
    const start = this.#start() + i * 8 * WORDS;
    const number = (name: FlowNumber) => this.#kernels.f64[(start + FlowTruthLayout[name]) >>> 3]!;
    const words = this.#kernels.u32.slice(start >>> 2, (start >>> 2) + 12);
    const packets = number("sent") - number("lost");
    const mean = packets > 0 ? number("sum") / packets : null;
    const variance = mean === null ? null : Math.max(0, number("squares") / packets - mean * mean);
    return {
      key: this.key.describe(words, 2),
      hash: [words[0]!, words[1]!],
      keyWords: words.subarray(2),
      sent: number("sent"),
      lost: number("lost"),
      packets,
      bytes: number("bytes"),
      sumNs: number("sum"),
      sumSquaresNs2: number("squares"),
      meanNs: mean,
      deviationNs: variance === null ? null : Math.sqrt(variance),
      minNs: packets > 0 ? number("minimum") : null,
      maxNs: packets > 0 ? number("maximum") : null,
      firstSentNs: number("first"),
      lastSentNs: number("last"),
    };
  }

  *[Symbol.iterator](): Generator<FlowTruth> {
    for (let i = 0; i < this.size; i++) yield this.flow(i);
  }

  free(): void {
    this.#kernels.call.simTruthFree(this.#address);
    this.#kernels.free(this.#mask);
  }

  #start(): number {
    return this.#kernels.call.simTruthEntries(this.#address) >>> 0;
  }
}
