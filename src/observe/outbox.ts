/** Records in flight from a point's taps to its sink, bounded in number and bytes. */
import { invalidValue, oneOf, type UsageError } from "../base/errors.ts";
import type { EncodeOptions, EpochRecord } from "../epoch/record.ts";
import type { PutOutcome, RecordSink } from "./record-sink.ts";

export interface RecordCounts {
  stored: number;
  /** Already stored. */
  unchanged: number;
  /** Replaced a damaged record, or an earlier state of the same observation. */
  replaced: number;
  /** Merged with a stored part of their epoch. */
  merged: number;
  bytes: number;
  /** Refused: another record of the same epoch is stored. */
  refused: number;
}

/** Most records in flight to the sink, and their bytes; beyond this, observing waits. */
const MAX_UNDERWAY = 512;
const MAX_UNDERWAY_BYTES = 64 << 20;
const MAX_REFUSALS = 20;
/** Most records held back before release. */
const MAX_HELD = 256;
const MAX_HELD_BYTES = 32 << 20;

const TAKEN = ["stored", "unchanged", "replaced", "merged"];

export class Outbox {
  readonly counts: RecordCounts = { stored: 0, unchanged: 0, replaced: 0, merged: 0, bytes: 0, refused: 0 };
  readonly written = new Map<string, { records: number; bytes: number }>();
  readonly refusals: UsageError[] = [];
  readonly #sink: RecordSink;
  readonly #onRecord: ((record: EpochRecord) => void) | undefined;
  #underway = 0;
  #bytes = 0;
  #failure: { error: unknown } | null = null;
  #allArrived: () => void = () => {};
  #held: { record: EpochRecord; options: EncodeOptions }[] | null = [];

  constructor(sink: RecordSink, onRecord?: (record: EpochRecord) => void) {
    this.#sink = sink;
    this.#onRecord = onRecord;
  }

  /** Number of records not durable yet. */
  get waiting(): number {
    return this.#underway + (this.#held?.length ?? 0);
  }

  /** Whether records are still held back. */
  get holding(): boolean {
    return this.#held !== null;
  }

  get isFull(): boolean {
    return (this.#held?.length ?? 0) >= MAX_HELD || (this.holding && this.#bytes >= MAX_HELD_BYTES);
  }

  /** Releases the held records to the sink; later ones go there directly. */
  release(): void {
    const held = this.#held ?? [];
    this.#held = null;
    this.#bytes = 0;
    for (const { record, options } of held) void this.#send(record, options);
  }

  put(record: EpochRecord, options: EncodeOptions): void {
    this.#onRecord?.(record);
    if (this.#held) {
      this.#held.push({ record, options });
      this.#bytes += record.payload.length;
    } else void this.#send(record, options);
  }

  async #send(record: EpochRecord, options: EncodeOptions): Promise<void> {
    const bytes = record.payload.length;
    this.#underway++;
    this.#bytes += bytes;
    try {
      this.#note(record, await this.#sink.put(record, options));
    } catch (error) {
      this.#failure ??= { error };
    }
    this.#bytes -= bytes;
    if (--this.#underway === 0) this.#allArrived();
  }

  #note(record: EpochRecord, result: PutOutcome): void {
    if (result?.outcome === "refused") {
      this.counts.refused++;
      if (this.refusals.length < MAX_REFUSALS) this.refusals.push(result.reason);
      return;
    }
    if (!TAKEN.includes(result?.outcome))
      throw invalidValue(
        "sink",
        result?.outcome,
        `${oneOf([...TAKEN, "refused"])}, as the outcome that put resolves with`,
      );
    this.counts[result.outcome]++;
    this.counts.bytes += result.bytes;
    if (result.bytes > 0) this.#count(record.estimator, result.bytes);
  }

  #count(estimator: string, bytes: number): void {
    const own = this.written.get(estimator) ?? { records: 0, bytes: 0 };
    this.written.set(estimator, { records: own.records + 1, bytes: own.bytes + bytes });
  }

  /** Whether `room` would wait or throw. */
  get needsRoom(): boolean {
    return this.#underway > MAX_UNDERWAY || this.#bytes > MAX_UNDERWAY_BYTES || this.#failure !== null;
  }

  /** Waits while too much is in flight. Throws if the sink has failed. */
  async room(): Promise<void> {
    if (this.#underway > MAX_UNDERWAY || this.#bytes > MAX_UNDERWAY_BYTES) await this.#sink.flush();
    if (this.#failure) throw this.#failure.error;
  }

  /** Waits until the sink has reported the outcome of every record. Throws if it has failed. */
  async empty(): Promise<void> {
    await this.#sink.flush();
    if (this.#underway > 0)
      await new Promise<void>((resolve) => {
        this.#allArrived = resolve;
      });
    if (this.#failure) throw this.#failure.error;
  }
}
