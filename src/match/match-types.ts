/** What the exact matcher (matcher.ts) is told, and what it tells. */
import type { LogHistogram } from "../base/math/log-histogram.ts";
import type { DelaySums } from "./flow-results.ts";
import type { PacketLog } from "./packet-log.ts";

/** A packet that was seen at one point alone. */
export interface AlonePacket {
  side: 0 | 1;
  /** On the matcher's axis. */
  timeNs: number;
  flow: number;
  /** The low half of its digest: other packets of its flow may bear the same time. */
  mark: number;
  /** FATE.*: what it is taken for; and whether it could be something else (near the ends of the captures). */
  fate: number;
  doubted: boolean;
}

export interface MatcherOptions {
  windowNs: number;
  /** Interval length and start (ns on the matcher's time axis). */
  epochNs: number;
  epochStartNs: number;
  /** Flows whose first difference is at least this go from BEFORE to AFTER; -Infinity: all do. */
  thresholdNs: number;
  /** Clock correction: delay = difference - offsetNs - slope * (time at AFTER - pivotNs), and reverseNs less the other way. */
  correction: { offsetNs: number; slope: number; pivotNs: number; reverseNs?: number };
  /** What differences (after - before, as aligned) are in the first time, where an earlier pass has shown it. */
  expected?: ExpectedDifferences | null;
  /** Where a clock was set: what more is taken off. */
  pieces?: CorrectionPieces | null;
  /** Time before the first packet of either side. */
  startNs: number;
  /** How far one side may be read ahead of the other. */
  slackNs: number;
  rows: number;
  /** The seed that flow keys were hashed with. */
  seed: bigint;
  /** Keys differ at the two points (NAT): flows are named as the first sees them. */
  nat?: boolean;
  /** Where every packet is noted, besides the sums. */
  packets?: PacketLog | undefined;
}

/** Up to a time at BEFORE. */
export interface ExpectedDifferences {
  untilNs: number;
  lowNs: number;
  highNs: number;
  /** None lie between these: a clock was set. */
  gap: { lowNs: number; highNs: number } | null;
}

/** One of the first pairs. */
export interface OpeningPair {
  /** Time at BEFORE, and after - before, as aligned. */
  atNs: number;
  differenceNs: number;
  /** A packet that looks the same was met later, without a partner. */
  again: boolean;
  /** The flow goes from BEFORE to AFTER. */
  forward: boolean;
}

export interface CorrectionPieces {
  /** From these times at BEFORE on, in order, this is taken off instead of what was before. */
  list: readonly { fromNs: number; offsetNs: number }[];
  /** How far from these times a piece may begin. */
  guardNs: number;
  /** Differences (after - before) without offset, drift and pieces, of packets that meet no queue. */
  usualNs: { forward: number; reverse: number };
}

export interface TotalResult {
  matched: number;
  reordered: number;
  extentMax: number;
  extentSum: number;
  delay: DelaySums | null;
  jitterNs: number | null;
  ttl: { lower: number; equal: number; higher: number };
  negative: number;
  histogram: LogHistogram;
}

/** Pairs of one direction: addresses of columns, each as long as `count`. */
export interface MatchedPairs {
  /** f64: times at BEFORE. */
  sends: number;
  /** f64: after - before. */
  differences: number;
  /** u32: the flow's number | how its time to live changed << 30 (1: lower at AFTER, 2: higher). */
  flows: number;
  count: number;
}

/** Flows whose way is known: ten words of key each, and 1 (BEFORE to AFTER), 2 (the other way) or 0 (not known). */
export interface KnownWays {
  keys: Uint32Array;
  ways: Uint8Array;
}

/** An interval that holds packets. */
export interface IntervalResult {
  /** Intervals from the first one's start to its own. */
  index: number;
  /** Its number for `intervalBuckets`. */
  slot: number;
  matched: number;
  lost: number;
  delay: DelaySums | null;
}
