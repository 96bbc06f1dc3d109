/** Assembles records from messages: one message per record, or several parts (transport/nats/parts.ts). */
import type { JsMsg } from "@nats-io/jetstream";
import { TAP_HEADER } from "../../transport/nats/nats-sink.ts";
import { PART_HEADER, PartAssembly, parsePart } from "../../transport/nats/parts.ts";
import { parseSubject } from "../../transport/nats/subjects.ts";

export interface IncomingRecord {
  partition: number;
  /** Point and label as in the message's subject. */
  point: string;
  label: string;
  /** Message id of the whole record, or `#SEQUENCE` if it has none. */
  id: string;
  bytes: Uint8Array;
  /** When the last part reached the stream, by the servers' clocks. */
  cameNs: bigint;
  /** The messages that carried the record; they are acknowledged together. */
  messages: JsMsg[];
  tap: string | null;
}

export type Incoming =
  | { kind: "record"; record: IncomingRecord }
  /** Part of a record whose other parts are still to come. */
  | { kind: "part" }
  | { kind: "unusable"; reason: string };

export class RecordAssembly {
  readonly #parts = new PartAssembly<JsMsg>();

  get waiting(): number {
    return this.#parts.waiting;
  }

  take(message: JsMsg): Incoming {
    const subject = parseSubject(message.subject);
    if (!subject) return { kind: "unusable", reason: `the subject ${message.subject} contains no point` };
    const { partition } = subject;
    const tap = message.headers?.get(TAP_HEADER) || null;
    const id = message.headers?.get("Nats-Msg-Id") || `#${message.seq}`;
    const named = message.headers?.get(PART_HEADER);
    if (!named)
      return { kind: "record", record: { ...subject, id, bytes: message.data, ...cameIn([message]), tap } };
    const part = parsePart(named);
    if (!part) return { kind: "unusable", reason: `'${named.slice(0, 100)}' is not a part of a record` };
    // A copy for another partition has parts of its own, so the key contains the partition.
    const { whole } = this.#parts.add(
      { ...part, record: `${partition} ${part.record}` },
      message.data,
      message,
    );
    if (!whole) return { kind: "part" };
    return {
      kind: "record",
      record: { ...subject, id: part.record, bytes: whole.bytes, ...cameIn(whole.from), tap },
    };
  }

  /** Takes out the records that have had missing parts since before this time. */
  incomplete(beforeMs: number): { messages: JsMsg[]; reason: string }[] {
    return this.#parts
      .takeOld((m) => m.time.getTime() < beforeMs)
      .map(({ from, have, of }) => ({
        messages: from,
        reason: `only ${have} of ${of} parts of a record arrived`,
      }));
  }

  /** Drops the waiting parts of a partition: its next owner gets them delivered again. */
  forget(partition: number): void {
    this.#parts.drop((m) => parseSubject(m.subject)?.partition === partition);
  }
}

const cameIn = (messages: JsMsg[]): Pick<IncomingRecord, "messages" | "cameNs"> => ({
  messages,
  cameNs: BigInt(Math.max(...messages.map((m) => m.time.getTime()))) * 1_000_000n,
});
