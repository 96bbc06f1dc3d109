/**
 * Records on disk, or in an object store: one plain file each, in folders by point, segment, estimator and ten minutes (names.ts). There is no index that could
 * disagree with the files, so archives of several machines are combined by copying, and a kill at any moment leaves every record that was reported as stored,
 * complete, and no other in part. Storing a record again changes nothing; writer.ts describes what happens to a different record with the same identity (point,
 * segment, estimator, role, start of the epoch).
 *
 * Measured: 2.7 us per 64-byte read inside a record; a store costs one fdatasync, which groups of records do in parallel.
 */
import { dirname, join } from "node:path";
import { directoryFailure } from "../base/directory.ts";
import { FormatError, UsageError } from "../base/errors.ts";
import type { EpochRecord } from "../epoch/record.ts";
import type { RecordLayout } from "../epoch/record-layout.ts";
import { makeFolder, publish, removeStale, writeTemporary } from "./durable.ts";
import type { FileWriter } from "./file-writer.ts";
import {
  hasTaps,
  type Listing,
  listPoints,
  listRecords,
  MARKER,
  type Selection,
  TEMPORARY,
} from "./listing.ts";
import type { ArchiveEntry } from "./names.ts";
import { checkPlace, type ReadHead, readHeadOf, readStored } from "./read.ts";
import { FILES, type OpenFile, type RecordStorage } from "./storage.ts";
import { type MergeRecords, RecordWriter, type StoreItem, type StoreOutcome } from "./writer.ts";

const ARCHIVE_FORMAT = "hoptime.archive/2";
/** Its records are in the folders of their hours; they are read, and new ones are stored next to them in version 2's folders. */
const FORMER_FORMAT = "hoptime.archive/1";
const MAX_OPEN = 64;

export interface StoreResult {
  stored: number;
  /** Already there. */
  unchanged: number;
  /** Were damaged, or observation had ended within the epoch and has now reached further. */
  replaced: number;
  /** Were merged with another part of their epoch. */
  merged: number;
  bytes: number;
  /** Outcome of each record, in order; a refusal has its reason. */
  outcomes: StoreOutcome[];
}

interface OpenRecord {
  open: OpenFile;
  layout: RecordLayout;
}

export class RecordArchive {
  /** A directory, or a place in an object store. */
  readonly directory: string;
  readonly #storage: RecordStorage;
  readonly #open = new Map<string, OpenRecord>();
  #writer: RecordWriter | null = null;

  private constructor(directory: string, storage: RecordStorage) {
    this.directory = directory;
    this.#storage = storage;
  }

  /** Opens an archive for reading. Throws a UsageError if there is none. */
  static open(directory: string, storage = FILES): RecordArchive {
    storage.check(directory);
    checkMarker(directory, storage);
    if (storage.text(storage.below(directory, MARKER)) === null && !hasTaps(directory, storage)) {
      const inside = storage.below(directory, "records");
      throw new UsageError(
        "no-such-file",
        `${directory}: contains no records of hoptime`,
        storage.text(storage.below(inside, MARKER)) !== null
          ? `the records are in ${inside}`
          : "give a directory that hoptime observe has written",
      );
    }
    return new RecordArchive(directory, storage);
  }

  /** Opens an archive for writing, and creates it if needed. `files`: for writing many records at a time. */
  static async create(directory: string, files?: FileWriter): Promise<RecordArchive> {
    const archive = new RecordArchive(directory, FILES);
    try {
      await makeFolder(dirname(directory), directory);
      const format = checkMarker(directory, FILES);
      const temporary = join(directory, TEMPORARY);
      await makeFolder(directory, temporary);
      await removeStale(temporary);
      if (format !== ARCHIVE_FORMAT) {
        const marker = new TextEncoder().encode(`${JSON.stringify({ format: ARCHIVE_FORMAT })}\n`);
        await publish(await writeTemporary(temporary, marker), join(directory, MARKER), true);
      }
    } catch (cause) {
      if (cause instanceof UsageError) throw cause;
      throw directoryFailure(directory, cause);
    }
    archive.#writer = new RecordWriter(directory, files);
    return archive;
  }

  points(): string[] {
    return listPoints(this.directory, this.#storage);
  }

  list(selection: Selection = {}): Listing {
    return listRecords(this.directory, selection, this.#storage);
  }

  /** Stores records; when it returns they are on disk, except those refused individually. `merge`: for parts of one epoch. */
  async store(items: readonly StoreItem[], merge?: MergeRecords): Promise<StoreResult> {
    if (!this.#writer) throw new Error("the archive was opened for reading");
    const outcomes = await this.#writer.store(items, merge);
    const result: StoreResult = { stored: 0, unchanged: 0, replaced: 0, merged: 0, bytes: 0, outcomes };
    for (const each of outcomes) {
      if (each.outcome === "refused") continue;
      result[each.outcome]++;
      result.bytes += each.bytes;
    }
    return result;
  }

  /** Reads head and layout, without the payload. Throws a FormatError if the record is damaged or does not belong at its path. */
  readHead(entry: ArchiveEntry): ReadHead {
    const open = this.#storage.open(entry.file);
    try {
      return readHeadOf(open, entry);
    } finally {
      open.close();
    }
  }

  /** Reads and checks the whole record. */
  readRecord(entry: ArchiveEntry): EpochRecord {
    const record = readStored(entry.file, this.#storage);
    checkPlace(record, entry);
    return record;
  }

  /** Size on disk; 0 if it was just removed. */
  sizeOf(entry: ArchiveEntry): number {
    return this.#storage.sizeOf(entry.file);
  }

  /** Reads a part of a payload that is stored unpacked, and nothing else of it. */
  readPayloadRange(entry: ArchiveEntry, offset: number, length: number): Uint8Array {
    const { open, layout } = this.#opened(entry);
    if (layout.packed) {
      const message = `${entry.file}: the payload is packed: parts of it cannot be read`;
      throw new UsageError("not-supported", message, "read the whole record");
    }
    if (!(offset >= 0 && length >= 0 && offset + length <= layout.storedBytes)) {
      throw new RangeError(`bytes ${offset} to ${offset + length} of a payload of ${layout.storedBytes}`);
    }
    const out = new Uint8Array(length);
    const at = layout.headBytes + offset;
    const have = open.read(out, at);
    if (have < length)
      throw new FormatError("truncated", entry.file, at + have, "the record is cut within its payload");
    return out;
  }

  #opened(entry: ArchiveEntry): OpenRecord {
    let found = this.#open.get(entry.file);
    if (found) this.#open.delete(entry.file);
    else {
      const open = this.#storage.open(entry.file);
      try {
        found = { open, layout: readHeadOf(open, entry).layout };
      } catch (error) {
        open.close();
        throw error;
      }
      // Evict the least recently used one.
      for (const [file, { open: old }] of this.#open) {
        if (this.#open.size < MAX_OPEN) break;
        old.close();
        this.#open.delete(file);
      }
    }
    this.#open.set(entry.file, found);
    return found;
  }

  /** Closes files kept open for range reads. */
  close(): void {
    for (const { open } of this.#open.values()) open.close();
    this.#open.clear();
  }
}

/** Returns the format stated by the archive's marker; null if there is none. */
function checkMarker(directory: string, storage: RecordStorage): string | null {
  const text = storage.text(storage.below(directory, MARKER));
  if (text === null) return null;
  let format: unknown;
  try {
    format = (JSON.parse(text) as { format?: unknown }).format;
  } catch {
    // The marker was truncated while being written: treat it as missing.
    return null;
  }
  if (format === ARCHIVE_FORMAT || format === FORMER_FORMAT) return format;
  throw new UsageError(
    "not-supported",
    `${directory}: an archive of format '${format}'; this program knows ${ARCHIVE_FORMAT}`,
  );
}
