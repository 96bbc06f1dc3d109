/**
 * The answer to a question: format `hoptime.answer/1` (docs/formats/answer.md). Delays are nanoseconds as numbers, instants are nanoseconds
 * since 1970 as texts (they do not fit into a double). What has no answer is null with the reason beside it; it is never 0 or NaN.
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

/** A latency, or why there is none. */
export interface Answered {
  latency: AnswerLatency | null;
  reason?: string;
}

/** The part of what was asked for that has an answer, and its latency: not that of all packets where the share is below 1. */
export interface AnsweredPart {
  /** Packets that arrived in the epochs (or in the flows' epochs) that have an answer; null where packets are unknown. */
  packets: number | null;
  /** Of all packets that arrived. */
  share: number | null;
  /** Epochs with an answer. */
  epochs: number;
  latency: AnswerLatency | null;
}

/**
 * About several epochs: `latency` is that of all packets asked for. Packets without an answer count with the bounds that are known for them, so the interval
 * holds the truth for all of them; null where nothing bounds them.
 */
export interface WholeAnswer extends Answered {
  answered: AnsweredPart;
}

export interface PointSummary {
  name: string;
  role: "sender" | "receiver";
  /** Records that the answer rests on, and their bytes on disk. */
  records: number;
  bytes: number;
  packets: number;
  /** Of those: cut within the bytes that distinguish packets; timestamp before their epoch. */
  short: number;
  backward: number;
  skipped: Record<string, number>;
  dropped: number | null;
  filter: string;
  /** Of a live point: the worst state of its clock in the epochs used. */
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
  /** The point that has nothing for this epoch. */
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

/** Records that cover time which others answer for: of another cut, or other settings. */
export interface OverlappingEpochs {
  estimator: string;
  /** Of their epochs: aligned, control or delimited. */
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
  /** Beyond what may be in flight at the cuts of an epoch that is cut by time, and what that leaves possible. */
  lost: number | null;
  lostLow: number | null;
  lostHigh: number | null;
  /** By about so much the mean is too low, where packets that were in flight when the epoch began are far slower than the others. */
  leansNs?: number;
  /** A capture began or ended within the epoch. */
  edge: boolean;
  /** Records merged because a delimiter was lost. */
  merged: number;
}

/** What one estimator says about all packets of the segment. */
export interface SegmentAnswer extends WholeAnswer {
  title: string;
  /** Of its records; of the most packets where they differ. */
  parameters: string;
  epochs: number;
  sent: number | null;
  received: number | null;
  lost: number | null;
  lossRate: number | null;
  /** Packets that the mean rests on, and their share of those received. */
  packetsUsed: number;
  coverage: number | null;
  /** Of the records of both ends, on disk. */
  bytes: number;
  bitsPerPacket: number | null;
  /** Epochs without an answer of this estimator that count with another's. */
  borrowed: { estimator: string; epochs: number }[];
  /** Epochs whose mean is rather too low for packets in flight when they began (`series.leansNs`), and by how much that makes the mean of all packets so. */
  leans?: { epochs: number; ns: number };
  /** Where the points have different clocks: by how much these may be apart, which is included in every interval of the mean. */
  clockErrorNs?: number;
  series: SeriesRow[];
  notes: string[];
}

export interface GroupAnswer extends WholeAnswer {
  estimator: string;
  key: FlowKey;
  /** The key as people write it. */
  text: string;
  communityId: string | null;
  /** Flows in the group, and epochs that had any of them. */
  flows: number;
  epochs: number;
  packets: number | null;
  /** What the packets cannot lie outside of: equal where they were counted; `packetsHigh` is null where nothing bounds them. */
  packetsLow: number;
  packetsHigh: number | null;
  bytes: number | null;
  lost: number | null;
  /** In the epochs in which it is known: so many at least. */
  lostLow: number;
  /** Share of the packets that arrived whose flow had an answer. */
  coverage: number | null;
  /** Where the estimator keeps them, over all epochs of a group of one flow: the value that this share of its packets does not exceed. */
  quantiles?: { share: number; valueNs: number }[];
}

export interface Answer {
  format: "hoptime.answer/1";
  hoptime: string;
  question: Record<string, unknown>;
  points: PointSummary[];
  epochs: {
    used: number;
    /** Of those used: cut by the begin or end of a capture; made of merged neighbours. */
    edges: number;
    merged: number;
    firstNs: string | null;
    lastNs: string | null;
    missing: MissingEpoch[];
    refused: RefusedEpoch[];
    overlapping: OverlappingEpochs[];
  };
  /** By estimator. */
  estimates: Record<string, SegmentAnswer>;
  groups: GroupAnswer[];
  notes: string[];
}
