/** Where a question finds its records: an archive (archive/archive.ts), or anything that lists and reads them. */
import type { Listing, Selection } from "../archive/listing.ts";
import type { ArchiveEntry } from "../archive/names.ts";
import type { EpochRecord, RecordHead } from "../epoch/record.ts";

export interface RecordStore {
  /** What messages call it. */
  readonly directory: string;
  points(): string[];
  list(selection?: Selection): Listing;
  /** FormatError where it is damaged or gone; likewise for the whole record. */
  readHead(entry: ArchiveEntry): { head: RecordHead };
  readRecord(entry: ArchiveEntry): EpochRecord;
  /** Bytes as stored. */
  sizeOf(entry: ArchiveEntry): number;
}
