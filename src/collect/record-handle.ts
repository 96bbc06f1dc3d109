/** A record that has arrived: what it is of is known from its head; the payload is read when its pair is estimated, and let go afterwards. */
import type { ArchiveEntry } from "../archive/names.ts";
import { type RecordIdentity, recordIdentity } from "../epoch/identity.ts";
import type { EpochRecord, RecordHead } from "../epoch/record.ts";
import type { RecordStore } from "./record-store.ts";

export interface RecordHandle extends RecordIdentity {
  /** Packets in its sketch, and how they were keyed. */
  readonly packets: number;
  readonly key: string;
  /** As stored or sent. */
  readonly bytes: number;
  /** Where it lies, for messages; null where that is nowhere in particular. */
  readonly source: string | null;
  /** FormatError where it is damaged or gone. */
  read(): EpochRecord;
}

/** A record that lies in a store. FormatError where its head is damaged. */
export function storedRecord(store: RecordStore, entry: ArchiveEntry): RecordHandle {
  return handleOf(store.readHead(entry).head, store.sizeOf(entry), entry.file, () => store.readRecord(entry));
}

/** A record at hand. `bytes`: what it took on its way. */
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
