/**
 * Records into an archive's directory: in groups, because syncing them together costs little more than syncing one; never later than a second after they were sealed. The
 * directory is made when the first are stored: who is refused before leaves nothing behind. What the directory may hold of the point is seen to while it is written.
 */
import { RecordArchive } from "../archive/archive.ts";
import { checkLimits, retain } from "../archive/retention.ts";
import type { MergeRecords, StoreItem } from "../archive/writer.ts";
import { checkText } from "../base/checks.ts";
import { UsageError } from "../base/errors.ts";
import { mergeParts } from "../epoch/merge.ts";
import type { EncodeOptions, EpochRecord } from "../epoch/record.ts";
import type { Estimator } from "../estimators/estimator.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import type { PutOutcome, RecordSink } from "./record-sink.ts";

export interface DirectorySinkOptions {
  directory: string;
  /** Whose records the limits are for. */
  point: string;
  /** Keep what ended no longer than this before the newest. */
  keepNs?: bigint | undefined;
  maxBytes?: number | undefined;
  /** For parts of one epoch that are to be put together. */
  table?: readonly Estimator[];
  /** Oldest age of a sealed record that is not on disk, ms. */
  maxAgeMs?: number;
}

const GROUP_RECORDS = 64;
const GROUP_BYTES = 8 << 20;
const MAX_AGE_MS = 1000;
/** The limits are looked at after so many records, or so much time. */
const RETAIN_RECORDS = 1024;
const RETAIN_MS = 30_000;

interface Waiting extends StoreItem {
  resolve: (outcome: PutOutcome) => void;
  reject: (error: unknown) => void;
}

export class DirectorySink implements RecordSink {
  /** Old records removed so far. */
  removed = 0;
  readonly #options: DirectorySinkOptions;
  readonly #merge: MergeRecords;
  #archive: RecordArchive | null = null;
  #waiting: Waiting[] = [];
  #bytes = 0;
  #writing: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | null = null;
  #failure: { error: unknown } | null = null;
  #sinceRetained = 0;
  #retainedAt = performance.now();

  constructor(options: DirectorySinkOptions) {
    checkText("directory", options?.directory, "the path of a directory");
    checkLimits(options);
    this.#options = options;
    this.#merge = mergeBy(options.table ?? ESTIMATORS);
  }

  put(record: EpochRecord, options?: EncodeOptions): Promise<PutOutcome> {
    return new Promise((resolve, reject) => {
      if (this.#failure) {
        reject(this.#failure.error);
        return;
      }
      this.#waiting.push({ record, options, resolve, reject });
      this.#bytes += record.payload.length;
      if (this.#waiting.length >= GROUP_RECORDS || this.#bytes >= GROUP_BYTES) void this.#write();
      else this.#timer ??= setTimeout(() => void this.#write(), this.#options.maxAgeMs ?? MAX_AGE_MS);
    });
  }

  async flush(): Promise<void> {
    await this.#write();
    if (this.#failure) throw this.#failure.error;
  }

  async close(): Promise<void> {
    await this.flush();
    if (this.#archive) this.#retain();
    this.#archive?.close();
  }

  /** One group after the other. Never rejects: the records' own promises do. */
  #write(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    const group = this.#waiting;
    this.#waiting = [];
    this.#bytes = 0;
    this.#writing = this.#writing.then(() => this.#store(group));
    return this.#writing;
  }

  async #store(group: readonly Waiting[]): Promise<void> {
    if (group.length === 0) return;
    try {
      if (this.#failure) throw this.#failure.error;
      this.#archive ??= await RecordArchive.create(this.#options.directory);
      const { outcomes } = await this.#archive.store(group, this.#merge);
      for (const [i, { resolve, reject }] of group.entries()) {
        const outcome = outcomes[i];
        if (outcome) resolve(outcome);
        else reject(new Error("the archive lost count"));
      }
      this.#sinceRetained += group.length;
      if (this.#sinceRetained >= RETAIN_RECORDS || performance.now() - this.#retainedAt >= RETAIN_MS)
        this.#retain();
    } catch (error) {
      this.#failure ??= { error };
      for (const { reject } of group) reject(error);
    }
  }

  #retain(): void {
    const { directory, point, keepNs, maxBytes } = this.#options;
    this.#sinceRetained = 0;
    this.#retainedAt = performance.now();
    if (keepNs === undefined && maxBytes === undefined) return;
    this.removed += retain(directory, { keepNs, maxBytes }, { points: [point] }).removed;
  }
}

/** Parts of one epoch are put together by the estimator that made them. */
export function mergeBy(table: readonly Estimator[]): MergeRecords {
  return (stored, record) => {
    const estimator = table.find((e) => e.name === record.estimator && e.version === record.payloadVersion);
    if (!estimator) return null;
    try {
      return mergeParts(stored, record, estimator);
    } catch (error) {
      // Settings that differ, or payloads that do not fit together: named by the archive.
      if (error instanceof UsageError) return null;
      throw error;
    }
  };
}
