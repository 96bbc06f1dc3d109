/** Which of a flow's cells are its own, row by row: what jitter within flows is seen in (../cells/jitter.ts). */
import { type Jitter, jitterOfFlows } from "../cells/jitter.ts";
import type { DelaySketch } from "./difference.ts";
import type { FlowSet } from "./flow-set.ts";

/** Foreign packets that a cell of one's own may hold, of all. */
const MAX_OTHERS = 0.02;
/** Degrees of freedom that jitter must rest on to be believed against what all cells say. */
export const ENOUGH_FREEDOM = 50;

export function measureJitter(sketch: DelaySketch, flows: FlowSet): Jitter {
  const squares = new Float64Array(flows.count);
  const freedom = new Float64Array(flows.count);
  for (let f = 0; f < flows.count; f++) {
    for (let r = 0; r < sketch.geometry.rows; r++) {
      const row = rowOf(sketch, flows, f, r);
      squares[f]! += row.squares;
      freedom[f]! += row.freedom;
    }
  }
  return jitterOfFlows({ squares, freedom }, flows.packets);
}

const found = { squares: 0, freedom: 0 };

/** sum (x - n mean)^2 / n over the cells of a row that are the flow's own. */
function rowOf(sketch: DelaySketch, flows: FlowSet, f: number, r: number): typeof found {
  const { k } = sketch.geometry;
  const share = sketch.shares[r]!;
  const weight = flows.weights?.[f] ?? 1;
  const expected = flows.packets[f]! * share;
  [found.squares, found.freedom] = [0, 0];
  if (share === 1 || expected < 1) return found;
  const own = Math.sqrt(expected) + expected;
  let [n, delays, cells] = [0, 0, 0];
  for (let pass = 0; pass < 2 && (pass === 0 || cells > 1); pass++) {
    const mean = pass === 0 ? 0 : delays / n;
    for (let i = 0; i < k; i++) {
      const c = flows.cells[f * flows.cellsPerFlow + r * k + i]!;
      const packets = sketch.received[c]! / weight;
      if (sketch.usable[c] === 0 || packets - own > MAX_OTHERS * packets) continue;
      const sum = sketch.delaySumNs[c]! / weight;
      if (pass === 0) {
        n += packets;
        delays += sum;
        cells++;
      } else found.squares += (sum - packets * mean) ** 2 / packets;
    }
  }
  if (cells > 1) found.freedom = cells - 1;
  return found;
}
