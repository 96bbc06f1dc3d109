/** Reading one record's file: whole, or its head alone. What is wrong with it is a FormatError that names the file and the offset. */
import { fstatSync, openSync, readFileSync, readSync } from "node:fs";
import { FormatError } from "../base/errors.ts";
import {
  decodeHead,
  decodeRecord,
  type EpochRecord,
  headLength,
  type RecordHead,
  type RecordLayout,
} from "../epoch/record.ts";
import { type ArchiveEntry, recordPath } from "./names.ts";

const FIRST_READ = 1024;

export interface ReadHead {
  head: RecordHead;
  layout: RecordLayout;
  fileBytes: number;
}

export function openRecord(file: string): number {
  try {
    return openSync(file, "r");
  } catch (cause) {
    throw gone(file, cause);
  }
}

export function readStored(file: string): EpochRecord {
  let bytes: Uint8Array;
  try {
    bytes = readFileSync(file);
  } catch (cause) {
    throw gone(file, cause);
  }
  return decodeRecord(bytes, { file });
}

function gone(file: string, cause: unknown): FormatError {
  const { code } = cause as NodeJS.ErrnoException;
  const why = code === "ENOENT" ? "the record is no longer there" : `the record cannot be read (${code})`;
  return new FormatError("truncated", file, 0, why, { cause });
}

export function readHeadOf(fd: number, entry: ArchiveEntry): ReadHead {
  const source = { file: entry.file };
  let bytes = new Uint8Array(FIRST_READ);
  bytes = bytes.subarray(0, readSync(fd, bytes, 0, FIRST_READ, 0));
  const length = headLength(bytes, source);
  if (length > bytes.length) {
    bytes = new Uint8Array(length);
    bytes = bytes.subarray(0, readSync(fd, bytes, 0, length, 0));
  }
  const { head, layout } = decodeHead(bytes, source);
  checkPlace(head, entry);
  const fileBytes = fstatSync(fd).size;
  const expected = layout.headBytes + layout.storedBytes + 4;
  if (fileBytes !== expected) {
    const message = `the record has ${fileBytes} bytes, its head says ${expected}`;
    throw new FormatError("truncated", entry.file, Math.min(fileBytes, expected), message);
  }
  return { head, layout, fileBytes };
}

/** A record under another's name would answer for it. */
export function checkPlace(head: RecordHead, entry: ArchiveEntry): void {
  const told = recordPath(head);
  // Version 1 had no folders of ten minutes.
  const before = told.filter((_, i) => i !== told.length - 2);
  const parts = entry.file.split(/[\\/]/);
  if ([told, before].some((path) => parts.slice(-path.length).join("/") === path.join("/"))) return;
  throw new FormatError("bad-record", entry.file, 0, `the record belongs at ${told.join("/")}`);
}
