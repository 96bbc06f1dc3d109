/** Parses `rows=4,columns=17500,decoder=bp` into an estimator's parameters and formats them again. An error names the wrong value and what is allowed. */
import { closest } from "../base/closest.ts";
import { UsageError } from "../base/errors.ts";
import { parseBitRate } from "../base/quantity.ts";
import { parseDuration } from "../base/time.ts";
import type { Estimator, ParameterSpec, ParameterValues } from "./estimator.ts";

/** Returns the estimator with that name. */
export function findAmong(table: readonly Estimator[], name: string): Estimator {
  const found = table.find((e) => e.name === name);
  if (found) return found;
  const names = table.map((e) => e.name);
  const expected = names.join(", ");
  const near = closest(name, names);
  const hint = `${near === undefined ? "" : `did you mean ${near}? `}expected one of ${expected}`;
  throw new UsageError("bad-option", `unknown estimator '${name}'`, hint, { value: name, expected });
}

export function parseParameters<P extends ParameterValues>(estimator: Estimator<P>, text = ""): P {
  const values = defaultParameters(estimator.parameters);
  for (const part of text.split(",").map((p) => p.trim())) {
    if (part === "") continue;
    const equals = part.indexOf("=");
    const name = equals < 0 ? part : part.slice(0, equals);
    const spec = estimator.parameters.find((s) => s.name === name);
    if (!spec) {
      const names = estimator.parameters.map((s) => s.name);
      const known = names.join(", ");
      const near = closest(name, names);
      const hint = `${near === undefined ? "" : `did you mean ${near}? `}expected one of ${known}`;
      throw new UsageError("bad-parameter", `unknown parameter '${name}'`, hint, {
        parameter: estimator.name,
        value: name,
        expected: known,
      });
    }
    if (equals < 0 && spec.kind !== "flag") {
      throw new UsageError(
        "bad-parameter",
        `'${name}' needs a value`,
        `write ${name}=${describeKind(spec)}`,
        { parameter: estimator.name },
      );
    }
    values[name] = parseValue(estimator.name, spec, equals < 0 ? "true" : part.slice(equals + 1));
  }
  return estimator.complete(values);
}

export function defaultParameters(specs: readonly ParameterSpec[]): ParameterValues {
  return Object.fromEntries(specs.map((spec) => [spec.name, spec.default]));
}

/** Returns the canonical text: every parameter in the order of the specs, new ones only if not the default. `sketchOnly` leaves out query-only parameters. */
export function formatParameters(estimator: Estimator, values: ParameterValues, sketchOnly = false): string {
  return estimator.parameters
    .filter((s) => !(sketchOnly && s.queryOnly) && !(s.isNew && values[s.name] === s.default))
    .map((s) => {
      const v = values[s.name];
      return `${s.name}=${Array.isArray(v) ? v.join("/") : String(v)}`;
    })
    .join(",");
}

function describeKind(spec: ParameterSpec): string {
  if (spec.kind === "choice") return (spec.choices ?? []).join("|");
  if (spec.kind === "list") return "a/b/c";
  return spec.kind.toUpperCase();
}

const EXPECTED: Record<string, string> = {
  integer: "a whole number",
  ns: "a time, e.g. 10s or 250us",
  "bit/s": "a rate, e.g. 60mbit",
};

const plainNumber = (text: string) => (text.trim() === "" ? Number.NaN : Number(text));

/** Returns NaN if the text is neither a bare number nor a number with a unit. */
function withUnit(text: string, unit: "ns" | "bit/s"): number {
  const bare = plainNumber(text);
  if (Number.isFinite(bare)) return bare;
  if (unit === "bit/s") return parseBitRate(text) ?? Number.NaN;
  try {
    return parseDuration(text);
  } catch {
    return Number.NaN;
  }
}

function parseValue(owner: string, spec: ParameterSpec, text: string): number | string | boolean | number[] {
  const wrong = (expected: string) =>
    new UsageError(
      "bad-parameter",
      `${spec.name}: invalid value '${text}' (expected ${expected})`,
      spec.help,
      {
        parameter: owner,
        value: text,
        expected,
      },
    );
  const number = (t: string): number => {
    const n = spec.unit === undefined ? plainNumber(t) : withUnit(t, spec.unit);
    if (!Number.isFinite(n) || (spec.kind === "integer" && !Number.isInteger(n))) {
      throw wrong(EXPECTED[spec.unit ?? spec.kind] ?? "a number");
    }
    if ((spec.min !== undefined && n < spec.min) || (spec.max !== undefined && n > spec.max)) {
      throw wrong(`${spec.min ?? "-∞"} to ${spec.max ?? "∞"}`);
    }
    return n;
  };
  switch (spec.kind) {
    case "integer":
    case "number":
      return number(text);
    case "list":
      return text === "" ? [] : text.split("/").map(number);
    case "choice":
      if (!spec.choices?.includes(text)) throw wrong(`one of ${(spec.choices ?? []).join(", ")}`);
      return text;
    case "flag":
      if (text !== "true" && text !== "false") throw wrong("true or false");
      return text === "true";
    case "text":
      return text;
  }
}
