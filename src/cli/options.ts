/** Options that several commands share, parsed in the same way everywhere. */
import { Option } from "commander";
import { invalidValue, oneOf, type UsageCode, UsageError } from "../base/errors.ts";
import { formatCount, parseBitRate, parseSize } from "../base/quantity.ts";
import { formatDuration, parseDuration, parseTime } from "../base/time.ts";

/** For commander: parses `--window 250ms` to ns. */
export function durationOption(flag: string): (text: string) => number {
  return (text) => {
    const ns = parse(flag, text);
    if (!(ns > 0)) throw invalid(flag, text, "a time above 0, e.g. 1s, 250ms or 10us", "bad-time");
    return ns;
  };
}

/** For commander: parses a point in time, such as `--from 2026-11-15T04:00:00Z`. */
export function instantOption(flag: string): (text: string) => bigint {
  return (text) => named(flag, text, parseTime);
}

/** Makes an option that takes a time; help shows its default as one would type it. */
export function timeOption(flags: string, description: string, defaultNs: number): Option {
  const option = new Option(flags, description).default(defaultNs, typed(defaultNs));
  return option.argParser(durationOption(option.long ?? flags));
}

/** Formats a duration as one would type it: 10s, 250ms. */
export function typed(ns: number): string {
  return formatDuration(ns).replace(" ", "").replace("µ", "u");
}

const parse = (flag: string, text: string): number => named(flag, text, parseDuration);

/** Calls `read`; its error is reported as an error of the flag. */
export function named<T>(flag: string, text: string, read: (text: string) => T): T {
  try {
    return read(text);
  } catch (cause) {
    if (!(cause instanceof UsageError)) throw cause;
    const { problem, hint } = cause;
    throw new UsageError(cause.code, problem, hint, { parameter: plain(flag), value: text, cause });
  }
}

function invalid(flag: string, text: string, expected: string, code: UsageCode = "bad-option"): UsageError {
  return invalidValue(plain(flag), text, expected, { code });
}

const plain = (flag: string) => flag.replace(/^--/, "");

export function integerOption(
  flag: string,
  min: number,
  max = Number.MAX_SAFE_INTEGER,
): (text: string) => number {
  return (text) => {
    const n = text.trim() === "" ? Number.NaN : Number(text);
    if (!Number.isInteger(n) || n < min || n > max) {
      const range =
        max === Number.MAX_SAFE_INTEGER
          ? `of at least ${formatCount(min)}`
          : `from ${formatCount(min)} to ${formatCount(max)}`;
      throw invalid(flag, text, `a whole number ${range}`);
    }
    return n;
  };
}

export function choiceOption<T extends string>(flag: string, choices: readonly T[]): (text: string) => T {
  return (text) => {
    if (!(choices as readonly string[]).includes(text)) throw invalid(flag, text, oneOf(choices));
    return text as T;
  };
}

/** Parses a share between 0 and 1, both exclusive (with `zero`, 0 is allowed): `0.95` or `95%`. */
export function shareOption(flag: string, { zero = false } = {}): (text: string) => number {
  return (text) => {
    const match = /^\s*([0-9.eE+-]+)\s*(%?)\s*$/.exec(text);
    const share = match ? Number(match[1]) / (match[2] === "%" ? 100 : 1) : Number.NaN;
    if (!((share > 0 || (zero && share === 0)) && share < 1)) {
      throw invalid(flag, text, "a share between 0 and 1, e.g. 0.95 or 95%");
    }
    return share;
  };
}

/** Larger numbers are not exact, and larger than any quantity here. */
const MAX_POSITIVE = 1e15;

/** Parses a number above 0, also in the form 5e6. */
export function positiveOption(flag: string): (text: string) => number {
  return (text) => {
    const n = text.trim() === "" ? Number.NaN : Number(text);
    if (!(n > 0 && n <= MAX_POSITIVE)) throw invalid(flag, text, "a number above 0, at most 1e15");
    return n;
  };
}

/** Parses 60mbit, 10gbit … to bit/s. */
export function rateOption(text: string): number {
  const rate = parseBitRate(text);
  if (rate === null) throw invalid("--drain", text, "a rate, e.g. 60mbit or 10gbit");
  return rate;
}

/** Parses 500MB, 10GB … to bytes. */
export function sizeOption(parameter: string): (text: string) => number {
  return (text) => parseSize(text, parameter);
}
