/**
 * Known flows laid over the counters: which usable cells a flow has, and how many of its packets are to be expected in each.
 *
 * Of p packets a cell of vector v gets p q_v / m in the mean, binomially; where two of a flow's m counters fall together, twice that, and the cell is
 * listed once. The cell's own count says more: expectations are scaled down to it where they exceed it, and up where the list of flows is
 * complete, so that nobody else can be in the cell.
 */
import type { KnownFlows } from "../estimator.ts";
import type { Difference } from "./difference.ts";

export interface FlowGraph {
  flows: number;
  /** Edges of flow f: [starts[f], starts[f + 1]). */
  starts: Uint32Array;
  cell: Uint32Array;
  /** Packets of the flow expected in the cell. */
  a: Float64Array;
  /** Probability that a packet of the flow falls into the cell. */
  rho: Float64Array;
  packets: Float64Array;
  complete: boolean;
  /** Per cell: packets expected of listed flows, sum of squares of that, what no listed flow explains. */
  expected: Float64Array;
  squares: Float64Array;
  left: Float64Array;
  /** Per cell: variance of the allocation, and of jitter, per unit of V and of s^2. */
  chance: Float64Array;
  jitter: Float64Array;
}

/** An edge below so many packets is left to the background: it cannot tell anything. */
const LEAST = 1e-4;

export function layFlows(difference: Difference, known: KnownFlows, places: Uint32Array): FlowGraph {
  const { layout, usable, packets: counts } = difference;
  const { n, m, q } = layout;
  const perFlow = q.length * m;
  const flows = known.count;
  const starts = new Uint32Array(flows + 1);
  let room = 0;
  for (let e = 0; e < places.length; e++) room += usable[places[e]!]!;
  const cell = new Uint32Array(room);
  const a = new Float64Array(room);
  const rho = new Float64Array(room);
  const expected = new Float64Array(n);
  // The edge that a flow has at a cell already, as edge + 1.
  const seen = new Uint32Array(n);
  let edges = 0;
  for (let f = 0; f < flows; f++) {
    starts[f] = edges;
    const p = known.packets[f]!;
    if (!(p > 0)) continue;
    for (let i = 0; i < perFlow; i++) {
      const c = places[f * perFlow + i]!;
      if (usable[c] === 0) continue;
      const share = q[Math.floor(i / m)]! / m;
      if (p * share < LEAST) continue;
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
  const graph: FlowGraph = {
    flows,
    starts,
    cell: cell.subarray(0, edges),
    a: a.subarray(0, edges),
    rho: rho.subarray(0, edges),
    packets: known.packets,
    complete: known.complete,
    expected,
    squares: new Float64Array(n),
    left: new Float64Array(n),
    chance: new Float64Array(n),
    jitter: new Float64Array(n),
  };
  scale(graph, counts);
  return graph;
}

/** Expectations given the cells' counts, and what follows from them for the noise. */
function scale(graph: FlowGraph, counts: Float64Array): void {
  const { cell, a, rho, expected, squares, left, chance, jitter, complete } = graph;
  const spread = new Float64Array(expected.length);
  const spreadSquares = new Float64Array(expected.length);
  for (let e = 0; e < cell.length; e++) {
    const c = cell[e]!;
    if (complete || expected[c]! > counts[c]!) a[e]! *= counts[c]! / expected[c]!;
    squares[c]! += a[e]! * a[e]!;
    const v = a[e]! * (1 - rho[e]!);
    spread[c]! += v;
    spreadSquares[c]! += v * v;
  }
  for (let c = 0; c < expected.length; c++) {
    if (counts[c] === 0) continue;
    const explained = complete && expected[c]! > 0 ? counts[c]! : Math.min(counts[c]!, expected[c]!);
    left[c] = counts[c]! - explained;
    // Given the sum, counts of several flows vary less: diag(v) - v v' / sum v.
    const foreign = spread[c]! + left[c]!;
    chance[c] = foreign > 0 ? spread[c]! - spreadSquares[c]! / foreign : 0;
    jitter[c] = spread[c]!;
  }
}
