/**
 * Fetches records that the stream has and this worker's archive may lack: when a question needs them, or when a row would otherwise be incomplete.
 * A worker's archive is complete for a subject from some time on; of the time before, it has only what this worker processed itself. Records arrive
 * after their epochs end, so reading from an epoch's beginning finds all of its records.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import type { JsMsg } from "@nats-io/jetstream";
import { recordPath } from "../../archive/names.ts";
import { FormatError } from "../../base/errors.ts";
import { turnEvery } from "../../base/turn.ts";
import { decodeHead, type RecordHead } from "../../epoch/record.ts";
import { frameRecord } from "../../transport/batch.ts";
import { STREAM } from "../../transport/nats/cluster.ts";
import type { NatsLink } from "../../transport/nats/connection.ts";
import type { Ingested, StreamPlace } from "../ingest.ts";
import { type IncomingRecord, RecordAssembly } from "./incoming.ts";
import { readPast } from "./stream-reader.ts";

/** Allowance for tap clocks that run ahead of the servers' clocks. */
const AHEAD_MS = 60_000;

interface Known {
  /** The archive has everything from this time … */
  sinceMs: number;
  /** … up to this sequence. */
  sequence: number;
}

type StoreRecords = (message: Uint8Array, places: readonly StreamPlace[]) => Promise<Ingested>;

export class PastRecords {
  readonly #link: NatsLink;
  readonly #directory: string;
  readonly #store: StoreRecords;
  readonly #known = new Map<string, Known>();
  #reading: Promise<void> = Promise.resolve();
  readonly #stop = new AbortController();

  /** `directory`: the archive's. */
  constructor(link: NatsLink, directory: string, store: StoreRecords) {
    this.#link = link;
    this.#directory = directory;
    this.#store = store;
  }

  close(): void {
    this.#stop.abort();
  }

  /** Called when the stream has been replaced by a new one with its own sequences. */
  forget(): void {
    this.#known.clear();
  }

  /**
   * Resolves when all records of the subject whose epochs begin at or after this time are in the archive. Requests run one at a time: what one
   * fetched, the next finds.
   */
  fetch(subject: string, fromMs: number): Promise<void> {
    const next = this.#reading.then(() => this.#fetch(subject, Math.max(0, fromMs - AHEAD_MS)));
    this.#reading = next.catch(() => undefined);
    return next;
  }

  async #fetch(subject: string, fromMs: number): Promise<void> {
    const last = await this.#link.streams.streams.getMessage(STREAM, { last_by_subj: subject });
    if (!last) return;
    const known = this.#known.get(subject);
    const enough = known !== undefined && known.sinceMs <= fromMs;
    if (enough && known.sequence >= last.seq) return;
    const range = enough ? { fromSequence: known.sequence + 1 } : { fromMs };
    const { signal } = this.#stop;
    const past = { filter: subject, ...range, toSequence: last.seq, signal };
    const assembly = new RecordAssembly();
    await readPast(this.#link, past, async (messages) => {
      await this.store(messages, assembly);
    });
    if (!signal.aborted)
      this.#known.set(subject, { sinceMs: enough ? known.sinceMs : fromMs, sequence: last.seq });
  }

  /**
   * Stores the messages' records in the archive. Invalid ones are skipped here; they are reported where they are worked. Returns the heads of
   * records that changed an existing one.
   */
  async store(messages: readonly JsMsg[], assembly: RecordAssembly): Promise<RecordHead[]> {
    const changed: RecordHead[] = [];
    const records: IncomingRecord[] = [];
    const turn = turnEvery(30);
    for (const message of messages) {
      await turn();
      const taken = assembly.take(message);
      if (taken.kind === "record" && !this.#isThere(taken.record.bytes)) records.push(taken.record);
    }
    for (const group of groupsOf(records)) {
      const message = Buffer.concat(group.flatMap(({ bytes }) => frameRecord(bytes)));
      const { accepted } = await this.#store(message, group);
      changed.push(...accepted.filter(({ settled }) => settled).map(({ head }) => head));
    }
    return changed;
  }

  /** Whether the archive has the record as it came. A stored record that was merged with others has another size, so this one is stored again. */
  #isThere(bytes: Uint8Array): boolean {
    try {
      const path = join(this.#directory, ...recordPath(decodeHead(bytes).head));
      return statSync(path, { throwIfNoEntry: false })?.size === bytes.length;
    } catch (error) {
      if (error instanceof FormatError) return false;
      throw error;
    }
  }
}

const GROUP_BYTES = 16 << 20;
const GROUP_RECORDS = 1000;

function groupsOf(records: readonly IncomingRecord[]): IncomingRecord[][] {
  const groups: IncomingRecord[][] = [];
  let bytes = 0;
  for (const record of records) {
    const last = groups.at(-1);
    bytes += record.bytes.length;
    if (last && bytes <= GROUP_BYTES && last.length < GROUP_RECORDS) last.push(record);
    else {
      groups.push([record]);
      bytes = record.bytes.length;
    }
  }
  return groups;
}
