/** Checks parameters of library calls at run time: the caller may not use TypeScript, and JSON has no bigint. */
import { invalidValue, oneOf, type UsageCode, UsageError } from "./errors.ts";

export function checkChoice(
  parameter: string,
  value: unknown,
  choices: readonly string[],
  code: UsageCode = "bad-parameter",
): void {
  if (!choices.includes(value as string)) throw invalidValue(parameter, value, oneOf(choices), { code });
}

/** Checks a time or a duration in ns given as a bigint; undefined is accepted. */
export function checkBigNs(parameter: string, value: unknown, code: UsageCode = "bad-time"): void {
  if (value !== undefined && typeof value !== "bigint")
    throw invalidValue(parameter, shown(value), "ns as a bigint, e.g. 1_000_000_000n", { code });
}

export function checkSeed(seed: unknown): void {
  if (typeof seed !== "bigint")
    throw invalidValue("seed", shown(seed), "a bigint below 2^64", { code: "bad-parameter" });
}

/** Checks a duration in ns given as a number. */
export function checkNs(parameter: string, value: unknown): void {
  if (typeof value !== "number" || !(value > 0 && Number.isFinite(value)))
    throw invalidValue(parameter, shown(value), "a time above 0, in ns");
}

/** Checks a whole number of at least `least`; undefined is accepted. */
export function checkCount(parameter: string, value: unknown, least: number, code: UsageCode): void {
  if (value !== undefined && !(Number.isInteger(value) && (value as number) >= least))
    throw invalidValue(parameter, shown(value), `a whole number of at least ${least}`, { code });
}

export function checkText(parameter: string, value: unknown, expected: string): void {
  if (typeof value !== "string") throw invalidValue(parameter, shown(value), expected);
}

/** Checks that a value is a list whose members all pass `check`. Undefined is not accepted: the caller tests for it first. */
export function checkList(
  parameter: string,
  value: unknown,
  expected: string,
  check: (member: unknown) => boolean,
): void {
  if (!Array.isArray(value) || !value.every(check)) throw invalidValue(parameter, shown(value), expected);
}

/** Checks that a value is an object with these methods, as an implementation of one of the library's interfaces must be. */
export function checkMethods(parameter: string, value: unknown, names: readonly string[]): void {
  const object = value as Record<string, unknown> | null | undefined;
  const missing = names.filter((name) => typeof object?.[name] !== "function");
  if (missing.length > 0)
    throw new UsageError("bad-parameter", `${missing.join(", ")}: no such function`, undefined, {
      ...{ parameter, value, expected: `an object with ${names.join(", ")}` },
    });
}

export const isText = (value: unknown): value is string => typeof value === "string";

/** Returns a form of the value that JSON can print, as far as possible: bigints become numbers, circular objects become text. */
function shown(value: unknown): unknown {
  if (typeof value !== "object") return value;
  try {
    return JSON.stringify(value, (_, inner) => (typeof inner === "bigint" ? `${inner}` : inner));
  } catch {
    return "an object";
  }
}
