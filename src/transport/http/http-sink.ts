/**
 * Records to a collector over HTTP. A record is durable in the spool (spool.ts) when `put` resolves; from there it is sent in order, in batches, until the collector has
 * acknowledged it. The collector recognises records by their identity, so one that is sent twice (a kill before its answer was noted) counts once.
 *
 * Where the collector is away, records wait; the oldest make room when the spool is full, and are counted. Where the disk is full too, new ones are dropped and counted:
 * a tap goes on. What the collector refuses is counted and named, and what it cannot even read is set aside beside the spool.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { StoreOutcome } from "../../archive/writer.ts";
import { UsageError } from "../../base/errors.ts";
import { VERSION } from "../../base/version.ts";
import { type EncodeOptions, type EpochRecord, encodeRecord } from "../../epoch/record.ts";
import { BATCH_TYPE, splitBatch } from "../batch.ts";
import type { Endpoint } from "./collector-url.ts";
import { HttpClient, type Reply } from "./request.ts";
import { Spool, type SpoolFile } from "./spool.ts";

export interface HttpSinkOptions extends Endpoint {
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

export interface HttpSinkCounts {
  /** The collector has them; `unchanged` of those: had them before. */
  sent: number;
  unchanged: number;
  refused: number;
  /** Given up for want of room: the oldest of the spool, or those that the disk did not take. */
  dropped: number;
  /** Wait in the spool. */
  waiting: number;
  waitingBytes: number;
}

const MAX_SPOOL_BYTES = 1e9;
const STOP_MS = 10_000;
const RETRY_MS = [250, 15_000] as const;
const BATCH_BYTES = 8 << 20;
const BATCH_RECORDS = 2000;
/** Encoded records in memory that wait for the disk: `put` of more is given up. */
const MAX_MEMORY_BYTES = 64 << 20;
const MAX_REASONS = 20;
const REQUEST_MS = 60_000;

interface Waiting {
  bytes: Uint8Array;
  resolve: (outcome: StoreOutcome) => void;
}

const compress = promisify(gzip);

export class HttpSink {
  readonly #options: HttpSinkOptions;
  readonly #client: HttpClient;
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
  /** Batches until packing is tried again, where it did not pay. */
  #unpacked = 0;

  private constructor(options: HttpSinkOptions) {
    this.#options = options;
    this.#client = new HttpClient(options);
  }

  /** The spool is made where it is missing; what an earlier run left in it is sent first. */
  static async open(options: HttpSinkOptions): Promise<HttpSink> {
    const sink = new HttpSink(options);
    sink.#spool = await Spool.open(options.spoolDirectory, options.maxSpoolBytes ?? MAX_SPOOL_BYTES);
    sink.#sending = sink.#sendAll(sink.#spool);
    return sink;
  }

  get counts(): HttpSinkCounts {
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

  /** Why records were refused: the first few. */
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
    this.#client.close();
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
      // Many taps that lost one collector must not come back at the same moment.
      const ms = Math.max(afterMs, pauseMs) * (0.5 + Math.random() / 2);
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
      const held = files.reduce(
        (sum, f) => ({ records: sum.records + f.records, bytes: sum.bytes + f.bytes }),
        { records: 0, bytes: 0 },
      );
      const reply = await this.#post(body, held);
      return this.#take(spool, files, reply);
    } catch (error) {
      if (!this.#stop.signal.aborted)
        this.#say(`${this.#client.url}: ${(error as Error).message}; records wait in the spool`);
      return 0;
    } finally {
      spool.release(files);
    }
  }

  async #post(body: Buffer, held: { records: number; bytes: number }): Promise<Reply> {
    const { dropped, refused, ...left } = this.counts;
    // Behind this message.
    const [waiting, waitingBytes] = [left.waiting - held.records, left.waitingBytes - held.bytes];
    const headers: Record<string, string> = {
      "content-type": BATCH_TYPE,
      "hoptime-tap": JSON.stringify({ hoptime: VERSION, waiting, waitingBytes, dropped, refused }),
    };
    let sent = body;
    if (this.#unpacked > 0) this.#unpacked--;
    else {
      // Most payloads are packed already: where packing gains little it is left for a while.
      const packed = await compress(body, { level: 1 });
      if (packed.length < 0.9 * body.length) {
        headers["content-encoding"] = "gzip";
        sent = packed;
      } else this.#unpacked = 31;
    }
    return await this.#client.send({
      ...{ method: "POST", path: "/v1/records", headers, body: sent },
      ...{ timeoutMs: REQUEST_MS, maxBytes: 4 << 20, signal: this.#stop.signal },
    });
  }

  #take(spool: Spool, files: readonly SpoolFile[], { status, headers, body }: Reply): number | null {
    if (status === 200) {
      this.#count(JSON.parse(body.toString()) as IngestReply);
      spool.done(files);
      this.#batchBytes = Math.min(BATCH_BYTES, 2 * this.#batchBytes);
      if (this.#trouble !== null) this.#say(null);
      return null;
    }
    const why = reasonOf(body) ?? `status ${status}`;
    const [only, ...more] = files;
    if (only && (status === 413 || status === 400)) {
      // Smaller ones first: what is left in the end is one file that the collector does not take.
      if (more.length > 0) {
        this.#batchBytes = Math.max(1, Math.floor(this.#batchBytes / 4));
        return null;
      }
      this.#refused += only.records;
      this.#note(`${spool.setAside(only)}: ${why}`);
      return null;
    }
    this.#say(`${this.#client.url}: ${why}; records wait in the spool`);
    const after = Number(headers["retry-after"] ?? 0);
    return Number.isFinite(after) ? Math.min(60_000, 1000 * after) : 0;
  }

  #count({ results }: IngestReply): void {
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

  #note(reason: string): void {
    if (this.#reasons.length < MAX_REASONS) this.#reasons.push(reason);
  }

  /** Each trouble is said once, and when it is over. */
  #say(trouble: string | null): void {
    if (trouble === this.#trouble) return;
    this.#trouble = trouble;
    this.#options.onState?.(trouble ?? `${this.#client.url}: accepts records again`);
  }
}

/** As POST /v1/records answers. */
export interface IngestReply {
  results: { outcome: StoreOutcome["outcome"]; reason?: string }[];
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

function reasonOf(body: Buffer): string | null {
  try {
    const { message } = JSON.parse(body.toString()) as { message?: unknown };
    return typeof message === "string" ? message.slice(0, 300) : null;
  } catch {
    return null;
  }
}
