/** An archive as a stream of records: the stored ones in time order and, on request, new ones as they are stored. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Selection } from "../archive/listing.ts";
import type { ArchiveEntry } from "../archive/names.ts";
import { FormatError } from "../base/errors.ts";
import { type RecordHandle, storedRecord } from "./record-handle.ts";
import type { RecordStore } from "./record-store.ts";

export interface ArchiveRecordsOptions {
  selection?: Selection;
  /** Follow: check for new records this often, ms; undefined: end after the last one. */
  followMs?: number;
  /** While following: records are stored at most this long after their epoch (default 10 min). */
  latenessNs?: bigint;
  /** Called for a record with a damaged head. */
  onRefused?: (entry: ArchiveEntry, error: FormatError) => void;
  signal?: AbortSignal;
}

const TEN_MINUTES_NS = 600_000_000_000n;

export async function* archiveRecords(
  store: RecordStore,
  { selection = {}, followMs, latenessNs = TEN_MINUTES_NS, onRefused, signal }: ArchiveRecordsOptions = {},
): AsyncGenerator<RecordHandle> {
  /** Files yielded, with the end of their epochs; removed after that time. */
  const given = new Map<string, bigint>();
  let fromNs = selection.fromNs;
  for (;;) {
    let latestNs: bigint | null = null;
    for (const entry of store.list({ ...selection, fromNs }).entries) {
      if (signal?.aborted) return;
      const { endNs } = entry.epoch;
      if (latestNs === null || endNs > latestNs) latestNs = endNs;
      if (given.has(entry.file)) continue;
      if (followMs !== undefined) given.set(entry.file, endNs);
      const record = openHandle(store, entry, onRefused);
      if (record) yield record;
    }
    if (followMs === undefined || signal?.aborted) return;
    if (latestNs !== null && latestNs - latenessNs > (fromNs ?? 0n)) {
      fromNs = latestNs - latenessNs;
      for (const [file, endNs] of given) if (endNs <= fromNs) given.delete(file);
    }
    await sleep(followMs, undefined, signal ? { signal } : {}).catch(() => undefined);
  }
}

/** Returns the record's handle; null if its head is damaged, which is reported. */
export function openHandle(
  store: RecordStore,
  entry: ArchiveEntry,
  onRefused?: (entry: ArchiveEntry, error: FormatError) => void,
): RecordHandle | null {
  try {
    return storedRecord(store, entry);
  } catch (error) {
    if (!(error instanceof FormatError)) throw error;
    onRefused?.(entry, error);
    return null;
  }
}
