/** Reads the first bytes of a capture, which identify its format. */
import { FormatError } from "../../base/errors.ts";
import type { ByteSource } from "../source/byte-source.ts";
import { isDecided, PCAP_HEADER_BYTES, type Sniffed, sniff } from "./sniff.ts";

const HEAD_BYTES = 1 << 19;

/** Reads as many bytes as the format needs to be identified. A live stream is not waited for any longer. */
export async function readHead(source: ByteSource): Promise<{ head: Uint8Array; found: Sniffed }> {
  const bytes = new Uint8Array(HEAD_BYTES);
  let length = 0;
  while (length < bytes.length) {
    let got = 0;
    try {
      got = await source.read(() => bytes.subarray(length));
    } catch (error) {
      // Bytes before the damage are still a capture; the reader meets the same error again at its position.
      if (length > 0) break;
      throw new FormatError("bad-gzip", source.name, 0, `reading failed (${(error as Error).message})`, {
        cause: error,
      });
    }
    if (got === 0) break;
    length += got;
    if (length >= PCAP_HEADER_BYTES && isDecided(bytes.subarray(0, length))) break;
  }
  if (length === 0) throw new FormatError("empty", source.name, 0, "the file is empty");
  const head = bytes.subarray(0, length);
  return { head, found: sniff(head) };
}
