/**
 * Timestamps that are off by more than a delay can be: one wrong one spoils the cell that it falls into, and no more; where most cells are spoilt (a clock that
 * counts from 1970, ends that are days apart, sums that wrapped) nothing can be trusted and there is no answer.
 */
import { median } from "../../base/math/regression.ts";
import type { NoAnswer } from "../estimator.ts";

/** What a cell's sum may be off by: a minute, and a second for each packet. Delays are shorter, wrong timestamps are off by years. */
const MAX_NS = 60e9;
const MAX_PER_PACKET_NS = 1e9;

export interface OutlierCells {
  cells: number[];
  /** They are the rule, not the exception. */
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
