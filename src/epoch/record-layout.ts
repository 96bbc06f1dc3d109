/** Location of the payload in a record, limits of its length, and checksums. */
import { FormatError } from "../base/errors.ts";

export const CRC_BYTES = 4;
/** No sketch is nearly as large: it would not fit into the kernels' memory. */
export const MAX_PAYLOAD_BYTES = 1 << 30;
/** Maximum ratio of unpacked to stored size, above `MAX_EASY_BYTES`: a few bytes must not request gigabytes. */
const MAX_RATIO = 100;
const MAX_EASY_BYTES = 64 << 20;

/** Where the payload lies in an encoded record. */
export interface RecordLayout {
  headBytes: number;
  storedBytes: number;
  unpackedBytes: number;
  packed: boolean;
}

export function mayUnpack(storedBytes: number, unpackedBytes: number): boolean {
  return unpackedBytes <= Math.max(MAX_EASY_BYTES, MAX_RATIO * storedBytes);
}

/** Called before anything is read or allocated. */
export function checkSizes(
  { storedBytes, unpackedBytes, packed }: RecordLayout,
  file: string,
  offset: number,
): void {
  const bad = (message: string) => new FormatError("bad-header", file, offset + 12, message);
  if (!packed && storedBytes !== unpackedBytes)
    throw bad(`an unpacked payload of ${unpackedBytes} bytes cannot be stored in ${storedBytes}`);
  if (unpackedBytes > MAX_PAYLOAD_BYTES)
    throw bad(`a payload of ${unpackedBytes} bytes (expected at most ${MAX_PAYLOAD_BYTES})`);
  if (packed && !mayUnpack(storedBytes, unpackedBytes))
    throw bad(
      `a payload of ${unpackedBytes} bytes packed into ${storedBytes} (expected at most ${MAX_RATIO} to 1)`,
    );
}

export function expectChecksum(
  bytes: Uint8Array,
  at: number,
  actual: number,
  what: string,
  file: string,
  offset: number,
): void {
  const stored = new DataView(bytes.buffer, bytes.byteOffset + at, CRC_BYTES).getUint32(0, true);
  if (stored === actual) return;
  const hex = (n: number) => n.toString(16).padStart(8, "0");
  const message = `the ${what} is damaged: its checksum is ${hex(stored)}, its bytes give ${hex(actual)}`;
  throw new FormatError("bad-checksum", file, offset + at, message);
}
