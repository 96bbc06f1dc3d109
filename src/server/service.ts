/**
 * A collector's own parts, wired together: the archive that records are stored in, and what answers from it. HTTP is around it (app.ts), files below it:
 *
 *   DIR/records/       the archive (docs/formats/archive.md)
 *   DIR/tokens.json    hashes of the tokens
 *   DIR/.lock          held while a collector runs
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { RecordArchive } from "../archive/archive.ts";
import { type DirectoryLock, lockDirectory } from "../archive/exclusive.ts";
import { UsageError } from "../base/errors.ts";
import { VERSION } from "../base/version.ts";
import type { Estimator } from "../estimators/estimator.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import { Asker } from "./asker.ts";
import { Ingest, type Ingested } from "./ingest.ts";
import type { ArchiveQuestion } from "./questions.ts";
import { type TapState, TapStates } from "./tap-states.ts";
import { TokenStore, tokenFile } from "./tokens.ts";

export interface ServiceOptions {
  /** Made where it is missing. */
  data: string;
  table?: readonly Estimator[];
  now?: () => bigint;
  /** Longest time of one question, ms (default 30 s). */
  questionMs?: number;
  onLog?: (text: string) => void;
}

export interface ServiceCounts {
  messages: number;
  stored: number;
  unchanged: number;
  replaced: number;
  merged: number;
  refused: number;
  bytes: number;
  questions: number;
  failedQuestions: number;
}

const QUESTION_MS = 30_000;
const MAX_WAITING = 64;

export class CollectorService {
  readonly tokens: TokenStore;
  readonly counts: ServiceCounts = {
    ...{ messages: 0, stored: 0, unchanged: 0, replaced: 0, merged: 0, refused: 0, bytes: 0 },
    ...{ questions: 0, failedQuestions: 0 },
  };
  readonly #archive: RecordArchive;
  readonly #lock: DirectoryLock;
  readonly #ingest: Ingest;
  readonly #asker: Asker;
  readonly #taps = new TapStates();
  readonly #startedMs = Date.now();

  private constructor(options: ServiceOptions, archive: RecordArchive, lock: DirectoryLock) {
    const { data, table = ESTIMATORS, now, questionMs = QUESTION_MS, onLog } = options;
    this.#archive = archive;
    this.#lock = lock;
    this.tokens = new TokenStore(tokenFile(data));
    this.#ingest = new Ingest(archive, table, now ? { now } : {});
    this.#asker = new Asker({
      ...{ directory: archive.directory, limitMs: questionMs, maxWaiting: MAX_WAITING },
      ...(onLog ? { onError: onLog } : {}),
    });
  }

  /** UsageError where another collector has the directory, or it cannot be written. */
  static async open(options: ServiceOptions): Promise<CollectorService> {
    const { data } = options;
    try {
      mkdirSync(data, { recursive: true, mode: 0o750 });
    } catch (cause) {
      throw new UsageError(
        "not-writable",
        `${data}: cannot be made (${(cause as Error).message})`,
        undefined,
        { cause },
      );
    }
    const lock = await lockDirectory(data, "collector");
    try {
      return new CollectorService(options, await RecordArchive.create(join(data, "records")), lock);
    } catch (error) {
      await lock.release();
      throw error;
    }
  }

  /** When it resolves, what was not refused is on disk. */
  async ingest(message: Uint8Array, point: string | null, tap: string | null): Promise<Ingested> {
    const ingested = await this.#ingest.take(message, point);
    this.counts.messages++;
    this.counts.bytes += message.length;
    for (const { outcome } of ingested.results) this.counts[outcome]++;
    this.#taps.take(ingested.accepted, tap);
    return ingested;
  }

  async ask(asked: ArchiveQuestion): Promise<string> {
    this.counts.questions++;
    try {
      return await this.#asker.ask(asked);
    } catch (error) {
      this.counts.failedQuestions++;
      throw error;
    }
  }

  points(): { name: string; tap: TapState | null }[] {
    return this.#archive.points().map((name) => ({ name, tap: this.#taps.of(name) }));
  }

  health(): Record<string, unknown> {
    const { rss, heapUsed } = process.memoryUsage();
    const upSeconds = Math.round((Date.now() - this.#startedMs) / 1000);
    return {
      status: "ok",
      hoptime: VERSION,
      upSeconds,
      records: { ...this.counts },
      memory: { rss, heapUsed },
      taps: this.#taps.all(),
    };
  }

  async close(): Promise<void> {
    await this.#asker.close();
    this.#archive.close();
    await this.#lock.release();
  }
}
