/** The source address of references in the form that the kernels need: an IP header with that source (kernels/rli/senders.ts). */
import { invalidValue } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import { parseAddress } from "../capture/address.ts";

const HEADER_BYTES = 40;
const SOURCE_AT = { 4: 12, 6: 8 } as const;

/** "" is any source: then the header is 0, else it is valid during the call. */
export function withSource(kernels: Kernels, source: string, use: (header: number) => void): void {
  if (source === "") {
    use(0);
    return;
  }
  const { version, words } = checkSource(source);
  const at = kernels.alloc(HEADER_BYTES);
  kernels.u8.fill(0, at, at + HEADER_BYTES);
  kernels.u8[at] = version << 4;
  const header = new DataView(kernels.u8.buffer, at, HEADER_BYTES);
  for (const [i, word] of words.entries()) header.setUint32(SOURCE_AT[version] + 4 * i, word);
  use(at);
  kernels.free(at);
}

export function checkSource(source: string): { version: 4 | 6; words: number[] } {
  const address = parseAddress(source);
  if (!address) throw invalidValue("source", source, "an IP address", { code: "bad-parameter" });
  return address;
}
