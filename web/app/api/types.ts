/** What the collector answers (src/results/series.ts, overview.ts, src/server): delays in ns, instants as texts of ns. */

export interface Latency {
  meanNs: number;
  lowNs: number;
  highNs: number;
  stdevNs: number | null;
}

export interface SeriesPoint {
  startNs: string;
  endNs: string;
  latency: Latency | null;
  reason: string | null;
  answered: number | null;
  sent: number | null;
  received: number | null;
  lost: number | null;
  lossRate: number | null;
  dropped: number | null;
  epochs: number;
  missing: number;
  refused: number;
  edges: number;
}

export interface Series {
  from: string;
  to: string;
  label: string;
  estimator: string;
  stepNs: string;
  points: SeriesPoint[];
  next: string | null;
}

export interface SegmentName {
  from: string;
  to: string;
  label: string;
}

export interface KnownSegment extends SegmentName {
  estimators: string[];
  /** Questions about its packets have answers. Missing in answers of older collectors. */
  packets?: boolean;
  firstNs: string | null;
  lastNs: string | null;
}

/** What is usual for a segment, and of which time that is. */
export interface Normal {
  valueNs: number;
  spreadNs: number;
  of: string;
}

export interface SegmentOverview extends SegmentName {
  estimator: string;
  estimators: string[];
  latest: SeriesPoint | null;
  normal: Normal | null;
  sent: number | null;
  lost: number | null;
  epochs: number;
  missing: number;
  refused: number;
  meanNs: (number | null)[];
  lowNs: (number | null)[];
  highNs: (number | null)[];
  lossRate: (number | null)[];
}

export interface Overview {
  fromNs: string;
  toNs: string;
  stepNs: string;
  segments: SegmentOverview[];
}

/** A row as it comes. */
export type EpochEvent = SegmentName & SeriesPoint & { estimator: string };

export interface FlowSummary {
  flow: string;
  packets: number | null;
  bytes: number | null;
  lost: number | null;
  epochs: number;
  latency: Latency | null;
  reason: string | null;
  answered: number | null;
}

export type FlowPoint = Omit<FlowSummary, "flow"> & { startNs: string };

export interface TapState {
  heardMs: number;
  lastEndNs: string;
  program: string;
  records: number;
  packets: number;
  dropped: number | null;
  clock: {
    synchronised: boolean;
    discipline: "ntp" | "ptp" | null;
    estimatedErrorNs: number;
    maximumErrorNs: number;
  } | null;
  cpuShare: number | null;
  spool: { hoptime: string; waiting: number; waitingBytes: number; dropped: number; refused: number } | null;
}

export interface Health {
  status: string;
  trouble: string | null;
  hoptime: string;
  upSeconds: number;
  records: Record<string, number>;
  pairing: Record<string, number>;
  memory: { rss: number; heapUsed: number };
  problems: string[];
}

export interface TapPlanState {
  version: number;
  plan: { estimators: string[]; epoch?: string; key?: string; filter?: string } | null;
  next: { version: number; fromNs: string } | null;
}
