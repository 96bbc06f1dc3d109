/**
 * Replays a capture at the pace it was captured, or faster: rows are returned when their time comes. Timestamps are unchanged, so the records are those of the
 * capture read at once, and two ends that are replayed side by side match.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { invalidValue } from "../../base/errors.ts";
import { PacketBatch } from "../batch.ts";
import { appendRows } from "../copy-batch.ts";
import type { CaptureStatistics } from "../reader.ts";
import type { CaptureTotals, Source, SourceBatch } from "./source.ts";

/** Largest span of rows returned together. */
const STEP_MS = 20;

export class PacedSource implements Source {
  readonly live = true;
  readonly #source: Source;
  readonly #speed: number;
  readonly #signal: AbortSignal | undefined;
  readonly #clockMs: () => number;
  #held: SourceBatch | null = null;
  #row = 0;
  #out: PacketBatch | null = null;
  /** The capture's time and the clock's when the replay began. */
  #begun: { captureNs: bigint; clockMs: number } | null = null;
  #nowNs: bigint | null = null;

  /** `speed`: seconds of the capture per second. */
  constructor(
    source: Source,
    speed: number,
    options: { signal?: AbortSignal | undefined; clockMs?: () => number } = {},
  ) {
    if (!(speed > 0 && Number.isFinite(speed)))
      throw invalidValue("speed", speed, "a number above 0, seconds of the capture per second");
    this.#source = source;
    this.#speed = speed;
    this.#signal = options.signal;
    this.#clockMs = options.clockMs ?? (() => performance.now());
  }

  get name(): string {
    return this.#source.name;
  }

  get knowsDelays(): boolean {
    return this.#source.knowsDelays ?? false;
  }

  async next(): Promise<SourceBatch | null> {
    for (;;) {
      if (this.#signal?.aborted) return null;
      if (!this.#held || this.#row >= this.#held.batch.count) {
        this.#held = await this.#source.next();
        this.#row = 0;
        if (!this.#held) return null;
      }
      const { batch, originNs } = this.#held;
      const dueNs = this.#due(originNs + BigInt(Math.floor(batch.timeNs[this.#row] ?? 0)));
      const end = batch.rowsUntil(this.#row, Number(dueNs - originNs), 0);
      if (end > this.#row) return this.#give(this.#held, end);
      this.#nowNs = dueNs;
      await sleep(STEP_MS, undefined, this.#signal ? { signal: this.#signal } : {}).catch(() => {});
    }
  }

  nowNs(): bigint | null {
    return this.#nowNs;
  }
  totals(): CaptureTotals {
    return this.#source.totals();
  }
  statistics(): CaptureStatistics[] {
    return this.#source.statistics();
  }
  progress(): { doneBytes: number; totalBytes: number | null } {
    return this.#source.progress();
  }
  close(): void {
    this.#held = null;
    this.#out?.free();
    this.#out = null;
    this.#source.close();
  }

  /** Returns the capture's current time. The replay begins with the first row. */
  #due(firstNs: bigint): bigint {
    this.#begun ??= { captureNs: firstNs, clockMs: this.#clockMs() };
    const elapsedMs = (this.#clockMs() - this.#begun.clockMs) * this.#speed;
    return this.#begun.captureNs + BigInt(Math.round(elapsedMs * 1e6));
  }

  /** Returns the rows up to `end` in a separate batch, because the receiver changes it in place. */
  #give({ batch, originNs }: SourceBatch, end: number): SourceBatch {
    this.#out ??= new PacketBatch(batch.kernels, batch.capacity);
    this.#out.count = 0;
    appendRows(batch, this.#row, end, this.#out);
    this.#row = end;
    return { batch: this.#out, originNs };
  }
}
