/**
 * Places the known flows on the counters: which usable cells a flow has, and how many of its packets to expect in each.
 *
 * Of p packets, a cell of vector v gets p q_v / m in the mean (binomial). If two of a flow's m counters share a cell, it gets twice that, and the cell is
 * listed once. The cell's own count is more informative: the expectations are conditional on it.
 */

import { allocationVariance, fitMargins, sameSum } from "../cells/allocation.ts";
import type { KnownFlows } from "../estimator.ts";
import type { Difference } from "./difference.ts";

export interface FlowGraph {
  flows: number;
  /** Edges of flow f: [starts[f], starts[f + 1]). */
  starts: Uint32Array;
  cell: Uint32Array;
  /** Expected packets of the flow in the cell. */
  a: Float64Array;
  /** Probability that a packet of the flow falls into the cell. */
  rho: Float64Array;
  /** Variance of the number of the flow's packets in the cell, given the counts. */
  open: Float64Array;
  packets: Float64Array;
  complete: boolean;
  /** Per cell: packets expected of listed flows before looking at its count; sum of a^2. */
  expected: Float64Array;
  squares: Float64Array;
  /** Per cell: packets of unlisted flows, and the mean of their square. */
  left: Float64Array;
  leftSquare: Float64Array;
  /** Per cell: variance of the allocation per unit of V, and of jitter per unit of s^2. */
  chance: Float64Array;
  jitter: Float64Array;
  /** Per cell: variance of its count. */
  countVariance: Float64Array;
}

/** Edges with fewer packets are left to the background: they carry no information. */
const MINIMUM = 1e-4;

export function layFlows(difference: Difference, known: KnownFlows, places: Uint32Array): FlowGraph {
  const { layout, usable, sent } = difference;
  const bySize = known.complete && sameSum(known.packets, sent);
  const laid = layEdges(difference, known, places, bySize ? sent.map((n) => (n > 0 ? 1 : 0)) : usable);
  const { n } = layout;
  const graph: FlowGraph = {
    ...laid,
    flows: known.count,
    open: new Float64Array(laid.a.length),
    packets: known.packets,
    complete: known.complete,
    squares: new Float64Array(n),
    left: new Float64Array(n),
    leftSquare: new Float64Array(n),
    chance: new Float64Array(n),
    jitter: new Float64Array(n),
    countVariance: new Float64Array(n),
  };
  if (!bySize) {
    scale(graph, difference);
    return graph;
  }
  const certain = fitMargins(graph, graph.packets, sent);
  const kept = onlyUsable({ ...graph, open: Float64Array.from(certain) }, usable);
  settle(kept, difference);
  return kept;
}

type Edges = Pick<FlowGraph, "starts" | "cell" | "a" | "rho" | "expected">;

/** Places every flow on its cells in `taken`, with the packets expected there from the layout. */
function layEdges(
  { layout }: Difference,
  known: KnownFlows,
  places: Uint32Array,
  taken: ArrayLike<number>,
): Edges {
  const { n, m, q } = layout;
  const perFlow = q.length * m;
  const flows = known.count;
  const starts = new Uint32Array(flows + 1);
  let room = 0;
  for (let e = 0; e < places.length; e++) room += taken[places[e]!]!;
  const cell = new Uint32Array(room);
  const a = new Float64Array(room);
  const rho = new Float64Array(room);
  const expected = new Float64Array(n);
  // Edge of the current flow at each cell, as edge + 1.
  const seen = new Uint32Array(n);
  let edges = 0;
  for (let f = 0; f < flows; f++) {
    starts[f] = edges;
    const p = known.packets[f]!;
    if (!(p > 0)) continue;
    for (let i = 0; i < perFlow; i++) {
      const c = places[f * perFlow + i]!;
      if (taken[c] === 0) continue;
      const share = q[Math.floor(i / m)]! / m;
      if (p * share < MINIMUM) continue;
      const before = seen[c]!;
      const edge = before > starts[f]! ? before - 1 : edges++;
      if (edge !== before - 1) {
        seen[c] = edge + 1;
        cell[edge] = c;
      }
      rho[edge]! += share;
      a[edge]! += p * share;
      expected[c]! += p * share;
    }
  }
  starts[flows] = edges;
  const used = { cell: cell.subarray(0, edges), a: a.subarray(0, edges), rho: rho.subarray(0, edges) };
  return { starts, ...used, expected };
}

/** Drops edges to unusable cells, and edges with hardly a packet. */
function onlyUsable(graph: FlowGraph, usable: Uint8Array): FlowGraph {
  const { flows, starts, cell, a, rho, open } = graph;
  const kept = new Uint32Array(flows + 1);
  let edges = 0;
  for (let f = 0; f < flows; f++) {
    const [from, to] = [starts[f]!, starts[f + 1]!];
    kept[f] = edges;
    for (let e = from; e < to; e++) {
      if (usable[cell[e]!] === 0 || a[e]! < MINIMUM) continue;
      cell[edges] = cell[e]!;
      a[edges] = a[e]!;
      rho[edges] = rho[e]!;
      open[edges] = open[e]!;
      edges++;
    }
  }
  kept[flows] = edges;
  return {
    ...graph,
    ...{ starts: kept, cell: cell.subarray(0, edges), a: a.subarray(0, edges), rho: rho.subarray(0, edges) },
    open: open.subarray(0, edges),
  };
}

/** Computes the uncertainty left by the fitted margins. */
function settle(graph: FlowGraph, { packets: counts }: Difference): void {
  const { flows, starts, cell, a, rho, open, packets, squares, chance, jitter, countVariance } = graph;
  const sums = new Float64Array(counts.length);
  for (let e = 0; e < cell.length; e++) sums[cell[e]!]! += a[e]!;
  for (let f = 0; f < flows; f++) {
    const p = packets[f]!;
    for (let e = starts[f]!; e < starts[f + 1]!; e++) {
      const c = cell[e]!;
      // Edges that were too thin are missing from the sum.
      a[e]! *= counts[c]! / sums[c]!;
      rho[e] = Math.min(1, a[e]! / p);
      open[e] = open[e] === 1 ? 0 : allocationVariance(a[e]!, p, counts[c]!);
      squares[c]! += a[e]! * a[e]!;
      chance[c]! += open[e]!;
      jitter[c]! += a[e]! * (1 - rho[e]!);
      countVariance[c] = jitter[c]!;
    }
  }
}

/**
 * Makes the expectations conditional on the cells' counts. A cell's count N is the sum of its flows' binomial parts (means a, variances v) and of packets of
 * unlisted flows (mean L, variance B, the same for all cells of a vector). The excess of N over the mean is divided by variance: E[n | N] = a + v d / (B + sum
 * v) with d = N - L - sum a, and likewise for the unlisted part. If all flows are known, L and B are 0.
 */
function scale(graph: FlowGraph, difference: Difference): void {
  const { cell, a, rho, open, expected, squares, left, leftSquare, chance, jitter, countVariance } = graph;
  const { packets: counts, vector } = difference;
  const n = expected.length;
  const spread = new Float64Array(n);
  for (let e = 0; e < cell.length; e++) spread[cell[e]!]! += a[e]! * (1 - rho[e]!);
  const unlisted = graph.complete ? null : unlistedPackets(difference, expected, spread);
  const per = new Float64Array(n);
  for (let c = 0; c < n; c++) {
    if (counts[c] === 0) continue;
    const { mean, variance } = unlisted?.[vector[c]!] ?? { mean: 0, variance: 0 };
    const total = spread[c]! + variance;
    const excess = counts[c]! - mean - expected[c]!;
    per[c] = total > 0 ? excess / total : 0;
    const rest = Math.min(counts[c]!, Math.max(0, mean + variance * per[c]!));
    left[c] = rest;
    leftSquare[c] = rest * rest + (total > 0 ? (variance * spread[c]!) / total : 0);
  }
  const share = new Float64Array(n);
  for (let e = 0; e < cell.length; e++) {
    const c = cell[e]!;
    a[e] = Math.max(MINIMUM, a[e]! + a[e]! * (1 - rho[e]!) * per[c]!);
    share[c]! += a[e]!;
  }
  const spreadSquares = new Float64Array(n);
  spread.fill(0);
  for (let e = 0; e < cell.length; e++) {
    const c = cell[e]!;
    // Parts clipped at 0 make the sum differ from the count.
    a[e]! *= (counts[c]! - left[c]!) / share[c]!;
    squares[c]! += a[e]! * a[e]!;
    const v = a[e]! * (1 - rho[e]!);
    spread[c]! += v;
    spreadSquares[c]! += v * v;
  }
  for (let c = 0; c < n; c++) {
    if (counts[c] === 0) continue;
    // Given the sum, the counts of several flows vary less: diag(v) - v v' / sum v.
    const total = spread[c]! + (unlisted?.[vector[c]!]?.variance ?? 0);
    chance[c] = total > 0 ? spread[c]! - spreadSquares[c]! / total : 0;
    jitter[c] = spread[c]!;
    countVariance[c] = total;
  }
  for (let e = 0; e < cell.length; e++) {
    const v = a[e]! * (1 - rho[e]!);
    const total = countVariance[cell[e]!]!;
    open[e] = total > 0 ? v * Math.max(0, 1 - v / total) : 0;
  }
}

/** Mean and variance, over the cells of each vector, of packets that no listed flow explains. */
function unlistedPackets(
  { usable, sent, received, packets, vector, layout }: Difference,
  expected: Float64Array,
  spread: Float64Array,
): { mean: number; variance: number }[] {
  const zero = () => layout.q.map(() => 0);
  const [cells, sums, squares] = [zero(), zero(), zero()];
  const look = (add: (v: number, c: number, rest: number) => void) => {
    for (let c = 0; c < expected.length; c++) {
      // Empty cells count too; without them the mean would be too high.
      if (usable[c] === 1 || (sent[c] === 0 && received[c] === 0))
        add(vector[c]!, c, packets[c]! - expected[c]!);
    }
  };
  look((v, _, rest) => {
    cells[v]!++;
    sums[v]! += rest;
  });
  const means = sums.map((s, v) => Math.max(0, s / Math.max(1, cells[v]!)));
  look((v, c, rest) => {
    squares[v]! += (rest - means[v]!) ** 2 - spread[c]!;
  });
  return means.map((mean, v) => ({ mean, variance: Math.max(mean, squares[v]! / Math.max(1, cells[v]!)) }));
}
