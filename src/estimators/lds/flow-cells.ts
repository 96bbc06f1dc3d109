/** The usable cells of one flow, and how many of a cell's packets are the flow's own, as far as counts show. */
import { entryAt } from "../../base/lists.ts";
import type { DelaySketch } from "./difference.ts";
import type { FlowSet } from "./flow-set.ts";

/** The usable cells of one flow, as input for the rules. */
export class FlowCells {
  readonly #sketch: DelaySketch;
  readonly #flows: FlowSet;
  readonly #crowds: Crowd[];
  readonly cells: Int32Array;
  readonly row: Uint32Array;
  /** Packets of the flow in the cell, packets of others, as far as the count shows, and the variance of either. */
  readonly own: Float64Array;
  readonly others: Float64Array;
  readonly doubt: Float64Array;
  length = 0;

  constructor(sketch: DelaySketch, flows: FlowSet) {
    this.#sketch = sketch;
    this.#flows = flows;
    this.#crowds = sketch.rows.map((_, r) => crowdOf(sketch, r));
    this.cells = new Int32Array(flows.cellsPerFlow);
    this.row = new Uint32Array(flows.cellsPerFlow);
    this.own = new Float64Array(flows.cellsPerFlow);
    this.others = new Float64Array(flows.cellsPerFlow);
    this.doubt = new Float64Array(flows.cellsPerFlow);
  }

  read(flow: number): void {
    const { geometry, shares, usable, received } = this.#sketch;
    const weight = this.#flows.weights?.[flow] ?? 1;
    const packets = this.#flows.packets[flow]! * weight;
    this.length = 0;
    for (let j = 0; j < this.#flows.cellsPerFlow; j++) {
      const c = this.#flows.cells[flow * this.#flows.cellsPerFlow + j]!;
      if (usable[c] === 0) continue;
      const row = Math.floor(j / geometry.k);
      const share = shares[row]!;
      const n = received[c]!;
      const expected = packets * share;
      const chance = expected * weight * (1 - share);
      this.cells[this.length] = c;
      this.row[this.length] = row;
      if (chance === 0) splitKnown(n, expected);
      else splitByChance(entryAt(this.#crowds, row), n, expected, chance);
      this.own[this.length] = n - split.others;
      // A flow with a guessed size may have left more packets to others than it seems.
      const guess = this.#flows.doubt[flow]! * (weight * share) ** 2;
      this.others[this.length] = Math.min(n, Math.sqrt(split.others ** 2 + guess));
      this.doubt[this.length++] = split.doubt;
    }
  }
}

/** How many packets the cells of a row hold: share of empty cells, and of cells with 2^b to 2^(b+1) - 1 packets. */
interface Crowd {
  empty: number;
  shares: Float64Array;
}

function crowdOf(sketch: DelaySketch, row: number): Crowd {
  const { columns } = sketch.geometry;
  const shares = new Float64Array(32);
  let empty = 0;
  for (let c = row * columns; c < (row + 1) * columns; c++) {
    if (sketch.sent[c] === 0) empty++;
    else shares[31 - Math.clz32(sketch.sent[c]!)]! += 1;
  }
  for (let bin = 0; bin < 32; bin++) shares[bin]! /= columns;
  return { empty: empty / columns, shares };
}

/** Packets of other flows in a cell, and the variance of that number. */
const split = { others: 0, doubt: 0 };

function splitKnown(n: number, expected: number): void {
  split.others = Math.max(0, n - expected);
  split.doubt = 0;
}

/**
 * For n packets, of which the flow was expected to have `expected` with variance `chance`: others have o packets with the probability that a cell of the row
 * holds o, times the probability that the flow has n - o.
 */
function splitByChance(crowd: Crowd, n: number, expected: number, chance: number): void {
  const deviation = Math.sqrt(chance + 0.25);
  // The normal distribution function, approximated by a logistic function: within 0.01, and cheap.
  const below = (own: number) => 1 / (1 + Math.exp((-1.702 * (own - expected)) / deviation));
  let sum = crowd.empty * (below(n + 0.5) - below(n - 0.5)) + 1e-12;
  let first = 0;
  let second = 0;
  for (let bin = 0, low = 1; bin < 32 && low <= n; bin++, low *= 2) {
    if (crowd.shares[bin] === 0) continue;
    const high = Math.min(2 * low - 1, n);
    const p = (crowd.shares[bin]! / low) * (below(n - low + 0.5) - below(n - high - 0.5));
    const middle = Math.min(high, Math.max(low, n - expected, (low + high) / 2));
    sum += p;
    first += p * middle;
    second += p * (middle * middle + Math.min(chance, ((high - low) * (high - low)) / 12));
  }
  split.others = first / sum;
  split.doubt = Math.max(0, second / sum - split.others * split.others);
}
