/** Converts IP addresses between text and the 32-bit words that the kernels hold. */
import { UsageError } from "../base/errors.ts";

export function formatIpv4(word: number): string {
  return `${word >>> 24}.${(word >>> 16) & 255}.${(word >>> 8) & 255}.${word & 255}`;
}

/** Formats four words, most significant first, as RFC 5952 text. */
export function formatIpv6(words: readonly number[]): string {
  const groups: number[] = [];
  for (const w of words) groups.push(w >>> 16, w & 0xffff);
  if (groups.slice(0, 5).every((g) => g === 0) && groups[5] === 0xffff) {
    return `::ffff:${formatIpv4((words[3] ?? 0) >>> 0)}`;
  }
  let bestStart = -1;
  let bestLength = 1;
  for (let i = 0; i < 8; i++) {
    let length = 0;
    while (i + length < 8 && groups[i + length] === 0) length++;
    if (length > bestLength) {
      bestStart = i;
      bestLength = length;
    }
  }
  const hex = (list: number[]) => list.map((g) => g.toString(16)).join(":");
  if (bestStart < 0) return hex(groups);
  return `${hex(groups.slice(0, bestStart))}::${hex(groups.slice(bestStart + bestLength))}`;
}

/** Parses four numbers of one to three digits, up to 255 each. Written by hand for speed: every flow of a report passes here. */
function parseIpv4(text: string): number | null {
  let word = 0;
  let part = 0;
  let digits = 0;
  let dots = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 46) {
      if (digits === 0 || ++dots > 3) return null;
      word = word * 256 + part;
      part = 0;
      digits = 0;
    } else if (c >= 48 && c <= 57 && digits < 3) {
      part = part * 10 + c - 48;
      digits++;
      if (part > 255) return null;
    } else return null;
  }
  return dots === 3 && digits > 0 ? word * 256 + part : null;
}

/** Returns one word for IPv4, four for IPv6, or null if the text is not an address. */
export function parseAddress(text: string): { version: 4 | 6; words: number[] } | null {
  const word = parseIpv4(text);
  if (word !== null) return { version: 4, words: [word] };
  if (!text.includes(":") || !/^[0-9a-fA-F:.]+$/.test(text)) return null;
  let head = text;
  const tail: number[] = [];
  const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text);
  if (dotted) {
    const [, before = "", v4 = ""] = dotted;
    const word = parseIpv4(v4);
    if (word === null) return null;
    tail.push(word >>> 16, word & 0xffff);
    head = before.endsWith("::") ? before : before.slice(0, -1);
  }
  const [first = "", second, ...more] = head.split("::");
  if (more.length > 0) return null;
  const groups = (part: string): number[] | null => {
    if (part === "") return [];
    const list = part.split(":");
    return list.every((g) => /^[0-9a-fA-F]{1,4}$/.test(g)) ? list.map((g) => Number.parseInt(g, 16)) : null;
  };
  const left = groups(first);
  const right = groups(second ?? "");
  if (!left || !right) return null;
  const given = left.length + right.length + tail.length;
  if (second === undefined ? given !== 8 : given > 7) return null;
  const all = [...left, ...new Array<number>(8 - given).fill(0), ...right, ...tail];
  const words = [0, 1, 2, 3].map((i) => ((all[2 * i]! << 16) | all[2 * i + 1]!) >>> 0);
  return { version: 6, words };
}

export function requireAddress(text: string, where: string): { version: 4 | 6; words: number[] } {
  const parsed = parseAddress(text);
  if (!parsed) throw new UsageError("bad-key", `${where}: '${text}' is not an IP address`);
  return parsed;
}
