/**
 * The answer to a question: format `hoptime.answer/1` (docs/formats/answer.md). Delays are nanoseconds as numbers; instants are nanoseconds since
 * 1970 as text, because they do not fit into a double. A missing value is null with a reason beside it, never 0 or NaN.
 */
import type { FlowKey } from "../../capture/flow/flow-key.ts";

export interface AnswerLatency {
  meanNs: number;
  lowNs: number;
  highNs: number;
  stdevNs: number | null;
  stdevLowNs: number | null;
  stdevHighNs: number | null;
}

/** A latency, or the reason why there is none. */
export interface Answered {
  latency: AnswerLatency | null;
  reason?: string;
}

/** The answered part of what was asked. Its latency is not that of all packets if the share is below 1. */
export interface AnsweredPart {
  /** Packets that arrived in the epochs (or in the flows' epochs) that have an answer; null if packet counts are unknown. */
  packets: number | null;
  /** Share of all packets that arrived. */
  share: number | null;
  /** Number of epochs with an answer. */
  epochs: number;
  latency: AnswerLatency | null;
}

/**
 * An answer over several epochs. `latency` is that of all packets asked for: packets without an answer count with their known bounds, so the
 * interval contains the truth for all packets. Null if nothing bounds them.
 */
export interface WholeAnswer extends Answered {
  answered: AnsweredPart;
}

export interface PointSummary {
  name: string;
  role: "sender" | "receiver";
  /** Number of records used, and their size on disk. */
  records: number;
  bytes: number;
  packets: number;
  /** Packets among them captured with fewer bytes than packets are matched on; packets with a timestamp before their epoch. */
  short: number;
  backward: number;
  skipped: Record<string, number>;
  dropped: number | null;
  filter: string;
  /** Live points only: the worst state of the clock over the epochs used. */
  clock?: PointClock;
}

export interface PointClock {
  synchronised: boolean;
  discipline: "ntp" | "ptp" | null;
  estimatedErrorNs: number;
  maximumErrorNs: number;
}

export interface MissingEpoch {
  estimator: string;
  /** The point without a record of this epoch. */
  point: string;
  startNs: string;
  endNs: string;
  reason: string;
}

export interface RefusedEpoch {
  estimator: string;
  startNs: string;
  endNs: string;
  file: string | null;
  reason: string;
}

/** Records left out because others cover the same time with another cut or other settings. */
export interface OverlappingEpochs {
  estimator: string;
  /** Cut mode of their epochs: aligned, control or delimited. */
  cut: string;
  epochs: number;
  packets: number;
  firstNs: string;
  lastNs: string;
}

export interface SeriesRow extends Answered {
  startNs: string;
  endNs: string;
  sent: number | null;
  received: number | null;
  /** Loss beyond packets in flight at the cuts of an aligned epoch, with its bounds. */
  lost: number | null;
  lostLow: number | null;
  lostHigh: number | null;
  /** Approximate bias: the mean is too low by this, because packets in flight when the epoch began are far slower than the others. */
  leansNs?: number;
  /** A capture began or ended within the epoch. */
  edge: boolean;
  /** Number of records merged because a delimiter was lost. */
  merged: number;
}

/** One estimator's answer about all packets of the segment. */
export interface SegmentAnswer extends WholeAnswer {
  title: string;
  /** Parameters of its records; if they differ, those with the most packets. */
  parameters: string;
  epochs: number;
  sent: number | null;
  received: number | null;
  lost: number | null;
  lossRate: number | null;
  /** Packets that the mean is computed from, and their share of those received. */
  packetsUsed: number;
  coverage: number | null;
  /** Size of both points' records on disk. */
  bytes: number;
  bitsPerPacket: number | null;
  /** Epochs without an answer from this estimator that use another estimator's. */
  borrowed: { estimator: string; epochs: number }[];
  /**
   * Epochs whose mean is probably too low because of packets in flight when they began (`series.leansNs`), and the resulting bias of the overall
   * mean.
   */
  leans?: { epochs: number; ns: number };
  /** If the points have different clocks: how far these may be apart. Every interval of the mean includes it. */
  clockErrorNs?: number;
  series: SeriesRow[];
  notes: string[];
}

export interface GroupAnswer extends WholeAnswer {
  estimator: string;
  key: FlowKey;
  /** The key as text. */
  text: string;
  communityId: string | null;
  /** Flows in the group, and epochs that contain any of them. */
  flows: number;
  epochs: number;
  packets: number | null;
  /** Bounds of the packet count; equal if counted. `packetsHigh` is null if there is no upper bound. */
  packetsLow: number;
  packetsHigh: number | null;
  bytes: number | null;
  lost: number | null;
  /** Lower bound: the loss of the epochs in which it is known. */
  lostLow: number;
  /** Share of the arrived packets whose flow has an answer. */
  coverage: number | null;
  /** Quantiles over all epochs, if the estimator keeps them: `share` of the packets have at most this delay. */
  quantiles?: { share: number; valueNs: number }[];
}

export interface Answer {
  format: "hoptime.answer/1";
  hoptime: string;
  question: Record<string, unknown>;
  points: PointSummary[];
  epochs: {
    used: number;
    /** Epochs used that were cut by the start or end of a capture; epochs used that were merged from neighbours. */
    edges: number;
    merged: number;
    firstNs: string | null;
    lastNs: string | null;
    missing: MissingEpoch[];
    refused: RefusedEpoch[];
    overlapping: OverlappingEpochs[];
  };
  /** By estimator name. */
  estimates: Record<string, SegmentAnswer>;
  groups: GroupAnswer[];
  notes: string[];
}
