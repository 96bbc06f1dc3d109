/** Small statistics and words that studies share. */
import { formatCount } from "../../base/quantity.ts";
import { writeQuantity } from "../../present/figure/axis-scale.ts";

export function average(values: readonly number[]): number {
  return values.reduce((sum, v) => sum + v, 0) / values.length;
}

export function maximum(values: readonly number[]): number {
  return values.reduce((max, v) => Math.max(max, v), -Infinity);
}

/** "1.23 %". */
export function percent(share: number): string {
  return writeQuantity(share, "share");
}

/** "0.54 / 0.93 / 3.3 %": the unit once. */
export function percents(shares: readonly number[]): string {
  return `${shares.map((share) => percent(share).replace(" %", "")).join(" / ")} %`;
}

export function count(value: number): string {
  return formatCount(Math.round(value));
}

/** The upper of two middles. */
export function middle(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}
