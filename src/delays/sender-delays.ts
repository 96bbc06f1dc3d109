/**
 * Delays from two captures, for estimators that need delays (MAPLE): the sender's capture is read alongside the receiver's, at most a window ahead, and the
 * delay column of each receiver batch is filled by exact match of digests (kernels/match/delays.ts). Memory: the sender's packets of two windows, 32 bytes
 * each.
 *
 * Delays are differences of two clocks, as for every estimator that compares two points: if the receiver's clock is behind they may be negative, and are kept.
 * Packets of the other direction are recognised by their TTL and by hosts that answer each other, whatever the clocks do; they have no delay here and are
 * counted.
 */
import { checkNs } from "../base/checks.ts";
import { type Kernels, memoryError } from "../base/kernels.ts";
import { formatDuration } from "../base/time.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { type CaptureOptions, CaptureReader } from "../capture/reader.ts";

/** Default of the longest delay searched for. */
export const SENDER_WINDOW_NS = 1_000_000_000;
/** Longest pause that a batch's last packet alone may end. */
const MAX_PAUSE_NS = 3600e9;

export interface SenderDelaysOptions {
  /** Captures of the sender, in time order. */
  files: readonly string[];
  /** As for the receiver's captures: digests must agree. */
  capture: Pick<CaptureOptions, "cover" | "inner" | "nat" | "seed">;
  /** Largest difference searched for, of either sign. */
  windowNs: number;
  /** The receiver's clock minus the sender's; subtracted. */
  offsetNs?: number;
  /** Smaller differences belong to packets of the other direction; undefined: determined from the packets. */
  minNs?: number;
  /** Ends reading if the sender's capture is a stream. */
  signal?: AbortSignal | undefined;
}

export interface DelayCounts {
  matched: number;
  unmatched: number;
  /** Rows that go the other way. */
  reversed: number;
  /** Longest delay found, of either sign, and the longest searched for. */
  longestNs: number;
  windowNs: number;
}

export class SenderDelays {
  readonly #kernels: Kernels;
  readonly #options: SenderDelaysOptions;
  readonly #address: number;
  #reader: CaptureReader | null = null;
  #file = 0;
  #row = 0;
  #axisNs: bigint | null = null;
  #longestNs = 0;

  constructor(kernels: Kernels, options: SenderDelaysOptions) {
    checkNs("window", options.windowNs);
    this.#kernels = kernels;
    this.#options = options;
    this.#address = kernels.call.delaysNew(options.windowNs, options.minNs ?? Number.NaN) >>> 0;
  }

  /** Fills the delays of a receiver's batch; batches must come in time order. */
  async fill(batch: PacketBatch, originNs: bigint): Promise<void> {
    if (batch.count === 0) return;
    try {
      await this.#fill(batch, originNs);
    } catch (error) {
      const waiting = `the sender's packets of two windows of ${formatDuration(this.#options.windowNs)}`;
      throw memoryError(error, waiting, "a shorter ‘window’") ?? error;
    }
  }

  async #fill(batch: PacketBatch, originNs: bigint): Promise<void> {
    this.#axisNs ??= originNs;
    const shift = Number(originNs - this.#axisNs) - (this.#options.offsetNs ?? 0);
    await this.#readSender(this.#latest(batch) + shift + this.#options.windowNs, this.#axisNs);
    this.#kernels.call.delaysFill(this.#address, batch.address, shift);
    const { delayNs, count } = batch;
    for (let i = 0; i < count; i++) {
      const ns = Math.abs(delayNs[i]!);
      if (ns > this.#longestNs) this.#longestNs = ns;
    }
  }

  counts(): DelayCounts {
    const count = (what: number) => this.#kernels.call.delaysCount(this.#address, what) >>> 0;
    const { windowNs } = this.#options;
    return {
      ...{ matched: count(0), unmatched: count(1), reversed: count(2) },
      ...{ longestNs: this.#longestNs, windowNs },
    };
  }

  free(): void {
    this.#closeReader();
    this.#kernels.call.delaysFree(this.#address);
  }

  /** Returns the latest time that a second packet confirms: a single outlier must not skip the whole of the sender's capture. */
  #latest({ timeNs, count }: PacketBatch): number {
    let latest = Number.NEGATIVE_INFINITY;
    for (let i = 1; i < count; i++) latest = Math.max(latest, Math.min(timeNs[i - 1]!, timeNs[i]!));
    const last = timeNs[count - 1]!;
    return count === 1 ? last : Math.max(latest, Math.min(last, latest + MAX_PAUSE_NS));
  }

  /** Adds rows up to this time, relative to `axisNs`. */
  async #readSender(untilNs: number, axisNs: bigint): Promise<void> {
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
      const shift = Number((originNs ?? 0n) - axisNs);
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
