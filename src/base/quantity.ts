/** Formats and parses counts, bytes and shares for people, in a terminal and on a page. */
import { invalidValue } from "./errors.ts";

/** Narrow no-break space between a number and its unit on pages. */
export const THIN_SPACE = "\u202f";

/** Formats a number with at most `digits` significant digits, no trailing zeros and no exponent. */
export function significant(value: number, digits: number): string {
  const magnitude = Math.abs(value);
  if (magnitude === 0) return "0";
  const decimals = Math.max(0, Math.min(12, digits - 1 - Math.floor(Math.log10(magnitude))));
  const text = value.toFixed(decimals);
  const trimmed = text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  return trimmed.replace("-", "\u2212");
}

/** Formats a whole number with its digits in groups. (Intl would do, but loading it takes longer than comparing a small capture.) */
export function formatCount(n: number): string {
  return n.toFixed(0).replace(/(?<=\d)(?=(\d{3})+$)/g, ",");
}

/** "1 packet", "2,000 packets". */
export function countOf(n: number, what: string): string {
  return `${formatCount(n)} ${what}${n === 1 ? "" : "s"}`;
}

export function countOrNot(n: number | null): string {
  return n === null ? "no answer" : formatCount(n);
}

/** Formats bytes in decimal units. */
export function formatBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let value = bytes;
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${significant(value, 3)}${THIN_SPACE}${units[unit]}`;
}

/** Formats bits per second in decimal units: "6.46 Mbit/s". */
export function formatBitRate(bitsPerSecond: number): string {
  const units = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];
  let value = bitsPerSecond;
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${significant(value, 3)} ${units[unit]}`;
}

const RATE_UNITS: Readonly<Record<string, number>> = { "": 1, k: 1e3, m: 1e6, g: 1e9 };

/** Parses 60mbit, 10gbit … as bit/s; null if the text is not a rate. */
export function parseBitRate(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?)\s*([kmg]?)(?:bit)?(?:\/s)?$/i.exec(text.trim());
  const unit = RATE_UNITS[(match?.[2] ?? "").toLowerCase()];
  return match && unit !== undefined ? Number(match[1]) * unit : null;
}

/** Formats a share of 1 as per cent. A share above zero never reads as zero, and a share below 1 never reads as 100 %. */
export function formatShare(share: number): string {
  const percent = share * 100;
  if (percent === 0) return `0${THIN_SPACE}%`;
  if (Math.abs(percent) < 0.0001) return `<${THIN_SPACE}0.0001${THIN_SPACE}%`;
  // Near 100 % the distance to 100 % counts: 99.9 %, 99.99 %.
  if (percent > 99 && percent < 100) {
    const decimals = Math.min(6, Math.max(1, 1 - Math.floor(Math.log10(100 - percent))));
    const text = percent.toFixed(decimals);
    return `${Number(text) >= 100 ? ">\u202f99.9999" : text.replace(/0+$/, "").replace(/\.$/, "")}${THIN_SPACE}%`;
  }
  return `${significant(percent, 3)}${THIN_SPACE}%`;
}

/** Formats a share of 1 as per cent with fixed decimals, for columns. */
export function formatPercent(share: number | null, digits = 2): string {
  return share === null ? "–" : `${(share * 100).toFixed(digits)} %`;
}

const SIZES: Record<string, number> = { B: 1, kB: 1e3, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 };

/** Parses 500MB, 10GB … as bytes. */
export function parseSize(text: string, parameter = "size"): number {
  const match = /^(\d+(?:\.\d+)?)\s*([kKMGT]?B)?$/.exec(text.trim());
  const bytes = match ? Math.floor(Number(match[1]) * (SIZES[match[2] ?? "B"] ?? 0)) : 0;
  if (!(bytes >= 1)) throw invalidValue(parameter, text, "a size, e.g. 500MB or 10GB");
  return bytes;
}
