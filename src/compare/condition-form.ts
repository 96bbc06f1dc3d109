/**
 * The form of a condition on a measure: `p99>20ms`, `loss>1%`, `bytes>=10MB`, `sent>2k`. The command line and the filter of pages share it, so that a copied
 * condition means the same.
 */
import { parseDuration } from "../base/time.ts";
import { MEASURE_NAMES, MEASURES, type MeasureName } from "./columns.ts";

export const SIGNS = {
  ">": (a: number, b: number) => a > b,
  "<": (a: number, b: number) => a < b,
  ">=": (a: number, b: number) => a >= b,
  "<=": (a: number, b: number) => a <= b,
  "=": (a: number, b: number) => a === b,
} as const;
export type Sign = keyof typeof SIGNS;

export interface MeasureCondition {
  about: "segment" | "reverse" | "flow";
  measure: MeasureName;
  sign: Sign;
  limit: number;
}

const FORM = /^\s*(?:(flow|reverse)\.)?([a-z][a-z0-9.]*)\s*(>=|<=|>|<|=)\s*(\S+(?:\s*\S+)?)\s*$/i;

/** Returns null for text that is not a condition. */
export function readCondition(text: string): MeasureCondition | null {
  const [, about = "segment", name = "", sign = ">", value = ""] = FORM.exec(text) ?? [];
  const measure = MEASURE_NAMES.find((known) => known === name.toLowerCase());
  if (measure === undefined) return null;
  const limit = limitOf(measure, value);
  if (limit === null) return null;
  // No share is above 1: `loss>1` is meant as 1 %, and would never hold.
  if (MEASURES[measure].unit === "share" && (limit > 1 || (limit === 1 && sign === ">"))) return null;
  return { about: about.toLowerCase() as MeasureCondition["about"], measure, sign: sign as Sign, limit };
}

/** Returns whether the text is a condition except for a share above 1, such as `loss>1`. */
export function isLargeShare(text: string): boolean {
  return (
    !text.trim().endsWith("%") && readCondition(text) === null && readCondition(`${text.trim()}%`) !== null
  );
}

const FACTORS: Readonly<Record<string, number>> = { "": 1, k: 1e3, m: 1e6, g: 1e9, t: 1e12 };

function limitOf(measure: MeasureName, text: string): number | null {
  const { unit } = MEASURES[measure];
  if (unit === "ns") {
    try {
      return parseDuration(text, { signed: true });
    } catch {
      return null;
    }
  }
  const [, number = "", written = ""] = /^(\d+(?:\.\d+)?(?:e\d+)?)\s*([a-z%]*)$/i.exec(text) ?? [];
  if (number === "") return null;
  const suffix = written.toLowerCase();
  if (unit === "share") return suffix === "%" ? Number(number) / 100 : suffix === "" ? Number(number) : null;
  const factor = FACTORS[measure === "bytes" ? suffix.replace(/b$/, "") : suffix];
  return factor === undefined ? null : Number(number) * factor;
}
