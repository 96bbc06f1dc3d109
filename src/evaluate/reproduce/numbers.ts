/** Small statistics and number formats that studies share. */
import { formatCount } from "../../base/quantity.ts";
import { writeQuantity } from "../../present/figure/axis-scale.ts";

export function average(values: readonly number[]): number {
  return values.reduce((sum, v) => sum + v, 0) / values.length;
}

export function maximum(values: readonly number[]): number {
  return values.reduce((max, v) => Math.max(max, v), -Infinity);
}

/** Formats a share, e.g. "1.23 %". */
export function percent(share: number): string {
  return writeQuantity(share, "share");
}

/** Formats shares with one unit, e.g. "0.54 / 0.93 / 3.3 %". */
export function percents(shares: readonly number[]): string {
  return `${shares.map((share) => percent(share).replace(" %", "")).join(" / ")} %`;
}

export function count(value: number): string {
  return formatCount(Math.round(value));
}

/** Returns the median; of an even number of values, the upper of the two middle ones. */
export function middle(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}
