/** Results of flows, and sums over them (./flow-results.ts reads them). */

export interface DelaySums {
  count: number;
  meanNs: number;
  stdevNs: number;
  minNs: number;
  maxNs: number;
}

/** Unmatched packets at the captures' ends. */
export interface EdgeCounts {
  headBefore: number;
  tailBefore: number;
  headAfter: number;
  tailAfter: number;
}

export interface PacketCounts extends EdgeCounts {
  sent: number;
  received: number;
  matched: number;
  lost: number;
  appeared: number;
  duplicates: number;
  /** Matched, but with several identical packets as candidates: their delays are unknown, and not in `delay`. */
  ambiguous: number;
  /** Unmatched because such packets do not leave their link. */
  linkLocal: number;
  /** Seen twice at the first point (a mirror). */
  mirrored: number;
  /** Matched as parts of longer packets that one point saw merged. */
  merged: number;
  /** Near an end of the other capture: lost, or outside of it. */
  undecided: number;
}

export interface FlowResult extends PacketCounts {
  id: number;
  direction: 0 | 1 | 2;
  reordered: number;
  negative: number;
  bytes: number;
  delay: DelaySums | null;
  jitterNs: number | null;
  /** Number of differences averaged in the jitter. */
  jitterSteps: number;
}

/** Counts that the second look at unmatched packets (residue/) may change. */
export type CorrectedCount =
  | "sent"
  | "received"
  | "lost"
  | "appeared"
  | "duplicates"
  | "merged"
  | "mirrored"
  | "undecided"
  | keyof EdgeCounts;

/** Sums over the flows of one direction. */
export interface WaySums extends PacketCounts {
  /** Edge counts of the flows with a matched packet. */
  withMatch: EdgeCounts;
}

/** Buckets and counts of one flow or interval, ascending; a delay is `baseNs` plus the value of its bucket. */
export interface BucketRun {
  baseNs: number;
  buckets: Int32Array;
  counts: Uint32Array;
}

export interface FlowRanking {
  way: 1 | 2;
  /** False: all flows are of direction 1. */
  twoWay: boolean;
  by: "packets" | "bytes" | "mean" | "max" | "lost";
  /** Which unmatched packets at the captures' ends count as lost. */
  edgesLost: Record<keyof EdgeCounts, boolean>;
  /** Maximum number of flows. */
  top: number;
}
