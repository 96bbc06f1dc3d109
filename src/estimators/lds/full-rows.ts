/**
 * Rows that take every packet. There, a flow's packets over its k cells add up to its size, just as the packets of all flows in a cell add up to its count.
 * Both margins together show much better than the layout alone which cells hold a flow's packets (../cells/allocation.ts). Rows that sample have no such
 * margin, because the number of packets they took of a flow was not counted.
 */
import { allocationVariance, fitMargins, sameSum } from "../cells/allocation.ts";
import type { DelaySketch } from "./difference.ts";
import type { FlowSet } from "./flow-set.ts";

/** Flow-major, k cells per flow: packets of the flow in the cell, and their remaining variance. */
export interface FittedRow {
  a: Float64Array;
  open: Float64Array;
}

/** Per row: null if it samples, if a flow has one cell (nothing is uncertain then), or if not all flows and sizes are known. */
export function fitFullRows(sketch: DelaySketch, flows: FlowSet): (FittedRow | null)[] {
  const { k, columns } = sketch.geometry;
  const known = flows.complete && !flows.weights && flows.known.every((known) => known === 1);
  return sketch.rows.map(({ rate, overflowed }, r) => {
    if (!known || k === 1 || rate < 1 || overflowed) return null;
    const counts = sketch.sent.subarray(r * columns, (r + 1) * columns);
    return sameSum(flows.packets, counts) ? fitRow(flows, k, r, columns, counts) : null;
  });
}

function fitRow(flows: FlowSet, k: number, r: number, columns: number, counts: Uint32Array): FittedRow {
  const { count, packets, cells, cellsPerFlow } = flows;
  const starts = new Uint32Array(count + 1);
  const cell = new Uint32Array(count * k);
  const place = new Uint32Array(count * k);
  const a = new Float64Array(count * k);
  let edges = 0;
  for (let f = 0; f < count; f++) {
    starts[f] = edges;
    for (let i = 0; i < k; i++) {
      const c = cells[f * cellsPerFlow + r * k + i]! - r * columns;
      if (counts[c] === 0) continue;
      cell[edges] = c;
      place[edges] = f * k + i;
      a[edges++] = packets[f]! / k;
    }
  }
  starts[count] = edges;
  const table = { starts, cell: cell.subarray(0, edges), a: a.subarray(0, edges) };
  const certain = fitMargins(table, packets, counts);
  const row = { a: new Float64Array(count * k), open: new Float64Array(count * k) };
  for (let f = 0; f < count; f++) {
    for (let e = starts[f]!; e < starts[f + 1]!; e++) {
      row.a[place[e]!] = a[e]!;
      row.open[place[e]!] = certain[e] === 1 ? 0 : allocationVariance(a[e]!, packets[f]!, counts[cell[e]!]!);
    }
  }
  return row;
}
