/**
 * Sends records to a remote receiver, through a spool. A record is durable in the spool (spool.ts) when `put` resolves; from there it is sent in order, in
 * batches, until the receiver has acknowledged it (a Delivery: http/http-sink.ts, nats/nats-sink.ts). The receiver recognises records by their identity, so one
 * that is sent twice (a kill before its answer was recorded) counts once.
 *
 * While the receiver is unreachable, records wait; when the spool is full the oldest are dropped, and counted. If the disk is full, too, new ones are dropped
 * and counted: a tap continues. Refused records are counted and reported, and what the receiver cannot even read is kept next to the spool.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { StoreOutcome } from "../archive/writer.ts";
import { UsageError } from "../base/errors.ts";
import { type EncodeOptions, type EpochRecord, encodeRecord } from "../epoch/record.ts";
import { splitBatch } from "./batch.ts";
import { Spool, type SpoolFile } from "./spool.ts";

export interface SpooledSinkOptions {
  spoolDirectory: string;
  /** Maximum size on disk (default 1 GB). */
  maxSpoolBytes?: number | undefined;
  /** How long `close` continues sending (default 10 s); the rest stays in the spool for the next run. */
  stopMs?: number | undefined;
  /** First and longest pause between two attempts, ms. */
  retryMs?: readonly [number, number];
  /** Called with a sentence when a problem occurs, and when it ends. */
  onState?: (text: string) => void;
}

export interface SpooledSinkCounts {
  /** Accepted by the receiver; `unchanged`: those of them that it already had. */
  sent: number;
  unchanged: number;
  refused: number;
  /** Dropped for lack of space: the oldest of the spool, or those that the disk did not accept. */
  dropped: number;
  /** Waiting in the spool. */
  waiting: number;
  waitingBytes: number;
}

/** A tap's report about itself, sent with each message. */
export type SpoolReport = Pick<SpooledSinkCounts, "waiting" | "waitingBytes" | "dropped" | "refused">;

/** Outcome of a message of records. */
export type Delivered =
  | { kind: "taken"; results: readonly { outcome: StoreOutcome["outcome"]; reason?: string }[] }
  /** Not in this form: it is retried in smaller parts, and a single file that is still refused is set aside. */
  | { kind: "refused"; reason: string }
  | { kind: "later"; reason: string; afterMs: number };

/** How a message of records (batch.ts) reaches the receiver. */
export interface Delivery {
  /** Name for messages. */
  readonly url: string;
  /** Rejects if there is no answer. `report`: state of the spool after this message. */
  send(body: Buffer, report: SpoolReport, signal: AbortSignal): Promise<Delivered>;
  close(): Promise<void>;
}

const MAX_SPOOL_BYTES = 1e9;
const STOP_MS = 10_000;
const RETRY_MS = [250, 15_000] as const;
const BATCH_BYTES = 8 << 20;
const BATCH_RECORDS = 2000;
/** Maximum size of encoded records in memory waiting for the disk: a `put` beyond it is dropped. */
const MAX_MEMORY_BYTES = 64 << 20;
const MAX_REASONS = 20;

interface Waiting {
  bytes: Uint8Array;
  resolve: (outcome: StoreOutcome) => void;
}

export class SpooledSink {
  readonly #options: SpooledSinkOptions;
  readonly #delivery: Delivery;
  readonly #reasons: string[] = [];
  #spool: Spool | null = null;
  #waiting: Waiting[] = [];
  #memoryBytes = 0;
  #shed = 0;
  #sent = 0;
  #unchanged = 0;
  #refused = 0;
  #writing: Promise<void> = Promise.resolve();
  #sending: Promise<void> | null = null;
  readonly #stop = new AbortController();
  #wake: (() => void) | null = null;
  #closing = false;
  #trouble: string | null = null;
  #batchBytes = BATCH_BYTES;

  /** Sends nothing before `start`. */
  constructor(options: SpooledSinkOptions, delivery: Delivery) {
    this.#options = options;
    this.#delivery = delivery;
  }

  /** Creates the spool if needed; sends what an earlier run left in it first. */
  async start(): Promise<void> {
    const { spoolDirectory, maxSpoolBytes = MAX_SPOOL_BYTES } = this.#options;
    const spool = await Spool.open(spoolDirectory, maxSpoolBytes);
    this.#spool = spool;
    this.#sending = this.#sendAll(spool);
  }

  get counts(): SpooledSinkCounts {
    const spool = this.#spool;
    return {
      sent: this.#sent,
      unchanged: this.#unchanged,
      refused: this.#refused,
      dropped: this.#shed + (spool?.dropped ?? 0),
      waiting: spool?.records ?? 0,
      waitingBytes: spool?.bytes ?? 0,
    };
  }

  /** Why records were refused: the first few reasons, each once. */
  get refusals(): readonly string[] {
    return this.#reasons;
  }

  put(record: EpochRecord, options?: EncodeOptions): Promise<StoreOutcome> {
    const bytes = encodeRecord(record, options);
    if (this.#memoryBytes + bytes.length > MAX_MEMORY_BYTES && this.#memoryBytes > 0)
      return Promise.resolve(this.#giveUp(1, "the disk is too slow for the spool"));
    this.#memoryBytes += bytes.length;
    return new Promise((resolve) => {
      this.#waiting.push({ bytes, resolve });
      if (this.#waiting.length === 1) this.#writing = this.#writing.then(() => this.#write());
    });
  }

  async flush(): Promise<void> {
    await this.#writing;
  }

  /** Makes everything durable in the spool, and sends as much as the time limit allows. */
  async close(): Promise<void> {
    await this.flush();
    this.#closing = true;
    this.#wake?.();
    const limit = setTimeout(() => this.#stop.abort(), this.#options.stopMs ?? STOP_MS);
    await this.#sending;
    clearTimeout(limit);
    await this.#delivery.close();
    await this.#spool?.close();
  }

  /** Writes all records that came while the last group was written as one group. */
  async #write(): Promise<void> {
    const group = this.#waiting;
    this.#waiting = [];
    const spool = this.#spool;
    if (!spool || group.length === 0) return;
    for (const file of filesOf(group)) {
      try {
        await appendOrMakeRoom(
          spool,
          file.map((w) => w.bytes),
        );
        for (const { resolve, bytes } of file) resolve({ outcome: "stored", bytes: bytes.length });
        this.#wake?.();
      } catch (error) {
        const outcome = this.#giveUp(
          file.length,
          `the spool cannot be written (${(error as Error).message})`,
        );
        for (const { resolve } of file) resolve(outcome);
      } finally {
        this.#memoryBytes -= file.reduce((n, w) => n + w.bytes.length, 0);
      }
    }
  }

  #giveUp(records: number, why: string): StoreOutcome {
    this.#shed += records;
    this.#say(`records are dropped: ${why}`);
    return {
      outcome: "refused",
      reason: new UsageError("not-writable", `${this.#options.spoolDirectory}: ${why}`, "make room"),
    };
  }

  async #sendAll(spool: Spool): Promise<void> {
    const [first, longest] = this.#options.retryMs ?? RETRY_MS;
    let pauseMs = first;
    while (!this.#stop.signal.aborted) {
      if (spool.files === 0) {
        if (this.#closing) return;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        this.#wake = null;
        continue;
      }
      const afterMs = await this.#sendNext(spool);
      if (afterMs === null) {
        pauseMs = first;
        continue;
      }
      // Many taps that lost one collector must not return at the same moment, nor earlier than it asked for.
      const ms = Math.max(afterMs * (1 + Math.random() / 4), pauseMs * (0.5 + Math.random() / 2));
      pauseMs = Math.min(longest, 2 * pauseMs);
      await sleep(ms, undefined, { signal: this.#stop.signal }).catch(() => undefined);
    }
  }

  /** Returns null if it was accepted; else the minimum time to wait, ms. */
  async #sendNext(spool: Spool): Promise<number | null> {
    const files = spool.take(this.#batchBytes, BATCH_RECORDS);
    try {
      const body = readBatch(spool, files);
      if (body.length === 0) {
        spool.done(files);
        return null;
      }
      const delivered = await this.#delivery.send(body, this.#behind(files), this.#stop.signal);
      return this.#take(spool, files, delivered);
    } catch (error) {
      if (!this.#stop.signal.aborted)
        this.#say(`${this.#delivery.url}: ${(error as Error).message}; records wait in the spool`);
      return 0;
    } finally {
      spool.release(files);
    }
  }

  /** State of the spool after these files are sent. */
  #behind(files: readonly SpoolFile[]): SpoolReport {
    const { dropped, refused, waiting, waitingBytes } = this.counts;
    const sum = (of: (file: SpoolFile) => number) => files.reduce((n, file) => n + of(file), 0);
    return {
      ...{ waiting: waiting - sum((f) => f.records), waitingBytes: waitingBytes - sum((f) => f.bytes) },
      ...{ dropped, refused },
    };
  }

  #take(spool: Spool, files: readonly SpoolFile[], delivered: Delivered): number | null {
    if (delivered.kind === "taken") {
      this.#count(delivered.results);
      spool.done(files);
      this.#batchBytes = Math.min(BATCH_BYTES, 2 * this.#batchBytes);
      if (this.#trouble !== null) this.#say(null);
      return null;
    }
    const [only, ...more] = files;
    if (only && delivered.kind === "refused") {
      // Smaller ones first: in the end a single file is left that the receiver does not accept.
      if (more.length > 0) {
        this.#batchBytes = Math.max(1, Math.floor(this.#batchBytes / 4));
        return null;
      }
      this.#refused += only.records;
      this.#note(`${spool.setAside(only)}: ${delivered.reason}`);
      return null;
    }
    this.#say(`${this.#delivery.url}: ${delivered.reason}; records wait in the spool`);
    return delivered.kind === "later" ? delivered.afterMs : 0;
  }

  #count(results: (Delivered & { kind: "taken" })["results"]): void {
    for (const { outcome, reason } of results) {
      if (outcome === "refused") {
        this.#refused++;
        this.#note(reason ?? "refused");
        continue;
      }
      this.#sent++;
      if (outcome === "unchanged") this.#unchanged++;
    }
  }

  /**
   * A tap that runs for days must report at once that its records are not kept; a reason that recurs with every record is reported once, ignoring times in it.
   */
  #note(reason: string): void {
    if (this.#reasons.length === MAX_REASONS) return;
    const kind = reason.replace(/\d+/g, "0");
    if (this.#reasons.some((known) => known.replace(/\d+/g, "0") === kind)) return;
    this.#reasons.push(reason);
    this.#options.onState?.(`${this.#delivery.url}: refuses records: ${reason}`);
  }

  /** Reports each problem once, and when it is over. */
  #say(trouble: string | null): void {
    if (trouble === this.#trouble) return;
    this.#trouble = trouble;
    this.#options.onState?.(trouble ?? `${this.#delivery.url}: accepts records again`);
  }
}

/** Groups records into files; a file is sent whole. */
function filesOf(group: readonly Waiting[]): Waiting[][] {
  const files: Waiting[][] = [];
  let room = 0;
  for (const each of group) {
    room -= each.bytes.length;
    const last = files.at(-1);
    if (last && room >= 0 && last.length < BATCH_RECORDS) last.push(each);
    else {
      files.push([each]);
      room = BATCH_BYTES - each.bytes.length;
    }
  }
  return files;
}

/** If the disk is full, the oldest records are dropped for new ones, as when the spool itself is full. */
async function appendOrMakeRoom(spool: Spool, records: readonly Uint8Array[]): Promise<void> {
  for (;;) {
    try {
      await spool.append(records);
      return;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if ((code !== "ENOSPC" && code !== "EDQUOT") || !spool.dropOldest()) throw error;
    }
  }
}

/** Returns the complete records of the files; a file truncated by a kill ends with its last complete record. */
function readBatch(spool: Spool, files: readonly SpoolFile[]): Buffer {
  const parts = files.map((file) => {
    const bytes = spool.read(file);
    const { records } = splitBatch(bytes, file.path);
    const last = records.at(-1);
    return last ? bytes.subarray(0, last.offset + last.bytes.length) : bytes.subarray(0, 0);
  });
  return parts.length === 1 && parts[0] ? parts[0] : Buffer.concat(parts);
}
