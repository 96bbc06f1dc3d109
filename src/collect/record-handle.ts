/** A record that has arrived: its identity is known from its head; the payload is read when its pair is estimated, and released afterwards. */
import type { ArchiveEntry } from "../archive/names.ts";
import { type RecordIdentity, recordIdentity } from "../epoch/identity.ts";
import type { EpochRecord, RecordHead } from "../epoch/record.ts";
import type { RecordStore } from "./record-store.ts";

export interface RecordHandle extends RecordIdentity {
  /** Number of packets in its sketch, and how they were keyed. */
  readonly packets: number;
  readonly key: string;
  /** Size as stored or sent. */
  readonly bytes: number;
  /** Where it is stored, for messages; null if nowhere. */
  readonly source: string | null;
  /** Throws a FormatError if it is damaged or gone. */
  read(): EpochRecord;
}

/** Handle of a stored record. Throws a FormatError if its head is damaged. */
export function storedRecord(store: RecordStore, entry: ArchiveEntry): RecordHandle {
  return handleOf(store.readHead(entry).head, store.sizeOf(entry), entry.file, () => store.readRecord(entry));
}

/** Handle of a record in memory. `bytes`: its size in transit. */
export function receivedRecord(record: EpochRecord, bytes = record.payload.length): RecordHandle {
  return handleOf(record, bytes, null, () => record);
}

function handleOf(
  head: RecordHead,
  bytes: number,
  source: string | null,
  read: () => EpochRecord,
): RecordHandle {
  return { ...recordIdentity(head), packets: head.counters.packets, key: head.key, bytes, source, read };
}
