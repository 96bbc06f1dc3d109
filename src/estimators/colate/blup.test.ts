/** The joint prediction of all flows, compared with slow references: the dense system solved by elimination, and exact variances for graphs without loops. */
import { describe, expect, it } from "vitest";
import { Random } from "../../base/random.ts";
import { posteriorVariances, systemOf } from "./blup.ts";
import type { FlowGraph } from "./flow-graph.ts";

/** Builds a graph from its edges [flow, cell, packets]. */
function graphOf(
  flows: number,
  cells: number,
  edges: readonly (readonly [number, number, number])[],
): FlowGraph {
  const sorted = [...edges].sort((x, y) => x[0] - y[0]);
  const starts = new Uint32Array(flows + 1);
  for (const [f] of sorted) starts[f + 1]!++;
  for (let f = 0; f < flows; f++) starts[f + 1]! += starts[f]!;
  const none = () => new Float64Array(cells);
  return {
    flows,
    starts,
    cell: Uint32Array.from(sorted, (e) => e[1]),
    a: Float64Array.from(sorted, (e) => e[2]),
    // No variation within flows: their own share of the noise is 0.
    rho: new Float64Array(sorted.length).fill(0.5),
    open: new Float64Array(sorted.length),
    packets: new Float64Array(flows).fill(100),
    complete: true,
    expected: none().fill(1),
    ...{
      squares: none(),
      left: none(),
      leftSquare: none(),
      chance: none(),
      jitter: none(),
      countVariance: none(),
    },
  };
}

/** Returns P^-1 + A' S^-1 A as rows. */
function dense(graph: FlowGraph, noise: Float64Array, priors: Float64Array): number[][] {
  const { flows, starts, cell, a } = graph;
  const rows = Array.from({ length: flows }, (_, f) => {
    const row = new Array<number>(noise.length).fill(0);
    for (let e = starts[f]!; e < starts[f + 1]!; e++) row[cell[e]!] = a[e]!;
    return row;
  });
  return rows.map((x, f) =>
    rows.map((y, g) => {
      const product = x.reduce((s, v, c) => s + (v * y[c]!) / noise[c]!, 0);
      return product + (f === g ? 1 / priors[f]! : 0);
    }),
  );
}

/** Gauss-Jordan elimination with the right-hand sides in the extra columns. */
function invert(matrix: readonly (readonly number[])[]): number[][] {
  const n = matrix.length;
  const m = matrix.map((row, i) => [...row, ...row.map((_, j) => (i === j ? 1 : 0))]);
  for (let i = 0; i < n; i++) {
    const pivot = m[i]![i]!;
    for (let j = 0; j < 2 * n; j++) m[i]![j]! /= pivot;
    for (let k = 0; k < n; k++) {
      const factor = m[k]![i]!;
      if (k !== i) for (let j = 0; j < 2 * n; j++) m[k]![j]! -= factor * m[i]![j]!;
    }
  }
  return m.map((row) => row.slice(n));
}

describe("the prediction of all flows", () => {
  it("is the solution of the dense system, to a few hundredths of its deviation", () => {
    const random = new Random(1);
    for (let run = 0; run < 20; run++) {
      const [flows, cells] = [30, 12];
      const edges: [number, number, number][] = [];
      for (let f = 0; f < flows; f++) {
        const first = random.below(cells);
        edges.push(
          [f, first, 1 + random.below(50)],
          [f, (first + 1 + random.below(cells - 1)) % cells, 1 + random.below(50)],
        );
      }
      const graph = graphOf(flows, cells, edges);
      const noise = Float64Array.from({ length: cells }, () => 50 + random.below(500));
      const priors = Float64Array.from({ length: flows }, () => 1 + random.float());
      const y = Float64Array.from({ length: cells }, () => 100 * random.normal());
      const system = systemOf(graph, noise, priors, 500);
      const rhs = system.project(y);
      const solved = system.solve(rhs);
      const inverse = invert(dense(graph, noise, priors));
      const exact = inverse.map((row) => row.reduce((s, v, g) => s + v * rhs[g]!, 0));
      const scale = Math.sqrt(exact.reduce((s, v) => s + v * v, 0) / flows);
      for (let f = 0; f < flows; f++) expect(Math.abs(solved[f]! - exact[f]!)).toBeLessThan(0.03 * scale);
    }
  });

  it("has the exact posterior variances where flows and cells make no loops", () => {
    // A chain: flow f is in cells f and f + 1.
    const edges = Array.from({ length: 8 }, (_, f) => [
      [f, f, 10 + 3 * f] as const,
      [f, f + 1, 10 + 3 * f] as const,
    ]).flat();
    const graph = graphOf(8, 9, edges);
    const noise = Float64Array.from({ length: 9 }, (_, c) => 100 + 30 * c);
    const priors = new Float64Array(8).fill(2);
    const prior = { meanNs: 0, meanVariance: 0, flowVariance: 2, packetVariance: 0 };
    const { variance } = posteriorVariances(graph, noise, priors, prior);
    const inverse = invert(dense(graph, noise, priors));
    for (let f = 0; f < 8; f++) expect(variance[f]! / inverse[f]![f]!).toBeCloseTo(1, 6);
  });
});
