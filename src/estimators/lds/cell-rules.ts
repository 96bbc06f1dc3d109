/**
 * Decoders that use only one flow's cells, without knowing other flows.
 *   smallest    the usable cell with the fewest packets, by N / rate (section 2.2; the decoder behind the paper's figures)
 *   alpha       all usable cells with at most (1 + alpha) times as many packets, pooled (Fig. 6); at k = 1 it counts interference twice
 *   background  every usable cell with the common mean subtracted, y = S - mean N, weighted by a^2 / variance and shrunk to the common mean;
 *               goes beyond the paper
 * Error bars include interference: a cell's packets beyond the flow's own belong to others, and the variance that N of them add is learned from all cells.
 */

import { type Background, backgroundVariance } from "../cells/background.ts";
import type { DelaySketch } from "./difference.ts";
import type { FlowCells } from "./flow-cells.ts";
import type { FlowSet } from "./flow-set.ts";

export interface CellEstimate {
  meanNs: number;
  variance: number;
  /** Variance before looking at any cell: the prior that the answer is shrunk with. */
  prior: number;
}

/** A size within this many standard deviations of zero may be another flow's. */
const NOT_ITS_OWN = 3;

/**
 * Returns what a wrong size adds to an answer's variance, relative to the variance between flows. `guess`: variance of the size over its square. `followed`:
 * weight of the cells in the answer. A size that is about right scales the flow's distance from the common mean. A size that may be another flow's (most flows
 * are small) makes the answer follow others: it is then off by the flow's own distance and by theirs.
 */
function wrongSize(guess: number, followed: number): number {
  const others = Math.min(1, (NOT_ITS_OWN ** 2 * guess) ** 2);
  return Math.max(Math.min(1, guess), 2 * followed * others);
}

/** Variance of each flow's mean before looking at any cell. */
export interface FlowPriors {
  /** As the sizes of flows show it. Cells alone mix flows and vary less. */
  readonly known?: Float64Array | undefined;
  /** The largest plausible variance if sizes are unknown. Answers are not shrunk less for it, but their intervals are wider. */
  readonly most?: Float64Array | undefined;
}

export class CellRules {
  readonly #sketch: DelaySketch;
  readonly #flows: FlowSet;
  readonly #background: Background;
  /** Variance of a packet around its flow's mean, per flow or one value for all. */
  readonly #packetVariance: number | Float64Array;
  readonly #priors: FlowPriors;
  readonly #flow: FlowCells;

  constructor(
    sketch: DelaySketch,
    flows: FlowSet,
    cells: FlowCells,
    background: Background,
    packetVariance: number | Float64Array,
    priors: FlowPriors = {},
  ) {
    this.#sketch = sketch;
    this.#flows = flows;
    this.#background = background;
    this.#packetVariance = packetVariance;
    this.#priors = priors;
    this.#flow = cells;
  }

  /** Cells that mix many flows have similar means, however much the flows differ. The variance shown by the flows' sizes is used if it is larger. */
  #prior(flow: number): number {
    return Math.max(this.#background.flowVariance, this.#priors.known?.[flow] ?? 0);
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
    const { meanNs } = this.#background;
    const flowVariance = this.#prior(flow);
    let precision = 1 / (flowVariance + 1e-6);
    let weighted = 0;
    let seen = 0;
    for (let j = 0; j < own.length; ) {
      // The k cells of a row share the colliding flows, so their interference is treated as fully correlated.
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
    const guess = this.#flows.doubt[flow]! / this.#flows.packets[flow]! ** 2;
    const drawn = 1 / precision / (flowVariance + 1e-6);
    const beyond = drawn * drawn * Math.max(0, (this.#priors.most?.[flow] ?? 0) - flowVariance);
    return {
      meanNs: meanNs + weighted / precision,
      variance: 1 / precision + flowVariance * wrongSize(guess, 1 - drawn) + beyond,
      prior: flowVariance + beyond,
    };
  }

  /** Variance that packets of other flows add to a cell's sum. */
  #interference(j: number): number {
    return backgroundVariance(this.#background, this.#flow.others[j]!);
  }

  /**
   * Random variance: uncertainty about whose packets they are (each contributes the difference of two flows), jitter of the flow's own packets, and rounding to
   * whole nanoseconds.
   */
  #chance(flow: number, j: number): number {
    const own = this.#flow;
    const weight = this.#flows.weights?.[flow] ?? 1;
    const share = this.#sketch.shares[own.row[j]!]!;
    const within =
      typeof this.#packetVariance === "number" ? this.#packetVariance : this.#packetVariance[flow]!;
    const jitter = (1 - share) * weight * within * own.own[j]!;
    return 2 * this.#prior(flow) * own.doubt[j]! + jitter + (own.own[j]! + own.others[j]!) / 6;
  }

  #pooled(flow: number, alpha: number): CellEstimate | null {
    const own = this.#flow;
    own.read(flow);
    const { received, delaySumNs, shares } = this.#sketch;
    const scaled = (j: number) => received[own.cells[j]!]! / shares[own.row[j]!]!;
    let minimum = Number.POSITIVE_INFINITY;
    let smallest = -1;
    for (let j = 0; j < own.length; j++) {
      // Of two equal cells, the one with the higher rate is worth more.
      if (
        scaled(j) < minimum ||
        (scaled(j) === minimum && shares[own.row[j]!]! > shares[own.row[smallest]!]!)
      ) {
        minimum = scaled(j);
        smallest = j;
      }
    }
    if (smallest < 0) return null;
    let sum = 0;
    let packets = 0;
    let others = 0;
    let noise = 0;
    for (let j = 0; j < own.length; j++) {
      if (j !== smallest && !(alpha > 0 && scaled(j) <= (1 + alpha) * minimum)) continue;
      const c = own.cells[j]!;
      sum += delaySumNs[c]!;
      packets += received[c]!;
      others += own.others[j]!;
      noise += this.#interference(j) + this.#chance(flow, j);
    }
    // The other packets pull towards their own mean, so the flow's distance from the common mean enters with their share.
    const pull = others / packets;
    const pulled = pull * pull * Math.max(this.#prior(flow), this.#priors.most?.[flow] ?? 0);
    const variance = noise / (packets * packets) + pulled;
    // The pull is the same in all epochs, as if the answer were shrunk with a prior of variance^2 / pull.
    return { meanNs: sum / packets, variance, prior: pulled > 0 ? (variance * variance) / pulled : Infinity };
  }
}
