/**
 * Selects the counters that a flow does not share, which show the jitter within flows (../cells/jitter.ts). If flows differ in level and their jitter grows
 * with it, a regression over the cells sometimes finds no jitter at all. If hardly any flow is alone in its cells, the regression is still used, with a margin
 * for what its model leaves out.
 */
import { type Jitter, jitterOfFlows } from "../cells/jitter.ts";
import type { Difference } from "./difference.ts";
import type { FlowGraph } from "./flow-graph.ts";

/** A flow is alone in a cell if other flows have at most this share of it. */
const ALONE = 1e-6;
const ENOUGH_FREEDOM = 10;

/** With many flows, few are alone in their cells. These represent the others only if their cells hold at least this share of all packets. */
const MANY_FLOWS = 1000;
const SHARE_ALONE = 0.05;

/** Returns null if too few cells show jitter. */
export function jitterWithinFlows({ packets, delayNs }: Difference, graph: FlowGraph): Jitter | null {
  const { flows, starts, cell, a } = graph;
  const squares = new Float64Array(flows);
  const fourths = new Float64Array(flows);
  const freedom = new Float64Array(flows);
  let [alone, all] = [0, 0];
  const own: number[] = [];
  for (let f = 0; f < flows; f++) {
    own.length = 0;
    let [n, sum] = [0, 0];
    for (let e = starts[f]!; e < starts[f + 1]!; e++) {
      const c = cell[e]!;
      all += a[e]!;
      if (packets[c]! - a[e]! > ALONE * packets[c]!) continue;
      alone += a[e]!;
      n += packets[c]!;
      sum += delayNs[c]!;
      own.push(c);
    }
    if (own.length < 2) continue;
    const mean = sum / n;
    for (const c of own) {
      const square = (delayNs[c]! - packets[c]! * mean) ** 2 / packets[c]!;
      squares[f]! += square;
      fourths[f]! += square * square;
    }
    freedom[f] = own.length - 1;
  }
  const jitter = jitterOfFlows({ squares, fourths, freedom }, graph.packets);
  const crowded = flows >= MANY_FLOWS && alone < SHARE_ALONE * all;
  return jitter.total < ENOUGH_FREEDOM || crowded ? null : jitter;
}
