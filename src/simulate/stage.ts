/**
 * The contract of what lies on the path. A stage takes batches whose rows come in the order they arrive at it (time + delay) and adds to the
 * delay column; NaN = lost. Stages whose packets may overtake each other say so; simulate.ts puts them into order again.
 */
import { UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import type { PacketBatch } from "../capture/batch.ts";
import type { Hop } from "./scenario.ts";
import type { Source } from "./source.ts";

export interface HopStatistics {
  hop: number;
  kind: Hop["kind"];
  /** Queues: drain rate and offered load over it; cross traffic included in the counts. */
  rateBps: number | null;
  packets: number;
  bytes: number;
  tailDrops: number;
  redDrops: number;
  /** Lost by a loss model. */
  lost: number;
  /** Most packets in the queue at once. */
  longest: number;
  /** Time the link was sending. */
  busyNs: number;
}

export interface Stage {
  /** False: packets may leave in another order than they came. */
  readonly ordered: boolean;
  apply(batch: PacketBatch): void | Promise<void>;
  /** Instead of `apply`, for stages that hold packets back: rows leave in the order of departure. */
  run?(batches: AsyncIterable<PacketBatch>): AsyncGenerator<PacketBatch>;
  statistics(): HopStatistics;
  free(): void;
}

/** What a stage is made from, besides its hop. */
export interface StageContext {
  kernels: Kernels;
  seed: number;
  hop: number;
  /** Random stream of this hop. */
  stream: number;
  /** Offered by the traffic, for finding drain rates. */
  offered: { bytes: number; packets: number; durationNs: number };
  /** The hop's cross traffic, opened, and what it offers. */
  cross?: { source: Source; bytes: number } | undefined;
}

export const QUEUE_DEFAULTS = {
  capacityPackets: 10_000,
  red: { minTh: 4_000, maxTh: 9_000, weight: 0.002, maxP: 1 / 50 },
} as const;

export const BLANK = {
  rateBps: null,
  packets: 0,
  bytes: 0,
  tailDrops: 0,
  redDrops: 0,
  lost: 0,
  longest: 0,
  busyNs: 0,
};

/** bit/s such that the offered bytes take the given share of the time. */
export function solveRate(
  spec: { rateBps?: number; utilisation?: number },
  bytes: number,
  durationNs: number,
): number {
  if (spec.rateBps !== undefined) {
    if (!(spec.rateBps > 0)) throw new UsageError("bad-parameter", "rateBps must be above 0");
    return spec.rateBps;
  }
  if (spec.utilisation === undefined || !(spec.utilisation > 0))
    throw new UsageError(
      "bad-parameter",
      "a queue needs rateBps or a utilisation above 0",
      "utilisation 0.88 finds the drain rate",
    );
  if (!(bytes > 0 && durationNs > 0))
    throw new UsageError("bad-parameter", "there is no traffic to find a drain rate from");
  return (8e9 * bytes) / durationNs / spec.utilisation;
}
