/**
 * The interface of a path element. A stage takes batches whose rows are in order of arrival (time + delay) and adds to the delay column; NaN = lost. A stage in
 * which packets can overtake each other sets `ordered` to false; simulate.ts then sorts them again.
 */
import { UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import type { PacketBatch } from "../capture/batch.ts";
import type { Hop } from "./scenario.ts";
import type { Source } from "./source.ts";

export interface HopStatistics {
  hop: number;
  kind: Hop["kind"];
  /** Drain rate of a queue. The counts below include cross traffic. */
  rateBps: number | null;
  packets: number;
  bytes: number;
  tailDrops: number;
  redDrops: number;
  /** Packets lost in a loss model. */
  lost: number;
  /** Maximum number of packets in the queue. */
  longest: number;
  /** Time during which the link was sending. */
  busyNs: number;
}

export interface Stage {
  /** False: packets can leave in a different order than they arrived. */
  readonly ordered: boolean;
  apply(batch: PacketBatch): void | Promise<void>;
  /** Replaces `apply` in stages that hold packets back; rows leave in order of departure. */
  run?(batches: AsyncIterable<PacketBatch>): AsyncGenerator<PacketBatch>;
  statistics(): HopStatistics;
  free(): void;
}

/** What a stage needs besides its hop. */
export interface StageContext {
  kernels: Kernels;
  seed: number;
  hop: number;
  /** Number of this hop's random stream. */
  stream: number;
  /** Load offered by the traffic, to derive drain rates. */
  offered: { bytes: number; packets: number; durationNs: number };
  /** The opened cross traffic of the hop, and the bytes it offers. */
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

/** Returns the rate in bit/s at which the offered bytes take the given share of the time. */
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
    throw new UsageError("bad-parameter", "no traffic to derive the drain rate from");
  return (8e9 * bytes) / durationNs / spec.utilisation;
}
