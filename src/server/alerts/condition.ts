/** Alert conditions: `mean > 20ms`, `loss > 1%`, `coverage < 90%`, `silent > 1m`, `incident`. */
import { invalidValue } from "../../base/errors.ts";
import { parseDuration } from "../../base/time.ts";

/** Units: delays in ns, shares from 0 to 1, `silent` in ns since the point was last heard from. */
export const QUANTITIES = {
  mean: "duration",
  stdev: "duration",
  loss: "share",
  coverage: "share",
  silent: "duration",
} as const;
export type Quantity = keyof typeof QUANTITIES;

export type Condition =
  | { kind: "incident" }
  | { kind: "threshold"; quantity: Quantity; above: boolean; limit: number };

const EXPECTED = "e.g. 'mean > 20ms', 'loss > 1%', 'coverage < 90%', 'silent > 1m' or 'incident'";

export function parseCondition(text: string, parameter = "when"): Condition {
  if (text.trim() === "incident") return { kind: "incident" };
  const [, name = "", sign = "", value = ""] = /^\s*([a-z0-9]+)\s*([<>])\s*(\S.*?)\s*$/.exec(text) ?? [];
  if (!Object.hasOwn(QUANTITIES, name)) throw invalidValue(parameter, text, EXPECTED);
  const quantity = name as Quantity;
  return { kind: "threshold", quantity, above: sign === ">", limit: parseLimit(quantity, value, parameter) };
}

export function parseLimit(quantity: Quantity, text: string, parameter = "limit"): number {
  if (QUANTITIES[quantity] === "duration") return parseDuration(text);
  const match = /^(\d+(?:\.\d+)?)\s*(%?)$/.exec(text);
  const share = match ? Number(match[1]) / (match[2] === "%" ? 100 : 1) : Number.NaN;
  if (!(share >= 0 && share <= 1)) throw invalidValue(parameter, text, "a share, e.g. 1% or 0.01");
  return share;
}
