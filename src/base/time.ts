/**
 * Parses and formats durations and instants.
 *
 * A duration is nanoseconds in a double, an instant is nanoseconds since 1970-01-01T00:00:00Z in a bigint (POSIX: no leap seconds). Parsing is exact or fails:
 * nothing is rounded silently. Formatting a duration rounds, for reading only.
 */
import { UsageError } from "./errors.ts";
import { significant, THIN_SPACE } from "./quantity.ts";

const UNIT_NS: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1_000n,
  µs: 1_000n, // U+00B5, the micro sign
  μs: 1_000n, // U+03BC, the Greek letter that many keyboards give
  ms: 1_000_000n,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  min: 60_000_000_000n,
  h: 3_600_000_000_000n,
  d: 86_400_000_000_000n,
};
const DURATION_HINT = "write a number and a unit (ns, us, ms, s, m, h, d), such as 250ms";

/** Returns the nanoseconds of "250ms", "1.5 s", "2m"; negative durations only with `signed`. */
export function parseDuration(text: string, options: { signed?: boolean } = {}): number {
  const bad = (what: string, hint = DURATION_HINT) =>
    new UsageError("bad-time", `'${text}' is not a duration: ${what}`, hint);
  const match = /^([+-]?)(\d+)(?:\.(\d+))?\s*(\S*)$/.exec(text.trim());
  if (match === null) throw bad("it does not start with a number");
  const [, sign, whole, fraction = "", unit] = match as unknown as [string, string, string, string?, string?];
  if (unit === undefined || unit === "") throw bad("the unit is missing");
  const unitNs = Object.hasOwn(UNIT_NS, unit) ? UNIT_NS[unit] : undefined;
  if (unitNs === undefined) throw bad(`unknown unit '${unit}'`);
  if (sign === "-" && options.signed !== true)
    throw bad("it is negative", "write a duration that is not negative");
  const scale = 10n ** BigInt(fraction.length);
  const scaled = BigInt(whole + fraction) * unitNs;
  if (scaled % scale !== 0n) throw bad("it is not a whole number of nanoseconds", "use fewer decimals");
  const exact = scaled / scale;
  const ns = Number(exact);
  // Beyond 2^53 ns (104 days) a double is exact only for round numbers: 365d is exact, 365d plus one nanosecond is not.
  if (!Number.isFinite(ns) || BigInt(ns) !== exact)
    throw bad("it is too long to be exact", "use a coarser unit");
  return sign === "-" && ns !== 0 ? -ns : ns;
}

const SHOWN: readonly { unit: string; ns: number; below: number }[] = [
  { unit: "ns", ns: 1, below: 1000 },
  { unit: "µs", ns: 1e3, below: 1000 },
  { unit: "ms", ns: 1e6, below: 1000 },
  { unit: "s", ns: 1e9, below: 60 },
  { unit: "min", ns: 6e10, below: 60 },
  { unit: "h", ns: 3.6e12, below: 24 },
  { unit: "d", ns: 8.64e13, below: Infinity },
];

/** Formats a duration for reading: "17.79 ms", "950 ns", "-4.41 µs". Trailing zeros are kept if digits were lost, dropped if the value is exact. */
export function formatDuration(ns: number): string {
  if (!Number.isFinite(ns)) throw new RangeError(`${ns} ns is not a duration`);
  const magnitude = Math.abs(ns);
  for (const { unit, ns: unitNs, below } of SHOWN) {
    const value = magnitude / unitNs;
    const shown = value.toFixed(value < 99.995 ? 2 : 1);
    // 999.96 µs would be shown as 1000.0 µs: use the next unit instead.
    if (Number(shown) >= below) continue;
    const digits = Number(shown) === value ? String(Number(shown)) : shown;
    return `${ns < 0 && Number(shown) !== 0 ? "-" : ""}${digits} ${unit}`;
  }
  throw new Error("the last unit has no upper limit");
}

/**
 * Formats a duration for pages and axes, with four significant digits, thin spaces and a true minus sign: `812 ns`, `31.25 µs`, `1.204 ms`, `36.99 s`, `2 h 05
 * min`.
 */
export function formatNs(ns: number, digits = 4): string {
  const magnitude = Math.abs(ns);
  // Rounding may carry into the next unit (999.99 µs is 1 ms), so each limit is lower by half a last digit.
  const carry = 1 - 0.5 * 10 ** -digits;
  if (magnitude < 1e3 * carry) return `${significant(ns, digits)}${THIN_SPACE}ns`;
  if (magnitude < 1e6 * carry) return `${significant(ns / 1e3, digits)}${THIN_SPACE}µs`;
  if (magnitude < 1e9 * carry) return `${significant(ns / 1e6, digits)}${THIN_SPACE}ms`;
  if (magnitude < 600e9 * carry) return `${significant(ns / 1e9, digits)}${THIN_SPACE}s`;
  const sign = ns < 0 ? "\u2212" : "";
  const seconds = Math.round(magnitude / 1e9);
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  const pad = (n: number) => String(n).padStart(2, "0");
  if (hours === 0) return `${sign}${minutes} min ${pad(seconds % 60)}${THIN_SPACE}s`;
  if (hours < 48) return `${sign}${hours} h ${pad(minutes)} min`;
  return `${sign}${Math.floor(hours / 24)} d ${pad(hours % 24)} h`;
}

/** Formats how long something lasts: 14 s, 5 min, 2.5 h, 3 days. */
export function formatLasting(ms: number): string {
  const s = Math.abs(ms) / 1000;
  if (s < 1) return `${significant(s * 1000, 3)}${THIN_SPACE}ms`;
  if (s < 90) return `${significant(s, s < 10 ? 2 : 3)}${THIN_SPACE}s`;
  if (s < 5400) return `${Math.round(s / 60)}${THIN_SPACE}min`;
  if (s < 48 * 3600) return `${significant(s / 3600, 2)}${THIN_SPACE}h`;
  return `${Math.round(s / 86_400)} days`;
}

const TIME_HINT =
  "write nanoseconds (1700000000000000000), seconds with a point (1700000000.0) or 2023-11-14T22:13:20.5Z";
const NS_PER_DAY = 86_400_000_000_000n;

/** Parses an instant: an integer (nanoseconds since 1970), a decimal (seconds), or ISO 8601 with a zone. */
export function parseTime(text: string): bigint {
  const bad = (what: string) => new UsageError("bad-time", `'${text}' is not a time: ${what}`, TIME_HINT);
  const trimmed = text.trim();
  if (/^[+-]?\d+$/.test(trimmed)) return BigInt(trimmed.replace("+", ""));
  const decimal = /^([+-]?)(\d+)\.(\d+)$/.exec(trimmed);
  if (decimal !== null) {
    const [, sign, seconds, fraction] = decimal as unknown as [string, string, string, string];
    if (fraction.length > 9) throw bad("it is finer than a nanosecond");
    const ns = BigInt(seconds + fraction.padEnd(9, "0"));
    return sign === "-" ? -ns : ns;
  }
  const iso =
    /^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?([Zz]|[+-]\d\d(?::?\d\d)?)?$/.exec(
      trimmed,
    );
  if (iso === null) throw bad("it is neither a number nor ISO 8601 with date and time of day");
  const [year, month, day, hour, minute, second] = iso.slice(1, 7).map((s) => Number(s ?? 0)) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const fraction = iso[7] ?? "";
  const zone = iso[8];
  if (fraction.length > 9) throw bad("it is finer than a nanosecond");
  if (zone === undefined) throw bad("the zone is missing (Z or an offset such as +01:00)");
  if (month < 1 || month > 12) throw bad(`invalid month ${month}`);
  if (day < 1 || day > daysInMonth(year, month)) throw bad(`that month has no day ${day}`);
  if (hour > 23) throw bad(`invalid hour ${hour}`);
  if (minute > 59) throw bad(`invalid minute ${minute}`);
  if (second > 59) throw bad(`invalid second ${second} (POSIX time has no leap seconds)`);
  let offsetMinutes = 0;
  if (zone !== "Z" && zone !== "z") {
    const hours = Number(zone.slice(1, 3));
    const minutes = Number(zone.slice(3).replace(":", "") || 0);
    if (hours > 23 || minutes > 59) throw bad(`invalid zone ${zone}`);
    offsetMinutes = (zone[0] === "-" ? -1 : 1) * (hours * 60 + minutes);
  }
  const minutes = daysSince1970(year, month, day) * 1440 + hour * 60 + minute - offsetMinutes;
  return BigInt(minutes * 60 + second) * 1_000_000_000n + BigInt(fraction.padEnd(9, "0"));
}

/** Formats an instant as ISO 8601 in UTC with `decimals` decimals of the second, rounded down. Years outside 0000–9999 get a sign and at least six digits. */
export function formatTime(ns: bigint, decimals = 9): string {
  // BigInt division truncates towards zero, but days before 1970 must be rounded down.
  const ofDay = ((ns % NS_PER_DAY) + NS_PER_DAY) % NS_PER_DAY;
  const { year, month, day } = dateOf(Number((ns - ofDay) / NS_PER_DAY));
  const seconds = Number(ofDay / 1_000_000_000n);
  const two = (n: number) => String(n).padStart(2, "0");
  const shownYear =
    year >= 0 && year <= 9999
      ? String(year).padStart(4, "0")
      : (year < 0 ? "-" : "+") + String(Math.abs(year)).padStart(6, "0");
  const clock = `${two(Math.floor(seconds / 3600))}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  const fraction = String(ofDay % 1_000_000_000n).padStart(9, "0");
  const rest = decimals === 0 ? "" : `.${fraction.slice(0, decimals)}`;
  return `${shownYear}-${two(month)}-${two(day)}T${clock}${rest}Z`;
}

/** Formats an instant in UTC for pages, with 0 to 9 decimals of the second: `2024-05-03 12:00:00.250`. */
export function formatInstant(ns: bigint, decimals = 3): string {
  const second = 1_000_000_000n;
  let whole = ns / second;
  let rest = ns % second;
  if (rest < 0n) {
    rest += second;
    whole -= 1n;
  }
  const date = new Date(Number(whole) * 1000);
  if (Number.isNaN(date.getTime())) return `${ns}${THIN_SPACE}ns`;
  const timestamp = date.toISOString().slice(0, -5).replace("T", " ");
  return decimals === 0 ? timestamp : `${timestamp}.${String(rest).padStart(9, "0").slice(0, decimals)}`;
}

function daysInMonth(year: number, month: number): number {
  if (month === 2) return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

// Years start in March, so that the leap day is the last day; 719468 days lie between 0000-03-01 and 1970-01-01.
function daysSince1970(year: number, month: number, day: number): number {
  const y = month <= 2 ? year - 1 : year;
  const dayOfYear = Math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1;
  return y * 365 + Math.floor(y / 4) - Math.floor(y / 100) + Math.floor(y / 400) + dayOfYear - 719468;
}

function dateOf(days: number): { year: number; month: number; day: number } {
  const shifted = days + 719468;
  const era = Math.floor(shifted / 146097);
  const dayOfEra = shifted - era * 146097;
  // Days 1460, 36524 and 146096 of an era are the leap days that the simple division would miscount.
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1460) + Math.floor(dayOfEra / 36524) - Math.floor(dayOfEra / 146096)) /
      365,
  );
  const dayOfYear = dayOfEra - (yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const fromMarch = Math.floor((5 * dayOfYear + 2) / 153);
  const month = fromMarch < 10 ? fromMarch + 3 : fromMarch - 9;
  const year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0);
  return { year, month, day: dayOfYear - Math.floor((153 * fromMarch + 2) / 5) + 1 };
}

/** Returns the later instant (Math.max does not accept bigint). */
export function later(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
export function earlier(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
