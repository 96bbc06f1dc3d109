/** Where a query finds its records: an archive (archive/archive.ts), or anything that lists and reads them. */
import type { Listing, Selection } from "../archive/listing.ts";
import type { ArchiveEntry } from "../archive/names.ts";
import type { EpochRecord, RecordHead } from "../epoch/record.ts";

export interface RecordStore {
  /** Its name in messages. */
  readonly directory: string;
  points(): string[];
  list(selection?: Selection): Listing;
  /** Throws a FormatError if it is damaged or gone; so does readRecord. */
  readHead(entry: ArchiveEntry): { head: RecordHead };
  readRecord(entry: ArchiveEntry): EpochRecord;
  /** Size as stored. */
  sizeOf(entry: ArchiveEntry): number;
}
