/** Reading one record's file: whole, or its head alone. What is wrong with it is a FormatError that names the file and the offset. */
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { FormatError } from "../base/errors.ts";
import { decodeHead, decodeRecord, type EpochRecord, headLength, type RecordHead } from "../epoch/record.ts";
import type { RecordLayout } from "../epoch/record-layout.ts";
import { type ArchiveEntry, recordPath } from "./names.ts";

const FIRST_READ = 1024;
const CRC_BYTES = 4;

export interface ReadHead {
  head: RecordHead;
  layout: RecordLayout;
  fileBytes: number;
}

/** Without waiting for anybody: a pipe under a record's name is none. */
export function openRecord(file: string): number {
  let fd: number;
  try {
    fd = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (cause) {
    throw gone(file, cause);
  }
  if (fstatSync(fd).isFile()) return fd;
  closeSync(fd);
  throw new FormatError("bad-record", file, 0, "not a regular file, so no record");
}

export function readStored(file: string): EpochRecord {
  const fd = openRecord(file);
  try {
    // The head's checks bound what is read.
    const { layout } = readLayout(fd, file);
    const bytes = new Uint8Array(layout.headBytes + layout.storedBytes + CRC_BYTES);
    return decodeRecord(bytes.subarray(0, readAll(fd, bytes)), { file });
  } catch (cause) {
    throw (cause as NodeJS.ErrnoException).syscall === undefined ? cause : gone(file, cause);
  } finally {
    closeSync(fd);
  }
}

function readAll(fd: number, into: Uint8Array): number {
  let have = 0;
  while (have < into.length) {
    const got = readSync(fd, into, have, into.length - have, have);
    if (got === 0) break;
    have += got;
  }
  return have;
}

function gone(file: string, cause: unknown): FormatError {
  const { code } = cause as NodeJS.ErrnoException;
  const why = code === "ENOENT" ? "the record is no longer there" : `the record cannot be read (${code})`;
  return new FormatError("truncated", file, 0, why, { cause });
}

export function readHeadOf(fd: number, entry: ArchiveEntry): ReadHead {
  const read = readLayout(fd, entry.file);
  checkPlace(read.head, entry);
  return read;
}

function readLayout(fd: number, file: string): ReadHead {
  const source = { file };
  let bytes = new Uint8Array(FIRST_READ);
  bytes = bytes.subarray(0, readAll(fd, bytes));
  const length = headLength(bytes, source);
  if (length > bytes.length) {
    bytes = new Uint8Array(length);
    bytes = bytes.subarray(0, readAll(fd, bytes));
  }
  const { head, layout } = decodeHead(bytes, source);
  const fileBytes = fstatSync(fd).size;
  const expected = layout.headBytes + layout.storedBytes + CRC_BYTES;
  if (fileBytes !== expected) {
    const message = `the record has ${fileBytes} bytes, expected ${expected} by its head`;
    throw new FormatError("truncated", file, Math.min(fileBytes, expected), message);
  }
  return { head, layout, fileBytes };
}

/** A record under another's name would answer for it. */
export function checkPlace(head: RecordHead, entry: ArchiveEntry): void {
  const place = recordPath(head);
  // Version 1 had no folders of ten minutes.
  const before = place.filter((_, i) => i !== place.length - 2);
  const parts = entry.file.split(/[\\/]/);
  if ([place, before].some((path) => parts.slice(-path.length).join("/") === path.join("/"))) return;
  throw new FormatError("bad-record", entry.file, 0, `the record belongs at ${place.join("/")}`);
}
