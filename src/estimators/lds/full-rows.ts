/**
 * Rows that take every packet: there a flow's packets over its k cells make up its size, as the packets of all flows in a cell make up its count. Both margins together say far better
 * than the layout alone which cells hold a flow's packets (../cells/allocation.ts). Rows that sample have no such margin: how many packets of a flow they took nobody counted.
 */
import { allocationVariance, fitMargins, sameSum } from "../cells/allocation.ts";
import type { DelaySketch } from "./difference.ts";
import type { FlowSet } from "./flow-set.ts";

/** Flow-major, k cells per flow: packets of the flow in the cell, and the variance of them that is open. */
export interface FittedRow {
  a: Float64Array;
  open: Float64Array;
}

/** By row; null where it samples, where a flow has one cell (then nothing is open), or where not all flows and their sizes are known. */
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
