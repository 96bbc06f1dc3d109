/**
 * The result of `hoptime compare`: format `hoptime.compare/1`. All times and delays are nanoseconds. A quantity without an answer is null, with the reason next
 * to it; it is never 0 or NaN.
 */
import type { ClockUncertainty } from "../clock/correction.ts";
import type { RowForm } from "../match/row-form.ts";

export interface Latency {
  /** Number of matched packets used. */
  count: number;
  meanNs: number;
  stdevNs: number;
  minNs: number;
  maxNs: number;
  /** Nearest-rank quantiles from log buckets: relative error <= 0.4 %. */
  p50Ns: number;
  p90Ns: number;
  p99Ns: number;
  p999Ns: number;
  /** Mean absolute difference of the delays of consecutively sent packets of a flow that arrived (RFC 3393 IPDV, mean of |ddT|); null below 2. */
  jitterNs: number | null;
}

export interface CaptureSummary {
  file: string;
  format: string;
  packets: number;
  ipPackets: number;
  bytes: number;
  /** Integer nanoseconds since 1970 as a string; null in a capture without packets. */
  firstNs: string | null;
  lastNs: string | null;
  /** Packets that were not used, by reason. */
  skipped: Record<string, number>;
  /** Packets that the capturing host reports as dropped (pcapng interface statistics, options); null if the file does not say. */
  dropped: number | null;
  /** Set if the file could not be read to its end: what, and where. Packets read before that count. */
  partial: string | null;
}

/** Like FlowKey; the report page shares these types, and does not depend on capture code. */
export interface FlowKeyJson {
  src: string | null;
  dst: string | null;
  proto: number | null;
  sport: number | null;
  dport: number | null;
  dscp?: number;
  vlan?: number;
}

export interface FlowReport {
  key: FlowKeyJson;
  /** The flow's key at the second point, if addresses are translated on the way. */
  keyAfter?: FlowKeyJson;
  communityId: string | null;
  sent: number;
  received: number;
  matched: number;
  lost: number;
  appeared: number;
  duplicates: number;
  /** Null in the reverse direction: its order of arrival is not tracked. */
  reordered: number | null;
  /** Matched packets with unknown delay, because others look the same; omitted if 0. */
  ambiguous?: number;
  bytes: number;
  latency: Latency | null;
  /** Why latency is null. */
  reason?: string;
}

/** An address at the first point, and its translation at the second. */
export interface Translation {
  end: "src" | "dst";
  before: string;
  after: string;
  flows: number;
  packets: number;
}

export interface SegmentReport {
  sent: number;
  received: number;
  matched: number;
  lost: number;
  /** Share of the packets that could have arrived (matched + lost); null if there were none. */
  lossRate: number | null;
  /** Packets that the capturing hosts report as dropped (in addition to `lost`, which they may explain); null if the files do not say. */
  captureLoss?: { before: number | null; after: number | null } | null;
  appeared: number;
  duplicates: number;
  /** Null in the reverse direction: its order of arrival is not tracked. */
  reordered: number | null;
  /** Reordering extent (RFC 4737 section 4.2): number of packets that overtook a late packet, maximum and mean. */
  reorderExtent: { max: number; mean: number } | null;
  head: number;
  tail: number;
  /**
   * Packets near the ends of the captures that may be lost, or may have passed while the other capture was not running: their delays allow both. Each is
   * counted as the likelier one: `lost`, `head` and `tail` are uncertain by this many.
   */
  undecided: number;
  /** Matched packets among several identical ones: their exact partners are unknown, and their delays are not in `latency`. */
  ambiguous: number;
  /** Packets without a partner that never leave their link (224.0.0.0/24, fe80::/10, ff02::/16): neither lost nor appeared. */
  linkLocal: number;
  /** Packets that the first capture contains twice (a mirror): counted once. */
  mirrored: number;
  latency: Latency | null;
  reason?: string;
}

export interface IntervalReport {
  startNs: string;
  endNs: string;
  sent: number;
  matched: number;
  lost: number;
  latency: Latency | null;
}

export interface HeatMap {
  /** Edges of the delay axis in ns, length rows + 1 (log spaced). */
  delayEdgesNs: number[];
  /** Start of each column, ns since 1970 as strings. */
  columnStartNs: string[];
  columnWidthNs: number;
  /** counts[column][row] */
  counts: number[][];
}

export interface CompareReport {
  format: "hoptime.compare/1";
  hoptime: string;
  options: Record<string, unknown>;
  before: CaptureSummary;
  after: CaptureSummary;
  segment: SegmentReport;
  /** Packets that crossed from AFTER to BEFORE (two-way captures); null if there were none. */
  reverse: SegmentReport | null;
  flows: FlowReport[];
  reverseFlows: FlowReport[];
  intervals: IntervalReport[];
  /** Points of the delay distribution for drawing: share of matched packets with a delay <= delayNs. */
  cdf: { delayNs: number; share: number }[];
  heat: HeatMap | null;
  /** Result of the clock diagnosis; `lines` are sentences for people. */
  clock: {
    mode: string;
    trust: string;
    lines: string[];
    uncertainty?: ClockUncertainty;
    [detail: string]: unknown;
  };
  /** Which file is the earlier point, and the evidence. */
  direction: { order: "as-given" | "swapped" | "unclear"; evidence: string[] };
  /** Addresses that are translated on the way, most packets first; only if requested. */
  translations?: Translation[];
  /** Sentences about the limits of these numbers (partial files, snap lengths, offload, ambiguity …). */
  notes: string[];
  /** Why the loss of 'segment' is probably not real, as one of the notes says; only if there is a cause. */
  lossCause?: string;
  /** Estimates next to the exact values, by estimator; only if requested. */
  estimates?: Record<string, unknown>;
}

/** Flows in sequence, with their number, iterable any number of times. An array of them is one. */
export interface FlowRows extends Iterable<FlowReport> {
  readonly length: number;
  /** Rows as text, in larger pieces and much faster than one by one; null if not available. `row`: for rows that have no such text. */
  texts?(form: RowForm, row: (flow: FlowReport) => string): Iterable<string> | null;
}

/** A report whose flows are made during iteration: it can be written without ever being complete in memory. */
export interface ReportView extends Omit<CompareReport, "flows" | "reverseFlows"> {
  flows: FlowRows;
  reverseFlows: FlowRows;
}

/** Fields of a latency and counts of a flow, in the column order of tables. */
export const LATENCY_FIELDS = [
  "meanNs",
  "stdevNs",
  "minNs",
  "maxNs",
  "p50Ns",
  "p90Ns",
  "p99Ns",
  "p999Ns",
  "jitterNs",
] as const;
export type LatencyField = (typeof LATENCY_FIELDS)[number];
export const COUNT_FIELDS = [
  "sent",
  "received",
  "matched",
  "lost",
  "appeared",
  "duplicates",
  "reordered",
  "bytes",
] as const;
export type CountField = (typeof COUNT_FIELDS)[number];
