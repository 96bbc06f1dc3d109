/**
 * Predicts the accuracy of a geometry before any packet is counted. Cells are drawn instead of filled: a cell holds Poisson(flows k / columns) other flows with
 * sizes from the expected law, and is usable with the probability that none of its packets is lost.
 *   smallest: the error of the emptiest usable cell, drawn.
 *   bp: density evolution. A pool of cells per row holds what a new flow would meet there: interference, noise, count. Each round draws the pools
 *       anew with the neighbours' variances resulting from the last round's pools. The fixed point is what belief propagation reaches on a large
 *       graph without short loops.
 */
import { entryAt } from "../../base/lists.ts";
import type { Random } from "../../base/random.ts";
import type { FlowSizes } from "./flow-sizes.ts";
import { cellShares, type Geometry } from "./geometry.ts";

export interface Expectation {
  geometry: Geometry;
  flows: number;
  sizes: FlowSizes;
  loss: number;
  /** Variance between the means of flows, and of packets within a flow, both divided by the squared mean delay. */
  flowVariance: number;
  packetVariance: number;
}

/** What a new flow would meet in a cell. */
interface Meeting {
  others: number;
  /** Sum of a^2, and of a^2 v with the neighbours' current variances. */
  squares: number;
  interference: number;
}

export class SketchPrediction {
  readonly #e: Expectation;
  readonly #random: Random;
  readonly #shares: number[];
  #pools: Meeting[][];

  constructor(expectation: Expectation, random: Random, pool: number, rounds: number) {
    this.#e = expectation;
    this.#random = random;
    this.#shares = cellShares(expectation.geometry);
    this.#pools = this.#shares.map(() => []);
    for (let round = 0; round < rounds; round++) {
      this.#pools = this.#shares.map((share, row) =>
        Array.from({ length: pool }, () => this.#meet(row, share, round > 0)),
      );
    }
  }

  /** Returns the median relative error of flows of this many packets, and the share of them without an answer. */
  flowError(
    packets: number,
    decoder: "bp" | "smallest",
    draws = 600,
  ): { median: number; unanswered: number } {
    const errors: number[] = [];
    let unanswered = 0;
    for (let i = 0; i < draws; i++) {
      const error = decoder === "bp" ? this.#believed(packets) : this.#smallest(packets);
      if (error === null) unanswered++;
      else errors.push(error);
    }
    errors.sort((a, b) => a - b);
    return { median: errors[errors.length >> 1] ?? Number.NaN, unanswered: unanswered / draws };
  }

  /** Mean bytes per cell in the payload. */
  cellBytes(epochNs: number, digestBits: number): number {
    let bytes = 0;
    let cells = 0;
    for (const pool of this.#pools) {
      for (const { others } of pool) {
        cells++;
        const n = Math.round(others);
        if (n === 0) {
          bytes += 0.5;
          continue;
        }
        // Relative to the centre, a time is uniform over the epoch. Plus a sign bit, with seven bits per byte.
        const bits = Math.log2(Math.max(2, (epochNs * Math.sqrt(n)) / 3.5)) + 1;
        bytes += Math.ceil(bits / 7) + (n < 128 ? 1 : n < 16_384 ? 2 : 3) + digestBits / 8;
      }
    }
    return bytes / cells;
  }

  #meet(row: number, share: number, informed: boolean): Meeting {
    const { geometry, flows, sizes, flowVariance, packetVariance } = this.#e;
    const meeting: Meeting = { others: 0, squares: 0, interference: 0 };
    for (let n = this.#random.poisson((flows * geometry.k) / geometry.columns); n > 0; n--) {
      const packets = sizes.draw(this.#random);
      const a = this.#count(packets, share);
      if (a === 0) continue;
      const prior = flowVariance + packetVariance / packets;
      const v = informed ? 1 / (1 / prior + this.#precision(packets, row)) : prior;
      meeting.others += a;
      meeting.squares += a * a;
      meeting.interference += a * a * v;
    }
    return meeting;
  }

  /** Returns what a flow learns from its cells; one cell of `exceptRow` is left out. */
  #precision(packets: number, exceptRow = -1): number {
    const { geometry } = this.#e;
    let precision = 0;
    for (const [row, share] of this.#shares.entries()) {
      for (let i = row === exceptRow ? 1 : 0; i < geometry.k; i++) {
        precision += this.#cellPrecision(this.#draw(row), this.#count(packets, share), share);
      }
    }
    return precision;
  }

  #cellPrecision(meeting: Meeting, own: number, share: number): number {
    const n = meeting.others + own;
    if (own === 0 || !this.#survives(n)) return 0;
    const alike = (meeting.squares + own * own) / (n * n);
    const { flowVariance, packetVariance } = this.#e;
    const noise = share < 1 ? (1 - share) * n * (packetVariance + flowVariance * Math.max(0, 1 - alike)) : 0;
    return (own * own) / (meeting.interference + noise + 1e-12);
  }

  #believed(packets: number): number | null {
    const learnt = this.#precision(packets);
    if (learnt === 0) return null;
    const { flowVariance, packetVariance } = this.#e;
    const variance = 1 / (learnt + 1 / (flowVariance + packetVariance / packets));
    return Math.abs(this.#random.normal()) * Math.sqrt(variance);
  }

  #smallest(packets: number): number | null {
    const { geometry, flowVariance, packetVariance } = this.#e;
    let minimum = Number.POSITIVE_INFINITY;
    let best: { meeting: Meeting; own: number; share: number } | null = null;
    for (const [row, share] of this.#shares.entries()) {
      for (let i = 0; i < geometry.k; i++) {
        const meeting = this.#draw(row);
        const own = this.#count(packets, share);
        const n = own + meeting.others;
        if (n === 0 || !this.#survives(n)) continue;
        if (n / share < minimum || (n / share === minimum && share > (best?.share ?? 0))) {
          minimum = n / share;
          best = { meeting, own, share };
        }
      }
    }
    if (!best) return null;
    const { meeting, own, share } = best;
    const flow = Math.sqrt(flowVariance) * this.#random.normal();
    const foreign = Math.sqrt(flowVariance * meeting.squares) * this.#random.normal();
    const jitter = Math.sqrt(packetVariance * own * (1 - share)) * this.#random.normal();
    return Math.abs((foreign - meeting.others * flow + jitter) / (own + meeting.others));
  }

  #draw(row: number): Meeting {
    const pool = entryAt(this.#pools, row);
    return entryAt(pool, this.#random.below(pool.length));
  }

  #count(packets: number, share: number): number {
    const expected = packets * share;
    // For large counts, the deviation from the mean no longer matters.
    return share === 1 || expected > 50 ? expected : Math.min(packets, this.#random.poisson(expected));
  }

  #survives(packets: number): boolean {
    const { loss } = this.#e;
    return loss === 0 || this.#random.float() < (1 - loss) ** packets;
  }
}
