/** Selects, row by row, the cells that a flow hardly shares; they show the jitter within flows (../cells/jitter.ts). */
import { type Jitter, jitterOfFlows } from "../cells/jitter.ts";
import type { DelaySketch } from "./difference.ts";
import type { FlowSet } from "./flow-set.ts";

/** Maximum share of foreign packets in a cell that counts as the flow's own. */
const MAX_OTHERS = 0.02;
/** Minimum degrees of freedom for this jitter to be preferred over the fit of all cells. */
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
 * sum (x - n mean)^2 / n over the flow's own cells, around one mean for all rows. Under loss, a row has one intact cell or none, and the cells of a row that
 * happen to be intact are too few to include the slow packets seen in another row.
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

/** Without a mean: counts packets; with it: adds the squares. */
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
