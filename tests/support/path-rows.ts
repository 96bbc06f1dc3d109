/** Rows of the segments of a path A → B → C whose second segment is slow for a while: for tests of paths and alerts. */
import { Combination } from "../../src/collect/combine.ts";
import type { SegmentRow } from "../../src/results/rows.ts";
import { storeRows } from "./store-rows.ts";

export const START_NS = 1_750_000_000_000_000_000n;
export const SECOND_NS = 1_000_000_000n;
export const PATH = { name: "north", points: ["A", "B", "C"], estimator: null };
export const SLOW = { first: 60, last: 75 };
const [template] = storeRows(0, 1).segments;

export function pathRow(from: string, to: string, epoch: number): SegmentRow {
  const combination = new Combination();
  const isSlow = from === "B" && epoch >= SLOW.first && epoch < SLOW.last;
  const meanNs = 1e6 + 2e4 * Math.sin(epoch * (from === "A" ? 1.3 : 1.7)) + (isSlow ? 5e6 : 0);
  const mean = { valueNs: meanNs, lowNs: meanNs - 1e4, highNs: meanNs + 1e4 };
  combination.add({ mean, stdev: mean, packets: 500, lost: 0, used: 500 });
  const startNs = START_NS + BigInt(epoch) * SECOND_NS;
  return {
    ...(template as SegmentRow),
    ...{ segment: { from, to, label: "" }, startNs, endNs: startNs + SECOND_NS, edges: 0 },
    ...{ sent: 500, received: 500, lost: 0, dropped: null, cutShift: null, state: combination.state() },
  };
}

export const pathRows = (from: string, to: string, first: number, last: number) =>
  Array.from({ length: last - first }, (_, i) => pathRow(from, to, first + i));
