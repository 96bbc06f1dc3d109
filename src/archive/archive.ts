/**
 * Records on disk, or in an object store: one plain file each, in folders by point, segment, estimator and ten minutes (names.ts). Nothing but the files: no index
 * that could disagree with them, so folders of several machines are put together by copying, and a kill at any moment leaves every record that
 * was reported as stored, whole, and no other in part. Storing again what is there is no change; what becomes of something else under the same identity
 * (point, segment, estimator, role, start of the epoch) is described in writer.ts.
 *
 * Measured: 2.7 us per 64-byte read inside a record; a store costs one fdatasync, which groups of records share in parallel.
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
/** Its records lie in the folders of their hours; they are read, and new ones stored beside them as version 2 has it. */
const FORMER_FORMAT = "hoptime.archive/1";
const MAX_OPEN = 64;

export interface StoreResult {
  stored: number;
  /** Were there already. */
  unchanged: number;
  /** Were damaged, or observation had ended within the epoch and now reached further. */
  replaced: number;
  /** Were put together with another part of their epoch, which was there. */
  merged: number;
  bytes: number;
  /** What became of each, in order; those that were refused say why. */
  outcomes: StoreOutcome[];
}

interface OpenRecord {
  open: OpenFile;
  layout: RecordLayout;
}

export class RecordArchive {
  /** Or the place in an object store. */
  readonly directory: string;
  readonly #storage: RecordStorage;
  readonly #open = new Map<string, OpenRecord>();
  #writer: RecordWriter | null = null;

  private constructor(directory: string, storage: RecordStorage) {
    this.directory = directory;
    this.#storage = storage;
  }

  /** An archive to read. UsageError where there is none. */
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

  /** An archive to write, made where it is missing. `files`: for who writes many at a time. */
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

  /** Stores records; when it returns they are on disk, but for those that were refused, each for itself. `merge`: for parts of one epoch. */
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

  /** Head and layout, without the payload. FormatError where it is damaged or not what its path says. */
  readHead(entry: ArchiveEntry): ReadHead {
    const open = this.#storage.open(entry.file);
    try {
      return readHeadOf(open, entry);
    } finally {
      open.close();
    }
  }

  /** The whole record, checked. */
  readRecord(entry: ArchiveEntry): EpochRecord {
    const record = readStored(entry.file, this.#storage);
    checkPlace(record, entry);
    return record;
  }

  /** Bytes on disk; 0 where it has just been removed. */
  sizeOf(entry: ArchiveEntry): number {
    return this.#storage.sizeOf(entry.file);
  }

  /** Part of a payload that is stored as it is; nothing else of it is read. */
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
      // The one not used for longest makes room.
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

/** The format that the archive says it has; null where it says nothing. */
function checkMarker(directory: string, storage: RecordStorage): string | null {
  const text = storage.text(storage.below(directory, MARKER));
  if (text === null) return null;
  let format: unknown;
  try {
    format = (JSON.parse(text) as { format?: unknown }).format;
  } catch {
    // Cut off while it was made: it says nothing, and what it would have said is the only thing there is.
    return null;
  }
  if (format === ARCHIVE_FORMAT || format === FORMER_FORMAT) return format;
  throw new UsageError(
    "not-supported",
    `${directory}: an archive of format '${format}'; this program knows ${ARCHIVE_FORMAT}`,
  );
}
