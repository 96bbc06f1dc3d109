/**
 * Timestamps that are off by more than any delay. A single wrong timestamp spoils only its cell. If most cells are spoilt (a clock that counts from 1970,
 * ends that are days apart, sums that wrapped around), nothing can be trusted and there is no answer.
 */
import { median } from "../../base/math/regression.ts";
import type { NoAnswer } from "../estimator.ts";

/** Limit of a cell's error: one minute, plus one second per packet. Delays are shorter, and wrong timestamps are off by years. */
const MAX_NS = 60e9;
const MAX_PER_PACKET_NS = 1e9;

export interface OutlierCells {
  cells: number[];
  /** More than half of the cells are outliers. */
  most: boolean;
}

export function outlierCells(
  cells: ArrayLike<number>,
  delaySumNs: ArrayLike<number>,
  packets: ArrayLike<number>,
): OutlierCells {
  const list = Array.from(cells);
  const centre = median(list.map((c) => delaySumNs[c]! / packets[c]!)) ?? 0;
  const out = list.filter((c) => {
    const n = packets[c]!;
    return Math.abs(delaySumNs[c]! - n * centre) > MAX_NS + n * MAX_PER_PACKET_NS;
  });
  return { cells: out, most: 2 * out.length > list.length };
}

export const UNTRUSTED: NoAnswer = {
  reason: "overflow",
  text: "the timestamps of the two ends do not fit together (off by minutes to years from packet to packet): correct the clocks first",
};

export function outlierNote(cells: number): string {
  const [hold, they] = cells === 1 ? ["1 cell holds", "it is"] : [`${cells} cells hold`, "they are"];
  return `${hold} a packet whose timestamp is off by more than a minute at one end: ${they} left out`;
}
