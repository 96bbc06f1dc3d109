/**
 * Stores records in an archive directory. Records are written in groups, because syncing a group costs little more than syncing one, but at most a
 * second after they were sealed. The directory is created with the first records, so a refused observation leaves nothing behind. Retention limits
 * for the point are applied during writing.
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
  /** The point whose records the limits apply to. */
  point: string;
  /** Removes records that ended longer than this before the newest. */
  keepNs?: bigint | undefined;
  maxBytes?: number | undefined;
  /** Estimators, for merging parts of an epoch. */
  table?: readonly Estimator[];
  /** Longest time that a sealed record may wait before it is written, ms. */
  maxAgeMs?: number;
}

const GROUP_RECORDS = 64;
const GROUP_BYTES = 8 << 20;
const MAX_AGE_MS = 1000;
/** Limits are applied after this many records, or this much time. */
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

  /** Writes one group after the other. Never rejects; the promises of the records do. */
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

/** Returns a function that merges parts of an epoch with the estimator that made them. */
export function mergeBy(table: readonly Estimator[]): MergeRecords {
  return (stored, record) => {
    const estimator = table.find((e) => e.name === record.estimator && e.version === record.payloadVersion);
    if (!estimator) return null;
    try {
      return mergeParts(stored, record, estimator);
    } catch (error) {
      // Different settings, or payloads that do not fit together: the archive reports it.
      if (error instanceof UsageError) return null;
      throw error;
    }
  };
}
