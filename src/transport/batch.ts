/**
 * Records in one message (docs/formats/batch.md), from a tap to a collector, and the form in which a tap's spool stores them.
 *
 *   per record: length u32, little-endian | the record (docs/formats/record.md)
 *
 * A damaged record affects only itself: the length gives the start of the next one. A message that ends within a record was truncated; the complete records
 * before count.
 */
import { FormatError } from "../base/errors.ts";

export const BATCH_TYPE = "application/vnd.hoptime.records";
const LENGTH_BYTES = 4;
/** Maximum size of a record in transit: larger ones are kept in files. */
const MAX_RECORD_BYTES = 256 << 20;

export interface BatchSlice {
  /** Offset of the record in the message. */
  offset: number;
  bytes: Uint8Array;
}

export interface SplitBatch {
  records: BatchSlice[];
  /** Why the rest of the message is not used; null if it ends with a record. */
  cut: FormatError | null;
}

export function frameRecord(record: Uint8Array): Uint8Array[] {
  const length = new Uint8Array(LENGTH_BYTES);
  new DataView(length.buffer).setUint32(0, record.length, true);
  return [length, record];
}

export function framedBytes(record: Uint8Array): number {
  return LENGTH_BYTES + record.length;
}

/** Returns the records of a message, as views of it: nothing is copied. */
export function splitBatch(
  message: Uint8Array,
  source: string,
  maxRecords = Number.POSITIVE_INFINITY,
): SplitBatch {
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  const records: BatchSlice[] = [];
  const cut = (code: "truncated" | "bad-record", at: number, what: string) => ({
    records,
    cut: new FormatError(code, source, at, what),
  });
  for (let at = 0; at < message.length; ) {
    if (message.length - at < LENGTH_BYTES) return cut("truncated", at, "the message is cut within a length");
    const length = view.getUint32(at, true);
    const offset = at + LENGTH_BYTES;
    if (length === 0 || length > MAX_RECORD_BYTES)
      return cut("bad-record", at, `a record of ${length} bytes (expected 1 to ${MAX_RECORD_BYTES})`);
    if (length > message.length - offset)
      return cut(
        "truncated",
        at,
        `the message is cut: ${message.length - offset} of ${length} bytes of a record are there`,
      );
    if (records.length >= maxRecords)
      return cut("bad-record", at, `more than ${maxRecords} records in one message`);
    records.push({ offset, bytes: message.subarray(offset, offset + length) });
    at = offset + length;
  }
  return { records, cut: null };
}
