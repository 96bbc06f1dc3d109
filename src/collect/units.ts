/**
 * How numbers are written on the report page. Durations have four significant digits whatever their size (an axis needs
 * as many as its steps, no more), thin spaces and a true minus; `formatDuration` of base is the one for terminals.
 */

const THIN = "\u202f";
const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** Four significant digits at most, no trailing zeros, no exponent. */
function significant(value: number, digits: number): string {
  const magnitude = Math.abs(value);
  if (magnitude === 0) return "0";
  const decimals = Math.max(0, Math.min(12, digits - 1 - Math.floor(Math.log10(magnitude))));
  const text = value.toFixed(decimals);
  const trimmed = text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  return trimmed.replace("-", "\u2212");
}

/** A delay or duration: `812 ns`, `31.25 µs`, `1.204 ms`, `36.99 s`, `2 h 05 min`. */
export function formatNs(ns: number, digits = 4): string {
  const magnitude = Math.abs(ns);
  // Rounding may carry into the next unit (999.99 µs is 1 ms), so the limits lie half a last digit lower.
  const carry = 1 - 0.5 * 10 ** -digits;
  if (magnitude < 1e3 * carry) return `${significant(ns, digits)}${THIN}ns`;
  if (magnitude < 1e6 * carry) return `${significant(ns / 1e3, digits)}${THIN}µs`;
  if (magnitude < 1e9 * carry) return `${significant(ns / 1e6, digits)}${THIN}ms`;
  if (magnitude < 600e9 * carry) return `${significant(ns / 1e9, digits)}${THIN}s`;
  const sign = ns < 0 ? "\u2212" : "";
  const seconds = Math.round(magnitude / 1e9);
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  const pad = (n: number) => String(n).padStart(2, "0");
  if (hours === 0) return `${sign}${minutes} min ${pad(seconds % 60)}${THIN}s`;
  if (hours < 48) return `${sign}${hours} h ${pad(minutes)} min`;
  return `${sign}${Math.floor(hours / 24)} d ${pad(hours % 24)} h`;
}

export function formatCount(n: number): string {
  return grouped.format(n);
}

/** Bytes in decimal units, as links are sold. */
export function formatBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let value = bytes;
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${significant(value, 3)}${THIN}${units[unit]}`;
}

/** A share of one as per cent. What is not zero never reads as zero, and what is not all never reads as all. */
export function formatShare(share: number): string {
  const percent = share * 100;
  if (percent === 0) return `0${THIN}%`;
  if (Math.abs(percent) < 0.0001) return `<${THIN}0.0001${THIN}%`;
  // Near one the distance to one is what counts: 99.9 %, 99.99 %.
  if (percent > 99 && percent < 100) {
    const decimals = Math.min(6, Math.max(1, 1 - Math.floor(Math.log10(100 - percent))));
    const text = percent.toFixed(decimals);
    return `${Number(text) >= 100 ? ">\u202f99.9999" : text.replace(/0+$/, "").replace(/\.$/, "")}${THIN}%`;
  }
  return `${significant(percent, 3)}${THIN}%`;
}

/** An instant in UTC with as many decimals of the second as asked (0 to 9): `2024-05-03 12:00:00.250`. */
export function formatInstant(ns: bigint, decimals = 3): string {
  const second = 1_000_000_000n;
  let whole = ns / second;
  let rest = ns % second;
  if (rest < 0n) {
    rest += second;
    whole -= 1n;
  }
  const date = new Date(Number(whole) * 1000);
  if (Number.isNaN(date.getTime())) return `${ns}${THIN}ns`;
  const stamp = date.toISOString().slice(0, -5).replace("T", " ");
  return decimals === 0 ? stamp : `${stamp}.${String(rest).padStart(9, "0").slice(0, decimals)}`;
}
