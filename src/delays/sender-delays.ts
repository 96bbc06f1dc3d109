/**
 * Where estimators that need delays (MAPLE) get them from two captures: the sender's capture is read beside the receiver's, a window ahead at most, and
 * the delay column of each receiver batch is filled by exact match of digests (kernels/match/delays.ts). Memory: the sender's packets of
 * one window, 32 bytes each.
 *
 * Assumes that both clocks are one (or that `offsetNs` makes them one): a packet that was "sent" after it arrived goes the other way, and
 * has no delay here; those are counted.
 */
import type { Kernels } from "../base/kernels.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { type CaptureOptions, CaptureReader } from "../capture/reader.ts";

export interface SenderDelaysOptions {
  /** Captures of the sender, in order of time. */
  files: readonly string[];
  /** As the receiver's are read: digests must agree. */
  capture: Pick<CaptureOptions, "cover" | "inner" | "seed">;
  /** Longest delay that is looked for. */
  windowNs: number;
  /** The receiver's clock minus the sender's; taken off. */
  offsetNs?: number;
  /** Differences below this belong to packets of the other direction (default 0). */
  leastNs?: number;
  /** Ends reading where the sender's capture is a stream. */
  signal?: AbortSignal | undefined;
}

export interface DelayCounts {
  matched: number;
  unmatched: number;
  /** Rows whose partner is later: packets of the other direction, or clocks that are apart. */
  reversed: number;
}

export class SenderDelays {
  readonly #kernels: Kernels;
  readonly #options: SenderDelaysOptions;
  readonly #address: number;
  #reader: CaptureReader | null = null;
  #file = 0;
  #row = 0;
  #axisNs: bigint | null = null;

  constructor(kernels: Kernels, options: SenderDelaysOptions) {
    this.#kernels = kernels;
    this.#options = options;
    this.#address = kernels.call.delaysNew(options.windowNs) >>> 0;
  }

  /** Fills the delays of a receiver's batch; batches come in order of time. */
  async fill(batch: PacketBatch, originNs: bigint): Promise<void> {
    if (batch.count === 0) return;
    this.#axisNs ??= originNs;
    const shift = Number(originNs - this.#axisNs) - (this.#options.offsetNs ?? 0);
    let until = -Infinity;
    const { timeNs, count } = batch;
    for (let i = 0; i < count; i++) until = Math.max(until, timeNs[i]!);
    await this.#readSender(until + shift);
    this.#kernels.call.delaysFill(this.#address, batch.address, shift, this.#options.leastNs ?? 0);
  }

  counts(): DelayCounts {
    const count = (what: number) => this.#kernels.call.delaysCount(this.#address, what) >>> 0;
    return { matched: count(0), unmatched: count(1), reversed: count(2) };
  }

  free(): void {
    this.#closeReader();
    this.#kernels.call.delaysFree(this.#address);
  }

  async #readSender(untilNs: number): Promise<void> {
    for (;;) {
      if (!this.#reader) {
        const file = this.#options.files[this.#file++];
        if (file === undefined) return;
        this.#reader = await CaptureReader.open(
          this.#kernels,
          file,
          this.#options.capture,
          this.#options.signal,
        );
        if (!(await this.#reader.next())) this.#closeReader();
        this.#row = 0;
        continue;
      }
      const { batch, originNs } = this.#reader;
      const shift = Number(originNs! - this.#axisNs!);
      const { call } = this.#kernels;
      this.#row = call.delaysSent(this.#address, batch.address, this.#row, untilNs, shift) >>> 0;
      if (this.#row < batch.count) return;
      this.#row = 0;
      if (!(await this.#reader.next())) this.#closeReader();
    }
  }

  #closeReader(): void {
    this.#reader?.close();
    this.#reader?.free();
    this.#reader = null;
  }
}
