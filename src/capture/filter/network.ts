/** Parses addresses and networks in a filter: `10.0.0.1`, `10.0.0.0/8`, `10.1` (a /16), `10.0.0.0 mask 255.0.0.0`, `2001:db8::/32`. */
import type { UsageError } from "../../base/errors.ts";
import { formatIpv4, formatIpv6, parseAddress } from "../address.ts";
import type { FilterEnd, FilterExpression } from "./expression.ts";
import { plainNumber, type Token, type TokenCursor } from "./text.ts";

type Expected = (what: string, token: Token, why?: string) => UsageError;

/** `version`: the IP version that a preceding `ip` or `ip6` requires. */
export function parseNetwork(
  cursor: TokenCursor,
  { end, type }: { end: FilterEnd; type: string | null },
  version: 4 | 6 | null,
  expected: Expected,
): FilterExpression {
  const token = cursor.take();
  const what = type === "net" ? "a network" : "an address";
  const found = token.kind === "word" ? readNetwork(token.text) : null;
  if (!found) {
    const name = token.kind === "word" && /[g-z]/i.test(token.text);
    throw expected(what, token, name ? "names are not looked up" : undefined);
  }
  if (version !== null && found.version !== version) {
    throw cursor.error(
      `'${token.text}' is IPv${found.version}, but 'ip${version === 6 ? 6 : ""}' stands before it`,
      token,
    );
  }
  const bits = 32 * found.words.length;
  let mask = prefixMask(found.given, bits);
  const slash = cursor.peek();
  if (slash.key === "/" || (slash.key === "mask" && found.version === 4)) {
    if (type === "host") throw cursor.error(`'host' takes one address; write 'net' for a network`, slash);
    cursor.take();
    mask = slash.key === "/" ? readPrefix(cursor, bits) : readMask(cursor);
    if (found.words.some((w, i) => (w & ~mask[i]!) !== 0)) {
      const network = found.words.map((w, i) => (w & mask[i]!) >>> 0);
      const text = found.version === 4 ? formatIpv4(network[0]!) : formatIpv6(network);
      throw cursor.error(`'${token.text}' has bits set outside the mask; the network is ${text}`, token);
    }
  } else if (found.given < bits && type !== "net") {
    throw expected(what, token, "the address is incomplete; write 'net' for a network");
  }
  return { kind: "net", end, version: found.version, words: found.words, mask };
}

/** Parses one to four numbers of IPv4, padded with zeros, or IPv6; `given` is the number of bits written. */
function readNetwork(text: string): { version: 4 | 6; words: number[]; given: number } | null {
  // Refuse leading zeros: some tools read them as octal, so no interpretation is safe.
  if (/^\d+(?:\.\d+){0,3}$/.test(text) && !/(?:^|\.)0\d/.test(text)) {
    const parts = text.split(".");
    const address = parseAddress([...parts, "0", "0", "0"].slice(0, 4).join("."));
    return address && { ...address, given: 8 * parts.length };
  }
  const address = parseAddress(text);
  return address?.version === 6 ? { ...address, given: 128 } : null;
}

function readPrefix(cursor: TokenCursor, bits: number): number[] {
  const token = cursor.take();
  const length = token.kind === "word" ? plainNumber(token.text) : null;
  if (length === null || length > bits)
    throw cursor.expected(`a prefix length (0 to ${bits}) after '/'`, token);
  return prefixMask(length, bits);
}

function readMask(cursor: TokenCursor): number[] {
  const token = cursor.take();
  const mask = token.kind === "word" ? parseAddress(token.text) : null;
  if (mask?.version !== 4) throw cursor.expected("a netmask such as 255.255.0.0 after 'mask'", token);
  return mask.words;
}

function prefixMask(length: number, bits: number): number[] {
  const mask: number[] = [];
  for (let left = length; mask.length * 32 < bits; left -= 32) {
    mask.push(left >= 32 ? 0xffff_ffff : left <= 0 ? 0 : (0xffff_ffff << (32 - left)) >>> 0);
  }
  return mask;
}
