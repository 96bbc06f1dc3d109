/**
 * The answer of `hoptime compare`: format `hoptime.compare/1`. All times and delays are nanoseconds. A quantity that
 * has no answer is null and the reason stands beside it; it is never 0 or NaN.
 */
import type { ClockUncertainty } from "../clock/correction.ts";
import type { RowForm } from "../match/row-form.ts";

export interface Latency {
  /** Matched packets that the numbers rest on. */
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
  /** Mean absolute difference of the delays of packets of a flow sent one after the other, of those that arrived (RFC 3393 IPDV, mean of |ddT|); null below 2. */
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
  /** Packets the capturing side says it dropped (pcapng interface statistics, options); null where the file doesn't say. */
  dropped: number | null;
  /** Set when the file could not be read to its end: what, and where. What was read until then counts. */
  partial: string | null;
}

/** As FlowKey; the report page shares these types, and knows nothing of captures. */
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
  /** The flow as the second point names it, where addresses are translated on the way. */
  keyAfter?: FlowKeyJson;
  communityId: string | null;
  sent: number;
  received: number;
  matched: number;
  lost: number;
  appeared: number;
  duplicates: number;
  /** Null for packets of the reverse way: their order of arrival is not followed. */
  reordered: number | null;
  /** Matched ones whose delays are not known, because others look the same; left out where there are none. */
  ambiguous?: number;
  bytes: number;
  latency: Latency | null;
  /** Why latency is null. */
  reason?: string;
}

/** An address of the first point and what it is at the second. */
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
  /** Share of the packets that could have arrived (matched + lost); null when there were none. */
  lossRate: number | null;
  /** Packets that the capturing sides say they dropped (beside `lost`, which they may explain); null where the files do not say. */
  captureLoss?: { before: number | null; after: number | null } | null;
  appeared: number;
  duplicates: number;
  /** Null for the reverse way: its order of arrival is not followed. */
  reordered: number | null;
  /** Reordering extent (RFC 4737 section 4.2): packets by which a late packet was overtaken at most. */
  reorderExtent: { max: number; mean: number } | null;
  head: number;
  tail: number;
  /**
   * Packets near the ends of the captures that may be lost, or may have passed while the other capture was not running: by what packets took there, either is
   * possible. Each is counted as what is likelier: `lost`, `head` and `tail` are certain within so many.
   */
  undecided: number;
  /** Matched packets among several that look the same: which is which is not known, and their delays are not in `latency`. */
  ambiguous: number;
  /** Packets without a partner that never leave their link (224.0.0.0/24, fe80::/10, ff02::/16): neither lost nor appeared. */
  linkLocal: number;
  /** Packets that the first capture holds twice (a mirror): counted once. */
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
  /** Packets that crossed from AFTER to BEFORE (two-way captures); null when there were none. */
  reverse: SegmentReport | null;
  flows: FlowReport[];
  reverseFlows: FlowReport[];
  intervals: IntervalReport[];
  /** Points of the delay distribution for drawing: share of matched packets with a delay <= delayNs. */
  cdf: { delayNs: number; share: number }[];
  heat: HeatMap | null;
  /** What the clock doctor found; `lines` are sentences for people. */
  clock: {
    mode: string;
    trust: string;
    lines: string[];
    uncertainty?: ClockUncertainty;
    [detail: string]: unknown;
  };
  /** Which file is the earlier point, and the evidence. */
  direction: { order: "as-given" | "swapped" | "unclear"; evidence: string[] };
  /** Addresses that are translated on the way, most packets first; only where that was asked for. */
  translations?: Translation[];
  /** Sentences about what limits these numbers (partial files, snap lengths, offload, ambiguity …). */
  notes: string[];
  /** Why the loss of 'segment' is probably not real, as one of the notes says; only where there is a cause. */
  lossCause?: string;
  /** Estimates beside the exact values, by estimator; only where some were asked for. */
  estimates?: Record<string, unknown>;
}

/** Flows in a row, counted, to be walked as often as wanted. A list of them is one. */
export interface FlowRows extends Iterable<FlowReport> {
  readonly length: number;
  /** Rows as text, in larger pieces and much faster than one by one; null where there is no such way. `row`: those that have no such text. */
  texts?(form: RowForm, row: (flow: FlowReport) => string): Iterable<string> | null;
}

/** A report whose flows are made while they are walked: what can be written without ever being whole in memory. */
export interface ReportView extends Omit<CompareReport, "flows" | "reverseFlows"> {
  flows: FlowRows;
  reverseFlows: FlowRows;
}

/** Fields of a latency and counts of a flow, in the order of tables. */
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
