/**
 * The groups of an epoch in kernel memory (kernels/maple/cells.ts). Assigns delays to centres and keeps, per group, what refined answers need (MAPLE, section
 * 3.3): the mean of the packets assigned to a centre, and their number, which breaks ties.
 */
import type { Kernels } from "../../base/kernels.ts";
import type { Centres } from "./centres/centres.ts";
import type { DelayHistogram } from "./centres/epoch-centres.ts";

/** Sums of one group: exact integers relative to `baseNs`. */
export interface CellSums {
  baseNs: number;
  count: number;
  /** Sum of (delay - base). */
  sum: bigint;
  /** Sum of (delay - base)^2. */
  squares: bigint;
  /** Infinity and -Infinity if the group is empty. */
  minNs: number;
  maxNs: number;
}

/** The answer for a packet of the group. */
export interface CellAnswer {
  meanNs: number;
  lowNs: number;
  highNs: number;
  varianceNs2: number;
  count: number;
}

const CELL_BYTES = 64;
const BUCKETS = 16_384;
const BIAS = 8192;

export class CellTable {
  readonly centres: Centres;
  readonly groups: number;
  readonly #kernels: Kernels;
  readonly #address: number;

  constructor(kernels: Kernels, centres: Centres) {
    this.#kernels = kernels;
    this.centres = centres;
    this.groups = centres.valuesNs.length;
    if (this.groups > 0xffff) throw new RangeError(`${this.groups} groups are too many`);
    this.#address = kernels.call.mapleCellsNew(this.groups) >>> 0;
    const at = this.#cells >>> 3;
    const { f64 } = kernels;
    for (let i = 0; i < this.groups; i++) {
      f64[at + 8 * i] = centres.valuesNs[i]!;
      f64[at + 8 * i + 7] = centres.uppersNs[i]!;
    }
    this.reset();
  }

  get #cells(): number {
    return this.#kernels.call.mapleCellsAt(this.#address) >>> 0;
  }

  reset(): void {
    this.#kernels.call.mapleCellsReset(this.#address);
  }

  /** Writes the codes (u16) of `count` delays (f64), both in kernel memory, and adds them to the groups' sums. */
  assign(delays: number, codes: number, count: number): void {
    this.#kernels.call.mapleAssign(this.#address, delays, codes, count);
  }

  sums(): CellSums[] {
    const { f64, i64, u64 } = this.#kernels;
    const at = this.#cells >>> 3;
    return Array.from({ length: this.groups }, (_, i) => {
      const cell = at + (CELL_BYTES / 8) * i;
      return {
        baseNs: f64[cell]!,
        minNs: f64[cell + 1]!,
        maxNs: f64[cell + 2]!,
        sum: i64[cell + 3]!,
        squares: (u64[cell + 5]! << 64n) | u64[cell + 4]!,
        count: Number(u64[cell + 6]!),
      };
    });
  }

  free(): void {
    this.#kernels.call.mapleCellsFree(this.#address);
  }
}

export function answerOf(sums: CellSums): CellAnswer {
  const { count, baseNs } = sums;
  if (count === 0) return { meanNs: baseNs, lowNs: baseNs, highNs: baseNs, varianceNs2: 0, count };
  const offset = Number(sums.sum) / count;
  return {
    meanNs: baseNs + offset,
    lowNs: sums.minNs,
    highNs: sums.maxNs,
    varianceNs2: Math.max(0, Number(sums.squares) / count - offset * offset),
    count,
  };
}

/** Returns the answer for a packet of either group. */
export function joinCells(a: CellAnswer, b: CellAnswer): CellAnswer {
  const count = a.count + b.count;
  if (a.count === 0 || b.count === 0) return a.count === 0 ? b : a;
  const meanNs = (a.count * a.meanNs + b.count * b.meanNs) / count;
  const spread = (c: CellAnswer) => c.count * (c.varianceNs2 + (c.meanNs - meanNs) ** 2);
  return {
    meanNs,
    lowNs: Math.min(a.lowNs, b.lowNs),
    highNs: Math.max(a.highNs, b.highNs),
    varianceNs2: (spread(a) + spread(b)) / count,
    count,
  };
}

/** Adds two epochs' sums of the same group. */
export function addSums(a: CellSums, b: CellSums): CellSums {
  return {
    baseNs: a.baseNs,
    count: a.count + b.count,
    sum: a.sum + b.sum,
    squares: a.squares + b.squares,
    minNs: Math.min(a.minNs, b.minNs),
    maxNs: Math.max(a.maxNs, b.maxNs),
  };
}

/** Returns the log-bucket histogram of `count` delays (f64) in kernel memory. */
export function histogramOf(kernels: Kernels, delays: number, count: number): DelayHistogram {
  const address = kernels.alloc(BUCKETS * 16);
  kernels.f64.fill(0, address >>> 3, (address >>> 3) + 2 * BUCKETS);
  kernels.call.mapleHistogram(address, delays, count);
  const { f64 } = kernels;
  const at = address >>> 3;
  const buckets: number[] = [];
  for (let i = 0; i < BUCKETS; i++) if (f64[at + 2 * i]! > 0) buckets.push(i - BIAS);
  const histogram = {
    buckets: Int32Array.from(buckets),
    counts: Float64Array.from(buckets, (b) => f64[at + 2 * (b + BIAS)]!),
    meansNs: Float64Array.from(buckets, (b) => f64[at + 2 * (b + BIAS) + 1]! / f64[at + 2 * (b + BIAS)]!),
  };
  kernels.free(address);
  return histogram;
}
