/** What the types ask for, checked where it is given: a library's caller may have no compiler, and JSON has no bigint. */
import { invalidValue, oneOf, type UsageCode, UsageError } from "./errors.ts";

export function checkChoice(
  parameter: string,
  value: unknown,
  choices: readonly string[],
  code: UsageCode = "bad-parameter",
): void {
  if (!choices.includes(value as string)) throw invalidValue(parameter, value, oneOf(choices), { code });
}

/** A time or a length of time in ns, as a bigint; left out is well. */
export function checkBigNs(parameter: string, value: unknown, code: UsageCode = "bad-time"): void {
  if (value !== undefined && typeof value !== "bigint")
    throw invalidValue(parameter, shown(value), "ns as a bigint, e.g. 1_000_000_000n", { code });
}

export function checkSeed(seed: unknown): void {
  if (typeof seed !== "bigint")
    throw invalidValue("seed", shown(seed), "a bigint below 2^64", { code: "bad-parameter" });
}

/** A length of time in ns, as a number. */
export function checkNs(parameter: string, value: unknown): void {
  if (typeof value !== "number" || !(value > 0 && Number.isFinite(value)))
    throw invalidValue(parameter, shown(value), "a time above 0, in ns");
}

/** How many: a whole number from `least` on; left out is well. */
export function checkCount(parameter: string, value: unknown, least: number, code: UsageCode): void {
  if (value !== undefined && !(Number.isInteger(value) && (value as number) >= least))
    throw invalidValue(parameter, shown(value), `a whole number of at least ${least}`, { code });
}

export function checkText(parameter: string, value: unknown, expected: string): void {
  if (typeof value !== "string") throw invalidValue(parameter, shown(value), expected);
}

/** A list whose members pass `check`; left out is well where the caller says so before. */
export function checkList(
  parameter: string,
  value: unknown,
  expected: string,
  check: (member: unknown) => boolean,
): void {
  if (!Array.isArray(value) || !value.every(check)) throw invalidValue(parameter, shown(value), expected);
}

/** An object with these functions: what implements one of the library's interfaces. */
export function checkMethods(parameter: string, value: unknown, names: readonly string[]): void {
  const object = value as Record<string, unknown> | null | undefined;
  const missing = names.filter((name) => typeof object?.[name] !== "function");
  if (missing.length > 0)
    throw new UsageError("bad-parameter", `${missing.join(", ")}: no such function`, undefined, {
      ...{ parameter, value, expected: `an object with ${names.join(", ")}` },
    });
}

export const isText = (value: unknown): value is string => typeof value === "string";

/** As far as it can be shown: bigints are numbers, and what refers to itself is an object. */
function shown(value: unknown): unknown {
  if (typeof value !== "object") return value;
  try {
    return JSON.stringify(value, (_, inner) => (typeof inner === "bigint" ? `${inner}` : inner));
  } catch {
    return "an object";
  }
}
