/**
 * Records to somebody far away, through a spool. A record is durable in the spool (spool.ts) when `put` resolves; from there it is sent in order, in batches, until the other side has acknowledged it
 * (a Delivery: http/http-sink.ts, nats/nats-sink.ts). The other side recognises records by their identity, so one that is sent twice (a kill before its answer was noted) counts once.
 *
 * Where the other side is away, records wait; the oldest make room when the spool is full, and are counted. Where the disk is full too, new ones are dropped and counted:
 * a tap goes on. What is refused is counted and named, and what cannot even be read there is set aside beside the spool.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { StoreOutcome } from "../archive/writer.ts";
import { UsageError } from "../base/errors.ts";
import { type EncodeOptions, type EpochRecord, encodeRecord } from "../epoch/record.ts";
import { splitBatch } from "./batch.ts";
import { Spool, type SpoolFile } from "./spool.ts";

export interface SpooledSinkOptions {
  spoolDirectory: string;
  /** That may wait on disk (default 1 GB). */
  maxSpoolBytes?: number | undefined;
  /** How long `close` goes on sending (default 10 s); what is left waits in the spool for the next run. */
  stopMs?: number | undefined;
  /** First and longest pause between two attempts, ms. */
  retryMs?: readonly [number, number];
  /** Trouble, and its end, in a sentence. */
  onState?: (text: string) => void;
}

export interface SpooledSinkCounts {
  /** The other side has them; `unchanged` of those: had them before. */
  sent: number;
  unchanged: number;
  refused: number;
  /** Given up for want of room: the oldest of the spool, or those that the disk did not take. */
  dropped: number;
  /** Wait in the spool. */
  waiting: number;
  waitingBytes: number;
}

/** What a tap says of itself with each message. */
export type SpoolReport = Pick<SpooledSinkCounts, "waiting" | "waitingBytes" | "dropped" | "refused">;

/** What became of a message of records. */
export type Delivered =
  | { kind: "taken"; results: readonly { outcome: StoreOutcome["outcome"]; reason?: string }[] }
  /** Not in this form: it is tried in smaller parts, and one file that is still not taken is set aside. */
  | { kind: "refused"; reason: string }
  | { kind: "later"; reason: string; afterMs: number };

/** How a message of records (batch.ts) reaches the other side. */
export interface Delivery {
  /** As messages name it. */
  readonly url: string;
  /** Rejects where there is no answer. `report`: what is behind this message. */
  send(body: Buffer, report: SpoolReport, signal: AbortSignal): Promise<Delivered>;
  close(): Promise<void>;
}

const MAX_SPOOL_BYTES = 1e9;
const STOP_MS = 10_000;
const RETRY_MS = [250, 15_000] as const;
const BATCH_BYTES = 8 << 20;
const BATCH_RECORDS = 2000;
/** Encoded records in memory that wait for the disk: `put` of more is given up. */
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

  /** The spool is made where it is missing; what an earlier run left in it is sent first. */
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

  /** Everything is durable in the spool, and sent as far as the limit allows. */
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

  /** All that came while the last group was written is one group. */
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
      // Many taps that lost one collector must not come back at the same moment, nor earlier than it asked for.
      const ms = Math.max(afterMs * (1 + Math.random() / 4), pauseMs * (0.5 + Math.random() / 2));
      pauseMs = Math.min(longest, 2 * pauseMs);
      await sleep(ms, undefined, { signal: this.#stop.signal }).catch(() => undefined);
    }
  }

  /** Null where it was taken; else how long to wait at least, ms. */
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

  /** What is left when these files are sent. */
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
      // Smaller ones first: what is left in the end is one file that the other side does not take.
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

  /** A tap that runs for days says at once that what it measures is not kept; a reason that comes with every record, once, whatever time it names. */
  #note(reason: string): void {
    if (this.#reasons.length === MAX_REASONS) return;
    const kind = reason.replace(/\d+/g, "0");
    if (this.#reasons.some((known) => known.replace(/\d+/g, "0") === kind)) return;
    this.#reasons.push(reason);
    this.#options.onState?.(`${this.#delivery.url}: refuses records: ${reason}`);
  }

  /** Each trouble is said once, and when it is over. */
  #say(trouble: string | null): void {
    if (trouble === this.#trouble) return;
    this.#trouble = trouble;
    this.#options.onState?.(trouble ?? `${this.#delivery.url}: accepts records again`);
  }
}

/** What goes into one file: it is sent whole. */
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

/** A full disk: what waits longest makes room for what is new, as when the spool itself is full. */
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

/** What is whole in the files; one that was cut by a kill ends with its last whole record. */
function readBatch(spool: Spool, files: readonly SpoolFile[]): Buffer {
  const parts = files.map((file) => {
    const bytes = spool.read(file);
    const { records } = splitBatch(bytes, file.path);
    const last = records.at(-1);
    return last ? bytes.subarray(0, last.offset + last.bytes.length) : bytes.subarray(0, 0);
  });
  return parts.length === 1 && parts[0] ? parts[0] : Buffer.concat(parts);
}
