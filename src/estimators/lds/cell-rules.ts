/**
 * Decoders that look at one flow and its own cells, no other flow known.
 *   smallest    the usable cell with the fewest packets, N / rate compared (section 2.2, and what the paper's figures hold for)
 *   alpha       all usable cells with at most (1 + alpha) times as many, pooled (Fig. 6); at k = 1 it counts interference twice
 *   background  every usable cell with the common mean taken out of it, y = S - mean N, weighed by a^2 / variance and shrunk to the
 *               common mean: beyond the paper
 * Error bars include interference: others' packets in a cell are those beyond the flow's own, and what N of them add is learnt from all cells.
 */

import { type Background, backgroundVariance } from "../cells/background.ts";
import type { DelaySketch } from "./difference.ts";
import type { FlowCells } from "./flow-cells.ts";
import type { FlowSet } from "./flow-set.ts";

export interface CellEstimate {
  meanNs: number;
  variance: number;
  /** Variance before any cell was looked at, that the answer is drawn from. */
  prior: number;
}

/** A size within so many deviations of zero may be another flow's. */
const NOT_ITS_OWN = 3;

/**
 * What a wrong size adds to an answer's variance, over that between flows. `guess`: variance of the size over its square; `followed`: weight of the cells in the answer. A size that is about right
 * scales the flow's distance from the common mean. One that may be that of others, as most flows are small, makes the answer follow others: it is off by the flow's own distance and by theirs.
 */
function wrongSize(guess: number, followed: number): number {
  const others = Math.min(1, (NOT_ITS_OWN ** 2 * guess) ** 2);
  return Math.max(Math.min(1, guess), 2 * followed * others);
}

/** Variance of each flow's mean before any cell was looked at. */
export interface FlowPriors {
  /** As sizes of flows show it; cells alone mix flows and vary less. */
  readonly known?: Float64Array | undefined;
  /** As large as it may be where sizes are unknown: answers are not drawn less for it, but may be off by more. */
  readonly most?: Float64Array | undefined;
}

export class CellRules {
  readonly #sketch: DelaySketch;
  readonly #flows: FlowSet;
  readonly #background: Background;
  /** Variance of a packet around its flow's mean, per flow or one for all. */
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

  /** Cells that mix many flows have similar means, however far flows are apart: what sizes of flows show counts where it is more. */
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
    const guess = this.#flows.doubt[flow]! / this.#flows.packets[flow]! ** 2;
    const drawn = 1 / precision / (flowVariance + 1e-6);
    const beyond = drawn * drawn * Math.max(0, (this.#priors.most?.[flow] ?? 0) - flowVariance);
    return {
      meanNs: meanNs + weighted / precision,
      variance: 1 / precision + flowVariance * wrongSize(guess, 1 - drawn) + beyond,
      prior: flowVariance + beyond,
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
      // Of two cells alike the one of the higher rate is worth more.
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
    // The others pull towards their own mean: the flow's distance from the common one enters by their share.
    const pull = others / packets;
    const pulled = pull * pull * Math.max(this.#prior(flow), this.#priors.most?.[flow] ?? 0);
    const variance = noise / (packets * packets) + pulled;
    // Of it the pull is the same in all epochs: as if it were drawn from a prior of variance^2 / pull.
    return { meanNs: sum / packets, variance, prior: pulled > 0 ? (variance * variance) / pulled : Infinity };
  }
}
