/** Messages whose records are not in the results yet, or still wait for the record of the other endpoint. They are acknowledged afterwards. */
import type { JsMsg } from "@nats-io/jetstream";
import type { Leases } from "./leases.ts";

export interface Unacknowledged {
  partition: number;
  /** Fence of the lease under which the record arrived. */
  fence: number;
  /** Identity of the record (epoch/identity.ts). */
  name: string;
  messages: JsMsg[];
  /** Number of orders sent to the pairing up to and including this record. */
  orders: number;
  /** Whether the stream has the record's copies for other partitions. */
  isCopied: boolean;
  sinceMs: number;
  /** When it was last reported to the cluster as in progress. */
  reportedMs: number;
}

export interface Open {
  /**
   * What a record waits for. `end`: the record of the other endpoint, which may never come; `rows`: its own rows, however long they take; null:
   * nothing.
   */
  waitsFor(record: Unacknowledged): "end" | "rows" | null;
  /** Whether rows of the record's partition are still unwritten because its lease is late. */
  isUnwritten(record: Unacknowledged): boolean;
}

/** Longest time that a message stays unacknowledged for its other endpoint; after that the record waits in the archive alone. */
const LONGEST_MS = 600_000;

export class UnacknowledgedRecords {
  readonly #records = new Map<string, Unacknowledged>();
  readonly #ackWaitMs: number;
  #messages = 0;
  /** Records whose rows are still to be made or written; those waiting for the other endpoint are not included. */
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

  /** Handles a redelivery: the newer messages are the ones to acknowledge. Returns false if the record is not known. */
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

  /** Called when the stream has the record's copies. */
  copied(partition: number, id: string): void {
    const record = this.#records.get(`${partition} ${id}`);
    if (record) record.isCopied = true;
  }

  /**
   * Acknowledges the records that the pairing has processed (up to `orders`) and that wait for nothing. Records that came under a lost lease are
   * left to the next owner, because their rows may not have been written.
   */
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
        !record.isCopied ||
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

  /** Reports records as in progress, so that they are not redelivered however long their rows take. */
  keepAlive(fenceOf: (partition: number) => number | null): void {
    const now = Date.now();
    for (const record of this.#records.values())
      if (now - record.reportedMs > this.#ackWaitMs / 4 && fenceOf(record.partition) === record.fence) {
        for (const message of record.messages) message.working();
        record.reportedMs = now;
      }
  }

  /** Called when everything that can be estimated has been: what is still open waits for records to come. */
  rest(): void {
    this.#unfinished = 0;
  }

  /**
   * Drops a partition's records and returns them for immediate redelivery to the next owner. `gone`: the stream is gone, so there is nothing to
   * return.
   */
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
