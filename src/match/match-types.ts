/** Input and output types of the exact matcher (matcher.ts). */
import type { LogHistogram } from "../base/math/log-histogram.ts";
import type { DelaySums } from "./flow-result.ts";
import type { PacketLog } from "./packet-log.ts";

/** A packet seen at one point only. */
export interface AlonePacket {
  side: 0 | 1;
  /** On the matcher's time axis. */
  timeNs: number;
  flow: number;
  /** The low half of its digest: other packets of its flow may have the same time. */
  mark: number;
  /** FATE.*: its classification; `doubted`: it could be something else (near the ends of the captures). */
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
  /** Clock correction: delay = difference - offsetNs - slope * (time at AFTER - pivotNs), minus reverseNs in the reverse direction. */
  correction: { offsetNs: number; slope: number; pivotNs: number; reverseNs?: number };
  /** Expected first differences (after - before, as aligned), if an earlier pass showed them. */
  expected?: ExpectedDifferences | null;
  /** Additional correction from each clock step on. */
  pieces?: CorrectionPieces | null;
  /** A time before the first packet of either side. */
  startNs: number;
  /** Maximum time by which one side may be read ahead of the other. */
  slackNs: number;
  rows: number;
  /** The seed that flow keys were hashed with. */
  seed: bigint;
  /** Keys differ at the two points (NAT): flows are named by their key at the first point. */
  nat?: boolean;
  /** Records every packet, in addition to the sums. */
  packets?: PacketLog | undefined;
}

/** Differences expected up to a time at BEFORE. */
export interface ExpectedDifferences {
  untilNs: number;
  lowNs: number;
  highNs: number;
  /** No difference lies within this range: a clock was set. */
  gap: NsRange | null;
  /** Range of each direction, for flows whose direction is known. */
  ways: { forward: NsRange; reverse: NsRange } | null;
}

export interface NsRange {
  lowNs: number;
  highNs: number;
}

/** One of the first pairs. */
export interface OpeningPair {
  /** Time at BEFORE, and after - before, as aligned. */
  atNs: number;
  differenceNs: number;
  /** An identical packet was seen later, without a partner. */
  again: boolean;
  /** The flow goes from BEFORE to AFTER. */
  forward: boolean;
  /** The difference with that identical packet instead; NaN if unknown. */
  otherNs: number;
}

export interface CorrectionPieces {
  /** From each of these times at BEFORE on, in order, this is subtracted instead of the previous value. */
  list: readonly { fromNs: number; offsetNs: number }[];
  /** Uncertainty of the times at which pieces begin. */
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
  /** u32: the flow's id | change of its TTL << 30 (1: lower at AFTER, 2: higher). */
  flows: number;
  count: number;
}

/** Flows with known direction: ten words of key each, and 1 (BEFORE to AFTER), 2 (the other way) or 0 (unknown). */
export interface KnownWays {
  keys: Uint32Array;
  ways: Uint8Array;
}

/** An interval with packets. */
export interface IntervalResult {
  /** Number of intervals since the start of the first one. */
  index: number;
  /** Its index for `intervalBuckets`. */
  slot: number;
  matched: number;
  lost: number;
  delay: DelaySums | null;
}
