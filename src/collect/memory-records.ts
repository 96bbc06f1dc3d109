/** Records in memory, with the interface of an archive: what was just observed, simulated or received can be queried without a disk. */
import type { Listing, Selection } from "../archive/listing.ts";
import type { ArchiveEntry } from "../archive/names.ts";
import { FormatError } from "../base/errors.ts";
import { identityText, recordIdentity } from "../epoch/identity.ts";
import {
  decodeHead,
  decodeRecord,
  type EncodeOptions,
  type EpochRecord,
  encodeRecord,
  type RecordHead,
} from "../epoch/record.ts";
import type { RecordStore } from "./record-store.ts";

interface Held {
  entry: ArchiveEntry;
  bytes: Uint8Array;
}

export class MemoryRecords implements RecordStore {
  readonly directory = "memory";
  readonly #held = new Map<string, Held>();

  /** Adds a record as the tap sealed it; encoded, so that later reads go through the record format. */
  add(record: EpochRecord, options: EncodeOptions = {}): void {
    this.addBytes(record, encodeRecord(record, options));
  }

  /** Adds bytes as received, whatever they contain; `as`: the head to list them under. */
  addBytes(as: RecordHead, bytes: Uint8Array): void {
    const name = identityText(recordIdentity(as));
    const { point, segment, estimator, role, epoch } = as;
    this.#held.set(name, {
      entry: { file: name, point, segment, estimator, role, epoch: { ...epoch } },
      bytes,
    });
  }

  points(): string[] {
    return [...new Set([...this.#held.values()].map((h) => h.entry.point))].sort();
  }

  list({ points, segments, estimators, fromNs, toNs }: Selection = {}): Listing {
    const entries = [...this.#held.values()]
      .map((h) => h.entry)
      .filter(
        ({ point, segment, estimator, epoch }) =>
          (points?.includes(point) ?? true) &&
          (segments?.includes(segment) ?? true) &&
          (estimators?.includes(estimator) ?? true) &&
          (fromNs === undefined || epoch.endNs > fromNs) &&
          (toNs === undefined || epoch.startNs < toNs),
      )
      .sort((a, b) => (a.epoch.startNs < b.epoch.startNs ? -1 : a.epoch.startNs > b.epoch.startNs ? 1 : 0));
    return { entries, foreign: [] };
  }

  readHead(entry: ArchiveEntry): { head: RecordHead } {
    return decodeHead(this.#bytes(entry), { file: entry.file });
  }

  readRecord(entry: ArchiveEntry): EpochRecord {
    return decodeRecord(this.#bytes(entry), { file: entry.file });
  }

  sizeOf(entry: ArchiveEntry): number {
    return this.#held.get(entry.file)?.bytes.length ?? 0;
  }

  #bytes(entry: ArchiveEntry): Uint8Array {
    const held = this.#held.get(entry.file);
    if (!held) throw new FormatError("truncated", entry.file, 0, "the record is no longer there");
    return held.bytes;
  }
}
