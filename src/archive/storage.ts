/**
 * Storage of an archive's files: a directory (below), an object store (objects/object-storage.ts), or a directory with an object store behind it
 * (layered-storage.ts). Reads block: they run in threads that do nothing else. Names are complete paths, as in an archive entry.
 */
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  statSync,
} from "node:fs";
import { join } from "node:path";
import { FormatError, UsageError } from "../base/errors.ts";

export interface StorageEntry {
  name: string;
  isFolder: boolean;
}

export interface OpenFile {
  /** Size of the whole file. */
  readonly size: number;
  /** Fills `into` from this offset of the file on; returns the number of bytes read. */
  read(into: Uint8Array, at: number): number;
  close(): void;
}

export interface RecordStorage {
  below(folder: string, name: string): string;
  /** Entries of a folder, by name; empty if it does not exist. */
  list(folder: string): StorageEntry[];
  /** The same without kinds or order, which is quicker for thousands of entries. */
  names(folder: string): string[];
  /** Throws a FormatError if the file does not exist, or cannot be read. */
  open(file: string): OpenFile;
  /** 0 if it does not exist. */
  sizeOf(file: string): number;
  /** Content of a small text file; null if it does not exist. */
  text(file: string): string | null;
  /** Throws a UsageError if there is no such place. */
  check(root: string): void;
}

export const FILES: RecordStorage = {
  below: join,
  list: (folder) =>
    orNothing(() => readdirSync(folder, { withFileTypes: true }))
      .map((entry) => ({ name: entry.name, isFolder: entry.isDirectory() }))
      .sort((a, b) => (a.name < b.name ? -1 : 1)),
  names: (folder) => orNothing(() => readdirSync(folder)),
  open: (file) => new DiskFile(file),
  sizeOf: (file) => statSync(file, { throwIfNoEntry: false })?.size ?? 0,
  text: (file) => (existsSync(file) ? readFileSync(file, "utf8") : null),
  check: (root) => {
    const found = statSync(root, { throwIfNoEntry: false });
    if (!found?.isDirectory())
      throw new UsageError(
        "no-such-file",
        `${root}: ${found ? "is not a directory" : "no such directory"}`,
        "give a directory that hoptime observe has written",
      );
  },
};

/** A folder that retention has just removed counts as empty. */
function orNothing<T>(list: () => T[]): T[] {
  try {
    return list();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

class DiskFile implements OpenFile {
  readonly #file: string;
  readonly #fd: number;

  /** Opens without blocking: a pipe with a record's name is not a record. */
  constructor(file: string) {
    this.#file = file;
    try {
      this.#fd = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    } catch (cause) {
      throw unreadable(file, cause);
    }
    if (fstatSync(this.#fd).isFile()) return;
    this.close();
    throw new FormatError("bad-record", file, 0, "not a regular file, so no record");
  }

  get size(): number {
    return fstatSync(this.#fd).size;
  }

  read(into: Uint8Array, at: number): number {
    let have = 0;
    while (have < into.length) {
      const got = this.#readOnce(into, have, at + have);
      if (got === 0) break;
      have += got;
    }
    return have;
  }

  #readOnce(into: Uint8Array, offset: number, at: number): number {
    try {
      return readSync(this.#fd, into, offset, into.length - offset, at);
    } catch (cause) {
      throw unreadable(this.#file, cause);
    }
  }

  close(): void {
    closeSync(this.#fd);
  }
}

function unreadable(file: string, cause: unknown): FormatError {
  const { code } = cause as NodeJS.ErrnoException;
  const why = code === "ENOENT" ? "the record is no longer there" : `the record cannot be read (${code})`;
  return new FormatError("truncated", file, 0, why, { cause });
}
