/**
 * Decoders that look at one flow and its own cells, no other flow known.
 *   smallest    the usable cell with the fewest packets, N / rate compared (section 2.2, and what the paper's figures hold for)
 *   alpha       all usable cells with at most (1 + alpha) times as many, pooled (Fig. 6); at k = 1 it counts interference twice
 *   background  every usable cell with the common mean taken out of it, y = S - mean N, weighed by a^2 / variance and shrunk to the
 *               common mean: beyond the paper
 * Error bars include interference: others' packets in a cell are those beyond the flow's own, and what N of them add is learnt from all cells.
 */
import type { DelaySketch } from "./difference.ts";
import type { FlowSet } from "./flow-set.ts";
import { type Background, backgroundVariance } from "./variance.ts";

export interface CellEstimate {
  meanNs: number;
  variance: number;
}

/** Cells of one flow that are usable, as the rules see them. */
class FlowCells {
  readonly #sketch: DelaySketch;
  readonly #flows: FlowSet;
  readonly #crowds: Crowd[];
  readonly cells: Int32Array;
  readonly row: Uint32Array;
  /** Packets of the flow in the cell, and of others, as far as the count tells; the variance of either. */
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
      else splitByChance(this.#crowds[row]!, n, expected, chance);
      this.own[this.length] = n - split.others;
      // A flow whose size is a guess may have left more to others than it seems.
      const guess = this.#flows.doubt[flow]! * (weight * share) ** 2;
      this.others[this.length] = Math.min(n, Math.sqrt(split.others ** 2 + guess));
      this.doubt[this.length++] = split.doubt;
    }
  }
}

/** How many packets cells of a row hold: shares of the empty ones and of those with 2^b to 2^(b+1) - 1 packets. */
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

/** Others' packets in a cell and the variance of that number. */
const split = { others: 0, doubt: 0 };

function splitKnown(n: number, expected: number): void {
  split.others = Math.max(0, n - expected);
  split.doubt = 0;
}

/**
 * n packets, of which the flow was expected to have `expected` with variance `chance`: others have o with the probability that a cell of the row
 * holds o, times that of the flow having n - o.
 */
function splitByChance(crowd: Crowd, n: number, expected: number, chance: number): void {
  const deviation = Math.sqrt(chance + 0.25);
  // The normal distribution function, as a logistic one: within 0.01, and cheap.
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

export class CellRules {
  readonly #sketch: DelaySketch;
  readonly #flows: FlowSet;
  readonly #background: Background;
  /** Variance of a packet around its flow's mean. */
  readonly #packetVariance: number;
  readonly #flow: FlowCells;

  constructor(sketch: DelaySketch, flows: FlowSet, background: Background, packetVariance: number) {
    this.#sketch = sketch;
    this.#flows = flows;
    this.#background = background;
    this.#packetVariance = packetVariance;
    this.#flow = new FlowCells(sketch, flows);
  }

  smallest(flow: number): CellEstimate | null {
    return this.#pooled(flow, 0);
  }

  alpha(flow: number, alpha: number): CellEstimate | null {
    return this.#pooled(flow, alpha);
  }

  background(flow: number): CellEstimate | null {
    const own = this.#flow;
    own.read(flow);
    const { meanNs, flowVariance } = this.#background;
    let precision = 1 / (flowVariance + 1e-6);
    let weighted = 0;
    let seen = 0;
    for (let j = 0; j < own.length; ) {
      // The k cells of a row share the flows that collide there, so interference is taken as one and the same in all of them.
      const row = own.row[j]!;
      let squares = 0;
      let products = 0;
      let shared = 0;
      let separate = 0;
      for (; j < own.length && own.row[j] === row; j++) {
        const c = own.cells[j]!;
        const a = own.own[j]!;
        if (!(a > 0)) continue;
        const y = this.#sketch.delaySumNs[c]! - meanNs * this.#sketch.received[c]!;
        const interference = this.#interference(j);
        const chance = this.#chance(flow, j);
        const weight = a / (interference + chance);
        squares += weight * a;
        products += weight * y;
        shared += weight * Math.sqrt(interference);
        separate += weight * weight * chance;
        seen++;
      }
      if (squares === 0) continue;
      const rowPrecision = (squares * squares) / (shared * shared + separate);
      precision += rowPrecision;
      weighted += (rowPrecision * products) / squares;
    }
    if (seen === 0) return null;
    // A wrong size scales the flow's distance from the common mean.
    const guess = this.#flows.doubt[flow]! / this.#flows.packets[flow]! ** 2;
    return {
      meanNs: meanNs + weighted / precision,
      variance: 1 / precision + flowVariance * Math.min(1, guess),
    };
  }

  /** Variance that others' packets add to a cell's sum. */
  #interference(j: number): number {
    return backgroundVariance(this.#background, this.#flow.others[j]!);
  }

  /** Variance by chance: doubt whose packets they are (the difference of two flows, each), jitter of the flow's own, whole nanoseconds. */
  #chance(flow: number, j: number): number {
    const own = this.#flow;
    const weight = this.#flows.weights?.[flow] ?? 1;
    const share = this.#sketch.shares[own.row[j]!]!;
    const jitter = (1 - share) * weight * this.#packetVariance * own.own[j]!;
    return 2 * this.#background.flowVariance * own.doubt[j]! + jitter + (own.own[j]! + own.others[j]!) / 6;
  }

  #pooled(flow: number, alpha: number): CellEstimate | null {
    const own = this.#flow;
    own.read(flow);
    const { received, delaySumNs, shares } = this.#sketch;
    const scaled = (j: number) => received[own.cells[j]!]! / shares[own.row[j]!]!;
    let least = Number.POSITIVE_INFINITY;
    let smallest = -1;
    for (let j = 0; j < own.length; j++) {
      // Of two cells alike the one of the higher rate tells more.
      if (scaled(j) < least || (scaled(j) === least && shares[own.row[j]!]! > shares[own.row[smallest]!]!)) {
        least = scaled(j);
        smallest = j;
      }
    }
    if (smallest < 0) return null;
    let sum = 0;
    let packets = 0;
    let others = 0;
    let noise = 0;
    for (let j = 0; j < own.length; j++) {
      if (j !== smallest && !(alpha > 0 && scaled(j) <= (1 + alpha) * least)) continue;
      const c = own.cells[j]!;
      sum += delaySumNs[c]!;
      packets += received[c]!;
      others += own.others[j]!;
      noise += this.#interference(j) + this.#chance(flow, j);
    }
    // The others pull towards their own mean: the flow's distance from the common one enters by their share.
    const pull = others / packets;
    return {
      meanNs: sum / packets,
      variance: noise / (packets * packets) + pull * pull * this.#background.flowVariance,
    };
  }
}
