/**
 * Turns the messages of a worker's partitions into records: assembles parts, stores and estimates them in batches, and copies them to other
 * receivers. Unusable messages are set aside.
 */
import type { JsMsg } from "@nats-io/jetstream";
import { FormatError } from "../../base/errors.ts";
import { identityText, recordIdentity } from "../../epoch/identity.ts";
import { decodeHead, type RecordHead } from "../../epoch/record.ts";
import { frameRecord } from "../../transport/batch.ts";
import { publishPieces } from "../../transport/nats/nats-sink.ts";
import { endsOfLabel, homeOf, subjectOf } from "../../transport/nats/subjects.ts";
import type { Ingested } from "../ingest.ts";
import type { ClusterLink } from "./cluster-link.ts";
import type { WorkerParts } from "./cluster-part.ts";
import { Doubts } from "./doubts.ts";
import { type IncomingRecord, RecordAssembly } from "./incoming.ts";
import type { UnacknowledgedRecords } from "./unacknowledged.ts";

/** Most messages held here, waiting for their turn or for their rows. */
const MAX_OPEN = 20_000;
/**
 * Most of these that wait only for this worker's own processing: a few seconds of work. The rest stays in the stream, where a joining worker can
 * take them.
 */
const MAX_UNFINISHED = 4000;
const BATCH_RECORDS = 500;
const BATCH_BYTES = 32 << 20;
/** Time to wait for a batch to fill. Every batch passes through three threads, however few records it has, so small batches are costly. */
const GATHER_MS = 250;
/** A record delivered this often without being finished is in doubt (doubts.ts). */
const MAX_DELIVERIES = 4;
/** Parts of a record still incomplete after this time are set aside. */
const PARTS_MS = 600_000;
const COPIES_AT_ONCE = 256;
const RETRY_MS = 1000;
const MAX_RETRY_MS = 8000;

interface FencedRecord extends IncomingRecord {
  /** Fence of the lease under which the record arrived. */
  fence: number;
}

interface Copy {
  subject: string;
  bytes: Uint8Array;
  id: string;
}

interface TakenRecord {
  record: FencedRecord;
  head: RecordHead;
  copies: Copy[];
}

export interface RecordIntakeOptions {
  link: ClusterLink;
  unacknowledged: UnacknowledgedRecords;
  /** Null once the worker has ended. */
  parts: () => WorkerParts | null;
  /** Returns the fence of the partition's lease, or null if the partition is not this worker's (leases.ts). */
  fenceOf: (partition: number) => number | null;
  /** Called for each record with its point and label. */
  discover: (point: string, label: string) => void;
  /** Partitions of the receivers that the point sends to. */
  receiversOf: (point: string) => readonly number[];
  /** Number of row writes so far. */
  tick: () => number;
  /** Reports an error; null means the records were taken, or copied. */
  say: (error: unknown, what?: "copies") => void;
}

export class RecordIntake {
  readonly #options: RecordIntakeOptions;
  readonly #assembly = new RecordAssembly();
  readonly #doubts: Doubts;
  #queue: JsMsg[] = [];
  #working: Promise<void> | null = null;
  #room: (() => void)[] = [];
  /** Ends the gathering of a batch early. */
  #full: (() => void) | null = null;
  copied = 0;

  constructor(options: RecordIntakeOptions) {
    this.#options = options;
    this.#doubts = new Doubts(options.link);
  }

  /** Called after rows were written: lets waiting messages in if there is room. */
  letIn(): void {
    if (this.#hasRoom) for (const go of this.#room.splice(0)) go();
  }

  get #hasRoom(): boolean {
    const { size, unfinished } = this.#options.unacknowledged;
    return this.#queue.length + size < MAX_OPEN && this.#queue.length + unfinished < MAX_UNFINISHED;
  }

  /** Called when the partition has gone to another worker. */
  forget(partition: number): void {
    this.#assembly.forget(partition);
  }

  async setAsideIncomplete(): Promise<void> {
    for (const { messages, reason } of this.#assembly.incomplete(Date.now() - PARTS_MS))
      await this.#setAside(messages, reason);
  }

  /** Queues the message. Resolves when there is room for more. */
  async take(message: JsMsg): Promise<void> {
    this.#queue.push(message);
    this.#working ??= this.#work();
    if (this.#queue.length >= BATCH_RECORDS) this.#full?.();
    if (!this.#hasRoom) await new Promise<void>((resolve) => this.#room.push(resolve));
  }

  async #work(): Promise<void> {
    while (this.#queue.length > 0 && this.#options.parts()) {
      await this.#gather();
      const batch = this.#nextBatch();
      for (;;) {
        try {
          await this.#workBatch(batch);
          break;
        } catch (error) {
          // A disk or cluster error: retry as long as any of the messages is still this worker's.
          this.#options.say(error);
          if (!this.#options.parts() || !batch.some((m) => this.#fenceOf(m) !== null)) break;
          await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        }
      }
    }
    this.#working = null;
  }

  /** Waits briefly so that messages arriving close together are stored as one batch. */
  async #gather(): Promise<void> {
    if (this.#queue.length < BATCH_RECORDS)
      await new Promise<void>((resolve) => {
        this.#full = resolve;
        setTimeout(resolve, GATHER_MS);
      });
    this.#full = null;
  }

  #nextBatch(): JsMsg[] {
    let [bytes, n] = [0, 0];
    while (n < Math.min(this.#queue.length, BATCH_RECORDS) && bytes < BATCH_BYTES)
      bytes += this.#queue[n++]?.data.length ?? 0;
    return this.#queue.splice(0, n);
  }

  async #workBatch(messages: readonly JsMsg[]): Promise<void> {
    const isOld = (m: JsMsg) => m.info.deliveryCount > MAX_DELIVERIES;
    const old = messages.filter((m) => isOld(m) && !this.#isKnown(m));
    await this.#takeRecords(old.length === 0 ? messages : messages.filter((m) => !old.includes(m)));
    if (old.length === 0) return;
    const { work, aside } = await this.#doubts.judge(old.filter((m) => this.#fenceOf(m) !== null));
    for (const { message, reason } of aside) await this.#setAside([message], reason);
    for (const { messages: group, alone } of work) {
      await this.#doubts.begin(group);
      await this.#takeRecords(group);
      const survived = this.#twoTicks(group).then(() => this.#doubts.end(group));
      // If others ran beside it, a crash could not be attributed to one record.
      if (alone) await survived;
      else survived.catch(() => undefined);
    }
  }

  /** Whether this record is already being processed here. */
  #isKnown(message: JsMsg): boolean {
    const id = message.headers?.get("Nats-Msg-Id");
    return id !== undefined && this.#options.unacknowledged.has(partitionIn(message), id);
  }

  /** Resolves when the rows of the messages are made and written, or the partition has gone to another worker. */
  async #twoTicks(messages: readonly JsMsg[]): Promise<void> {
    const { parts, tick } = this.#options;
    for (const until = tick() + 2; tick() < until; ) {
      if (!parts() || !messages.some((m) => this.#fenceOf(m) !== null)) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  #fenceOf(message: JsMsg): number | null {
    return this.#options.fenceOf(partitionIn(message));
  }

  async #takeRecords(messages: readonly JsMsg[]): Promise<void> {
    const parts = this.#options.parts();
    if (!parts) return;
    const records: FencedRecord[] = [];
    for (const message of messages) {
      const fence = this.#fenceOf(message);
      if (fence === null) continue;
      const taken = this.#assembly.take(message);
      if (taken.kind === "unusable") await this.#setAside([message], taken.reason);
      if (taken.kind !== "record") continue;
      const { partition, id, messages: own } = taken.record;
      const elsewhere = this.#misplaced(taken.record);
      if (elsewhere !== null) {
        await this.#setAside(own, elsewhere, taken.record.bytes);
        continue;
      }
      if (!this.#options.unacknowledged.again(partition, id, own)) records.push({ ...taken.record, fence });
    }
    if (records.length === 0) return;
    await this.#ingest(parts, records);
    this.#options.say(null);
  }

  /** Returns why a record is in the wrong partition, or null. The owner of a wrong partition would wait for the other endpoint's records for ever. */
  #misplaced({ partition, point, label, id }: IncomingRecord): string | null {
    const { partitions } = this.#options.link.cluster;
    const home = homeOf(point, label, partitions);
    const isCopy = !endsOfLabel(label, point) && id.endsWith(copySuffix(partition));
    if (partition === home || isCopy) return null;
    return `it was published to partition ${partition}; of ${partitions}, it belongs to ${home}`;
  }

  async #ingest(parts: WorkerParts, records: readonly FencedRecord[]): Promise<void> {
    const { partitions } = this.#options.link.cluster;
    for (const { point, label } of records) this.#options.discover(point, label);
    const isAtHome = ({ partition, point, label }: IncomingRecord) =>
      partition === homeOf(point, label, partitions);
    // A copy made for another partition does not count as arrived.
    for (const atHome of [true, false]) {
      const own = records.filter((record) => isAtHome(record) === atHome);
      if (own.length === 0) continue;
      const message = Buffer.concat(own.flatMap(({ bytes }) => frameRecord(bytes)));
      const reports = new Map(own.flatMap(({ point, tap }) => (tap !== null ? [[point, tap]] : [])));
      const ingested = await parts.take(message, { reports, counts: atHome, places: own });
      await this.#taken(own, ingested);
    }
  }

  async #taken(records: readonly FencedRecord[], { results, accepted }: Ingested): Promise<void> {
    const taken = accepted.values();
    const done: TakenRecord[] = [];
    for (const [i, record] of records.entries()) {
      const { outcome = "refused", reason = "not stored" } = results[i] ?? {};
      const next = outcome === "refused" ? null : taken.next().value;
      if (!next) {
        await this.#setAside(record.messages, reason, record.bytes);
        continue;
      }
      done.push({ record, head: next.head, copies: this.#copies(record, next.head) });
    }
    const isCopied = await this.#copyAll(done);
    for (const { record, head, copies } of done) {
      const { partition, messages, id, fence } = record;
      // The lease was lost, or lost and gained again: the record will be delivered again.
      if (this.#options.fenceOf(partition) !== fence) continue;
      const name = identityText(recordIdentity(head));
      const orders = this.#options.parts()?.pairing.sent ?? Number.POSITIVE_INFINITY;
      this.#options.unacknowledged.add(id, {
        ...{ partition, fence, messages, name, orders },
        isCopied: isCopied || copies.length === 0,
      });
    }
    if (!isCopied) void this.#copyLater(done);
  }

  /** Whether all copies are in the stream, which may be full or unreachable. */
  async #copyAll(records: readonly TakenRecord[]): Promise<boolean> {
    const copies = records.flatMap((r) => r.copies);
    if (copies.length === 0) return true;
    try {
      await this.#copy(copies);
      this.#options.say(null, "copies");
      return true;
    } catch (error) {
      this.#options.say(error, "copies");
      return false;
    }
  }

  /** The records are not acknowledged before that; other records do not wait for them. */
  async #copyLater(records: readonly TakenRecord[]): Promise<void> {
    const { parts, fenceOf, unacknowledged } = this.#options;
    let pauseMs = RETRY_MS;
    for (let left = records; left.length > 0 && parts(); pauseMs = Math.min(MAX_RETRY_MS, 2 * pauseMs)) {
      await new Promise((resolve) => setTimeout(resolve, pauseMs).unref());
      left = left.filter(({ record }) => fenceOf(record.partition) === record.fence);
      if (!(await this.#copyAll(left))) continue;
      for (const { record } of left) unacknowledged.copied(record.partition, record.id);
      return;
    }
  }

  /** The copies of a record for the other partitions whose receivers its point sends to. */
  #copies({ partition, id, bytes }: IncomingRecord, { point, segment: label }: RecordHead): Copy[] {
    if (
      endsOfLabel(label, point) ||
      partition !== homeOf(point, label, this.#options.link.cluster.partitions)
    )
      return [];
    const others = new Set(this.#options.receiversOf(point));
    others.delete(partition);
    return [...others].map((other) => ({
      subject: subjectOf(other, point, label),
      bytes,
      id: `${id}${copySuffix(other)}`,
    }));
  }

  async #copy(copies: readonly Copy[]): Promise<void> {
    for (let at = 0; at < copies.length; at += COPIES_AT_ONCE) {
      const group = copies.slice(at, at + COPIES_AT_ONCE);
      const fresh = await Promise.all(
        group.map((copy) => publishPieces(this.#options.link, { ...copy, tap: null })),
      );
      this.copied += fresh.filter(Boolean).length;
    }
  }

  async #setAside(messages: readonly JsMsg[], reason: string, whole?: Uint8Array): Promise<void> {
    const [first] = messages;
    if (!first) return;
    const { subject, seq: sequence } = first;
    const line = await this.#options.link.aside.put({ subject, sequence, reason }, whole ?? first.data);
    if (line !== null) this.#options.parts()?.problem(line);
    for (const message of messages) message.ack();
  }

  keepAlive(): void {
    for (const message of this.#queue) if (this.#fenceOf(message) !== null) message.working();
    this.#options.unacknowledged.keepAlive(this.#options.fenceOf);
  }
}

const copySuffix = (partition: number) => `@${partition}`;

const partitionIn = ({ subject }: JsMsg) => Number(subject.split(".")[2]);

/** Returns the record's head, or an empty array if it is damaged. */
export function headIn(bytes: Uint8Array): RecordHead[] {
  try {
    return [decodeHead(bytes).head];
  } catch (error) {
    if (error instanceof FormatError) return [];
    throw error;
  }
}
