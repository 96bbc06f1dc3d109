/** Options that several commands share, parsed the same way everywhere. */
import { UsageError } from "../base/errors.ts";
import { parseDuration } from "../base/time.ts";

/** For commander: `--window 250ms` to ns; what is wrong is named with the flag. */
export function durationOption(flag: string): (text: string) => number {
  return (text) => {
    const ns = parse(flag, text);
    if (!(ns > 0))
      throw new UsageError("bad-time", `${flag} ${text}: must be longer than 0`, "e.g. 1s, 250ms, 10us");
    return ns;
  };
}

/** Trouble with a duration says of which flag. */
function parse(flag: string, text: string): number {
  try {
    return parseDuration(text);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new UsageError(error.code, `${flag}: ${error.message}`, error.hint, { cause: error });
  }
}

export function integerOption(
  flag: string,
  min: number,
  max = Number.MAX_SAFE_INTEGER,
): (text: string) => number {
  return (text) => {
    const n = text.trim() === "" ? Number.NaN : Number(text);
    if (!Number.isInteger(n) || n < min || n > max) {
      const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
      throw new UsageError("bad-flag", `${flag} ${text}: must be a whole number ${range}`);
    }
    return n;
  };
}

export function choiceOption<T extends string>(flag: string, choices: readonly T[]): (text: string) => T {
  return (text) => {
    if (!(choices as readonly string[]).includes(text)) {
      throw new UsageError("bad-flag", `${flag} ${text}: is none of ${choices.join(", ")}`);
    }
    return text as T;
  };
}

/** A share between 0 and 1, both excluded (0 is not with `zero`): `0.95` or `95%`. */
export function shareOption(flag: string, { zero = false } = {}): (text: string) => number {
  return (text) => {
    const match = /^\s*([0-9.eE+-]+)\s*(%?)\s*$/.exec(text);
    const share = match ? Number(match[1]) / (match[2] === "%" ? 100 : 1) : Number.NaN;
    if (!((share > 0 || (zero && share === 0)) && share < 1)) {
      throw new UsageError("bad-flag", `${flag} ${text}: must lie between 0 and 1`, "e.g. 0.95 or 95%");
    }
    return share;
  };
}

/** A number above 0, also as 5e6. */
export function positiveOption(flag: string): (text: string) => number {
  return (text) => {
    const n = text.trim() === "" ? Number.NaN : Number(text);
    if (!(Number.isFinite(n) && n > 0))
      throw new UsageError("bad-flag", `${flag} ${text}: must be a number above 0`);
    return n;
  };
}

/** 60mbit, 10gbit … as bit/s. */
export function rateOption(text: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*([kmg]?)(?:bit)?(?:\/s)?$/i.exec(text.trim());
  if (!match) throw new UsageError("bad-flag", `--drain ${text}: is no rate`, "e.g. 60mbit, 10gbit");
  return (
    Number(match[1]) * { "": 1, k: 1e3, m: 1e6, g: 1e9 }[match[2]!.toLowerCase() as "" | "k" | "m" | "g"]
  );
}
