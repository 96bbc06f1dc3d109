/** Messages whose records are not in the results yet, or wait for their other end: acknowledged when they are. */
import type { JsMsg } from "@nats-io/jetstream";
import type { Leases } from "./leases.ts";

export interface Unacknowledged {
  partition: number;
  /** Of the lease that it came under. */
  fence: number;
  /** Of the record (epoch/identity.ts). */
  name: string;
  messages: JsMsg[];
  /** Orders that the pairing had been sent when it had been handed to it. */
  orders: number;
  sinceMs: number;
  /** When it was last reported to the cluster as worked on. */
  reportedMs: number;
}

export interface Open {
  /** For its other end, which may never come; for rows that are still to be made of it, however long that takes; for nothing. */
  waitsFor(record: Unacknowledged): "end" | "rows" | null;
  /** Rows of its partition are not in the results: its lease is late. */
  isUnwritten(record: Unacknowledged): boolean;
}

/** A record waits this long for its other end in the stream; after that it waits in the archive alone. */
const LONGEST_MS = 600_000;

export class UnacknowledgedRecords {
  readonly #records = new Map<string, Unacknowledged>();
  readonly #ackWaitMs: number;
  #messages = 0;
  /** Of these, the ones whose rows are still to be made or written; those that wait for their other end are none. */
  #unfinished = 0;
  acknowledged = 0;

  constructor(ackWaitMs: number) {
    this.#ackWaitMs = ackWaitMs;
  }

  get size(): number {
    return this.#messages;
  }

  get unfinished(): number {
    return this.#unfinished;
  }

  of(partition: number): number {
    let n = 0;
    for (const record of this.#records.values()) if (record.partition === partition) n++;
    return n;
  }

  has(partition: number, id: string): boolean {
    return this.#records.has(`${partition} ${id}`);
  }

  /** It is delivered again: the newer messages are those to acknowledge. */
  again(partition: number, id: string, messages: JsMsg[]): boolean {
    const known = this.#records.get(`${partition} ${id}`);
    if (!known) return false;
    this.#messages += messages.length - known.messages.length;
    known.messages = messages;
    known.reportedMs = Date.now();
    return true;
  }

  add(id: string, record: Omit<Unacknowledged, "sinceMs" | "reportedMs">): void {
    const now = Date.now();
    this.#records.set(`${record.partition} ${id}`, { ...record, sinceMs: now, reportedMs: now });
    this.#messages += record.messages.length;
    this.#unfinished++;
  }

  /** Those that the pairing has heard of, by so many orders, and that wait for nothing. What came under a lease that is lost is left to the next owner: its rows may not have been written. */
  settle(orders: number, leases: Pick<Leases, "fenceOf" | "holds">, { waitsFor, isUnwritten }: Open): void {
    const now = Date.now();
    this.#unfinished = 0;
    for (const [id, record] of this.#records) {
      if (leases.fenceOf(record.partition) !== record.fence) {
        this.#remove(id, record);
        continue;
      }
      const what = waitsFor(record);
      const open =
        what === "rows" ||
        record.orders > orders ||
        isUnwritten(record) ||
        !leases.holds(record.partition) ||
        (what === "end" && now - record.sinceMs < LONGEST_MS);
      if (open && (what !== "end" || record.orders > orders)) this.#unfinished++;
      if (!open) {
        for (const message of record.messages) message.ack();
        this.acknowledged += record.messages.length;
        this.#remove(id, record);
      }
    }
  }

  /** However long rows take to be written: what is worked on is not delivered again. */
  keepAlive(fenceOf: (partition: number) => number | null): void {
    const now = Date.now();
    for (const record of this.#records.values())
      if (now - record.reportedMs > this.#ackWaitMs / 4 && fenceOf(record.partition) === record.fence) {
        for (const message of record.messages) message.working();
        record.reportedMs = now;
      }
  }

  /** All that could be estimated is: what is still open waits for records that are to come. */
  rest(): void {
    this.#unfinished = 0;
  }

  /** They are another worker's, who gets them at once; `gone`: nobody's, with their stream. */
  forget(partition: number, gone = false): void {
    for (const [id, record] of this.#records) {
      if (record.partition !== partition) continue;
      if (!gone) for (const message of record.messages) message.nak();
      this.#remove(id, record);
    }
  }

  #remove(id: string, record: Unacknowledged): void {
    this.#records.delete(id);
    this.#messages -= record.messages.length;
  }
}
