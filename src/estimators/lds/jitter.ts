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
  const fourths = new Float64Array(flows.count);
  const freedom = new Float64Array(flows.count);
  for (let f = 0; f < flows.count; f++) {
    const own = ownCells(sketch, flows, f);
    squares[f] = own.squares;
    fourths[f] = own.fourths;
    freedom[f] = own.freedom;
  }
  return jitterOfFlows({ squares, fourths, freedom }, flows.packets);
}

const found = { squares: 0, fourths: 0, freedom: 0, packets: 0, delays: 0, cells: 0 };

/**
 * sum (x - n mean)^2 / n over the cells that are the flow's own, around one mean for all rows: under loss a row has one whole cell or none, and cells of a row that happen to be whole are
 * too few to see the slow packets that another has.
 */
function ownCells(sketch: DelaySketch, flows: FlowSet, f: number): typeof found {
  [found.squares, found.fourths, found.freedom] = [0, 0, 0];
  [found.packets, found.delays, found.cells] = [0, 0, 0];
  for (let r = 0; r < sketch.geometry.rows; r++) addRow(sketch, flows, f, r, null);
  if (found.cells < 2) return found;
  const mean = found.delays / found.packets;
  for (let r = 0; r < sketch.geometry.rows; r++) addRow(sketch, flows, f, r, mean);
  found.freedom = found.cells - 1;
  return found;
}

/** Counts, or with their mean the squares. */
function addRow(sketch: DelaySketch, flows: FlowSet, f: number, r: number, mean: number | null): void {
  const { k } = sketch.geometry;
  const share = sketch.shares[r]!;
  const weight = flows.weights?.[f] ?? 1;
  const expected = flows.packets[f]! * share;
  if (share === 1 || expected < 1) return;
  const own = Math.sqrt(expected) + expected;
  for (let i = 0; i < k; i++) {
    const c = flows.cells[f * flows.cellsPerFlow + r * k + i]!;
    const packets = sketch.received[c]! / weight;
    if (sketch.usable[c] === 0 || packets - own > MAX_OTHERS * packets) continue;
    const sum = sketch.delaySumNs[c]! / weight;
    if (mean !== null) {
      const square = (sum - packets * mean) ** 2 / packets;
      found.squares += square;
      found.fourths += square * square;
    } else {
      found.packets += packets;
      found.delays += sum;
      found.cells++;
    }
  }
}
