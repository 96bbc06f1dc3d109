/** Reads one record's file: whole, or only its head. Errors are FormatErrors with the file and the offset. */
import { FormatError } from "../base/errors.ts";
import { decodeHead, decodeRecord, type EpochRecord, headLength, type RecordHead } from "../epoch/record.ts";
import type { RecordLayout } from "../epoch/record-layout.ts";
import { type ArchiveEntry, recordPath } from "./names.ts";
import { FILES, type OpenFile } from "./storage.ts";

const FIRST_READ = 1024;
const CRC_BYTES = 4;

export interface ReadHead {
  head: RecordHead;
  layout: RecordLayout;
  fileBytes: number;
}

export function readStored(file: string, storage = FILES): EpochRecord {
  const open = storage.open(file);
  try {
    // The head is checked first, and limits what is read.
    const { layout } = readLayout(open, file);
    const bytes = new Uint8Array(layout.headBytes + layout.storedBytes + CRC_BYTES);
    return decodeRecord(bytes.subarray(0, open.read(bytes, 0)), { file });
  } finally {
    open.close();
  }
}

export function readHeadOf(open: OpenFile, entry: ArchiveEntry): ReadHead {
  const read = readLayout(open, entry.file);
  checkPlace(read.head, entry);
  return read;
}

function readLayout(open: OpenFile, file: string): ReadHead {
  const source = { file };
  let bytes = new Uint8Array(FIRST_READ);
  bytes = bytes.subarray(0, open.read(bytes, 0));
  const length = headLength(bytes, source);
  if (length > bytes.length) {
    bytes = new Uint8Array(length);
    bytes = bytes.subarray(0, open.read(bytes, 0));
  }
  const { head, layout } = decodeHead(bytes, source);
  const fileBytes = open.size;
  const expected = layout.headBytes + layout.storedBytes + CRC_BYTES;
  if (fileBytes !== expected) {
    const message = `the record has ${fileBytes} bytes, expected ${expected} by its head`;
    throw new FormatError("truncated", file, Math.min(fileBytes, expected), message);
  }
  return { head, layout, fileBytes };
}

/** A record under the wrong name would be mistaken for another one. */
export function checkPlace(head: RecordHead, entry: ArchiveEntry): void {
  const place = recordPath(head);
  // Version 1 had no folders of ten minutes.
  const before = place.filter((_, i) => i !== place.length - 2);
  const parts = entry.file.split(/[\\/]/);
  if ([place, before].some((path) => parts.slice(-path.length).join("/") === path.join("/"))) return;
  throw new FormatError("bad-record", entry.file, 0, `the record belongs at ${place.join("/")}`);
}
