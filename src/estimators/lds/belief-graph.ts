/** The known flows in each usable cell and their packets there: the input of belief propagation (belief.ts has the model). */

import { fitVariance, type VarianceFit } from "../cells/variance.ts";
import type { DelaySketch } from "./difference.ts";
import type { FlowSet } from "./flow-set.ts";
import { fitFullRows } from "./full-rows.ts";

/** Flows and the usable cells that hold some of their packets. */
export interface Graph {
  starts: Uint32Array;
  cell: Int32Array;
  /** Expected packets of the flow in the cell, times its weight. */
  a: Float64Array;
  /** Share of the flow's packets outside the cell. The cell's jitter exceeds that of all the flow's packets by this share. */
  apart: Float64Array;
  /** Variance of the flow's packets in the cell, given sizes and counts; only in fitted rows. */
  open: Float64Array;
  /** Per cell: sum of a, sum of a^2, packets that no listed flow explains, and the factor of V in the noise. */
  sum: Float64Array;
  squares: Float64Array;
  left: Float64Array;
  chance: Float64Array;
  /** Per cell: sum of weight x a, the factor of s^2 in E[y^2]. */
  weighted: Float64Array;
  /** Rows whose packets were allocated by the sizes of flows and the counts of cells (full-rows.ts). */
  fitted: readonly boolean[];
}

export function buildGraph(sketch: DelaySketch, flows: FlowSet): Graph {
  const { rows, k } = sketch.geometry;
  const cells = sketch.usable.length;
  const starts = new Uint32Array(flows.count + 1);
  const cell = new Int32Array(flows.cells.length);
  const a = new Float64Array(flows.cells.length);
  const apart = new Float64Array(flows.cells.length);
  const open = new Float64Array(flows.cells.length);
  const fit = fitFullRows(sketch, flows);
  const sum = new Float64Array(cells);
  let edges = 0;
  for (let f = 0; f < flows.count; f++) {
    starts[f] = edges;
    const packets = flows.packets[f]! * (flows.weights?.[f] ?? 1);
    if (!(packets > 0)) continue;
    let at = f * flows.cellsPerFlow;
    for (let r = 0; r < rows; r++) {
      const expected = packets * sketch.shares[r]!;
      for (let i = 0; i < k; i++, at++) {
        const c = flows.cells[at]!;
        if (sketch.usable[c] === 0) continue;
        cell[edges] = c;
        const fitted = fit[r];
        a[edges] = fitted ? fitted.a[f * k + i]! : expected;
        open[edges] = fitted ? fitted.open[f * k + i]! : 0;
        apart[edges] = 1 - (fitted ? Math.min(1, a[edges]! / packets) : sketch.shares[r]!);
        sum[c]! += a[edges++]!;
      }
    }
  }
  starts[flows.count] = edges;

  const squares = new Float64Array(cells);
  const weighted = new Float64Array(cells);
  const chance = new Float64Array(cells);
  for (let f = 0; f < flows.count; f++) {
    const weight = flows.weights?.[f] ?? 1;
    for (let e = starts[f]!; e < starts[f + 1]!; e++) {
      const c = cell[e]!;
      const packets = sketch.received[c]!;
      if (fit[Math.floor(c / sketch.geometry.columns)]) {
        chance[c]! += open[e]!;
        squares[c]! += a[e]! * a[e]!;
        weighted[c]! += a[e]!;
        continue;
      }
      // Given the cell's count, the expectation is scaled to it: always down, but up only if no flow is missing from the list.
      const share = sketch.shares[Math.floor(c / sketch.geometry.columns)]!;
      const doubt = flows.doubt[f]! * (weight * share) ** 2;
      chance[c]! += doubt * (1 - a[e]! / sum[c]!);
      if (sum[c]! > packets || (flows.complete && (share < 1 || doubt > 0))) a[e]! *= packets / sum[c]!;
      squares[c]! += a[e]! * a[e]!;
      weighted[c]! += weight * a[e]!;
    }
  }
  const left = new Float64Array(cells);
  for (let c = 0; c < cells; c++) {
    if (sum[c] === 0 || fit[Math.floor(c / sketch.geometry.columns)]) continue;
    const share = sketch.shares[Math.floor(c / sketch.geometry.columns)]!;
    const packets = sketch.received[c]!;
    if (share === 1 || !flows.complete) left[c] = Math.max(0, packets - sum[c]!);
    if (share === 1) continue;
    const listed = packets - left[c]!;
    chance[c]! += (1 - share) * weighted[c]! * Math.max(0, 1 - squares[c]! / (listed * listed));
  }
  const cut = (values: Float64Array) => values.subarray(0, edges);
  const list = { cell: cell.subarray(0, edges), a: cut(a), apart: cut(apart), open: cut(open) };
  return { starts, ...list, sum, squares, left, chance, weighted, fitted: fit.map((row) => row !== null) };
}

/** Fits V (`first`) and s^2 (`second`) on the cells whose packets the list explains; also returns the number of these cells. */
export function fitPrior(sketch: DelaySketch, graph: Graph): VarianceFit & { cells: number } {
  const chosen = new Uint32Array(graph.sum.length);
  const x1 = new Float64Array(graph.sum.length);
  let n = 0;
  for (let c = 0; c < graph.sum.length; c++) {
    if (graph.sum[c] === 0 || graph.left[c]! > 0.05 * sketch.received[c]!) continue;
    chosen[n++] = c;
    x1[c] = graph.squares[c]! + graph.chance[c]!;
  }
  const fit = fitVariance({
    cells: chosen.subarray(0, n),
    delaySumNs: sketch.delaySumNs,
    packets: sketch.received,
    x1,
    x2: graph.weighted,
  });
  return { ...fit, cells: n };
}
