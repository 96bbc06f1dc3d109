/**
 * Decoders that look at one flow and its own cells, no other flow known.
 *   smallest    the usable cell with the fewest packets, N / rate compared (section 2.2, and what the paper's figures hold for)
 *   alpha       all usable cells with at most (1 + alpha) times as many, pooled (Fig. 6); at k = 1 it counts interference twice
 *   background  every usable cell with the common mean taken out of it, y = S - mean N, weighed by a^2 / variance and shrunk to the
 *               common mean: beyond the paper
 * Error bars include interference: others' packets in a cell are those beyond the flow's own, and N of them have the variance alpha N + beta N^2.
 */
import type { DelaySketch } from "./difference.ts";
import type { FlowSet } from "./flow-set.ts";
import type { Background } from "./variance.ts";

export interface CellEstimate {
  meanNs: number;
  variance: number;
}

/** Cells of one flow that are usable, as the rules see them. */
class FlowCells {
  readonly #sketch: DelaySketch;
  readonly #flows: FlowSet;
  readonly cells: Int32Array;
  /** Packets of the flow in the cell, of others, and the flow's share of its packets that may fall there. */
  readonly own: Float64Array;
  readonly others: Float64Array;
  readonly share: Float64Array;
  length = 0;

  constructor(sketch: DelaySketch, flows: FlowSet) {
    this.#sketch = sketch;
    this.#flows = flows;
    this.cells = new Int32Array(flows.cellsPerFlow);
    this.own = new Float64Array(flows.cellsPerFlow);
    this.others = new Float64Array(flows.cellsPerFlow);
    this.share = new Float64Array(flows.cellsPerFlow);
  }

  read(flow: number): void {
    const { geometry, shares, usable, received } = this.#sketch;
    const weight = this.#flows.weights?.[flow] ?? 1;
    const packets = this.#flows.packets[flow]! * weight;
    this.length = 0;
    for (let j = 0; j < this.#flows.cellsPerFlow; j++) {
      const c = this.#flows.cells[flow * this.#flows.cellsPerFlow + j]!;
      if (usable[c] === 0) continue;
      const share = shares[Math.floor(j / geometry.k)]!;
      const n = received[c]!;
      const expected = packets * share;
      // By chance the flow may have more here than expected: a surplus within one deviation is its own.
      const others = Math.max(0, n - expected - Math.sqrt(expected * weight * (1 - share)));
      this.cells[this.length] = c;
      this.own[this.length] = n - others;
      this.others[this.length] = others;
      this.share[this.length++] = share;
    }
  }
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
    const weight = this.#flows.weights?.[flow] ?? 1;
    let precision = 1 / (flowVariance + 1e-6);
    let weighted = 0;
    let seen = 0;
    for (let j = 0; j < own.length; j++) {
      const c = own.cells[j]!;
      const a = own.own[j]!;
      if (!(a > 0)) continue;
      const y = this.#sketch.delaySumNs[c]! - meanNs * this.#sketch.received[c]!;
      const variance = this.#noise(own.others[j]!, a, own.share[j]!, weight);
      precision += (a * a) / variance;
      weighted += (a * y) / variance;
      seen++;
    }
    return seen === 0 ? null : { meanNs: meanNs + weighted / precision, variance: 1 / precision };
  }

  /** Variance of a cell's sum around what the flow itself adds: interference, sampling of the flow, whole nanoseconds. */
  #noise(others: number, own: number, share: number, weight: number): number {
    const { alpha, beta, flowVariance } = this.#background;
    const chance = (1 - share) * weight * (this.#packetVariance * own + flowVariance * Math.min(own, others));
    return alpha * others + beta * others * others + chance + (own + others) / 6;
  }

  #pooled(flow: number, alpha: number): CellEstimate | null {
    const own = this.#flow;
    own.read(flow);
    const { received, delaySumNs } = this.#sketch;
    let least = Number.POSITIVE_INFINITY;
    let smallest = -1;
    for (let j = 0; j < own.length; j++) {
      const n = received[own.cells[j]!]! / own.share[j]!;
      // Of two cells alike the one with more packets in it, that is the higher rate, tells more.
      if (n < least || (n === least && own.share[j]! > own.share[smallest]!)) {
        least = n;
        smallest = j;
      }
    }
    if (smallest < 0) return null;
    const weight = this.#flows.weights?.[flow] ?? 1;
    let sum = 0;
    let packets = 0;
    let others = 0;
    let noise = 0;
    for (let j = 0; j < own.length; j++) {
      const c = own.cells[j]!;
      if (j !== smallest && !(alpha > 0 && received[c]! / own.share[j]! <= (1 + alpha) * least)) continue;
      sum += delaySumNs[c]!;
      packets += received[c]!;
      others += own.others[j]!;
      noise += this.#noise(own.others[j]!, own.own[j]!, own.share[j]!, weight);
    }
    // The others pull towards their own mean: the flow's distance from the common one enters by their share.
    const pull = others / packets;
    return {
      meanNs: sum / packets,
      variance: noise / (packets * packets) + pull * pull * this.#background.flowVariance,
    };
  }
}
