/** Shows values of unknown structure: options, details of the clock check, estimates. */
import { formatCount } from "../../src/base/quantity.ts";
import { formatNs } from "../../src/base/time.ts";
import { type Child, el } from "./elements.ts";

const DEEPEST = 3;

/** `{ mean: { valueNs: 5 } }` becomes `[["mean.valueNs", 5]]`. Arrays are not split; a value that is not an object has the name "". */
export function flatten(value: unknown, path = "", depth = 0): [string, unknown][] {
  if (typeof value !== "object" || value === null || Array.isArray(value) || depth > DEEPEST)
    return [[path, value]];
  const entries = Object.entries(value);
  if (entries.length === 0 && path !== "") return [[path, "nothing"]];
  return entries.flatMap(([key, inner]) => flatten(inner, path === "" ? key : `${path}.${key}`, depth + 1));
}

/** Formats a value; names ending in Ns are ns. */
export function readable(name: string, value: unknown, missing = "no answer"): Child {
  if (value === null || value === undefined) return el("span", { class: "muted" }, missing);
  if (typeof value === "number") {
    if (/Ns$/.test(name)) return formatNs(value);
    return Number.isInteger(value) ? formatCount(value) : String(Number(value.toPrecision(6)));
  }
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return el("bdi", {}, value);
  if (Array.isArray(value) && value.length <= 8 && value.every((v) => typeof v !== "object")) {
    return value.length === 0 ? el("span", { class: "muted" }, "none") : value.map(String).join(", ");
  }
  const count = Array.isArray(value) ? `${value.length} items` : "object";
  return el("details", {}, el("summary", {}, count), el("pre", {}, JSON.stringify(value, null, 1)));
}
