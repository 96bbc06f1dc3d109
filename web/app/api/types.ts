/** Types of the collector's answers: delays in ns, points in time as strings of ns. */
import type { FlowSummary, SeriesPoint } from "../../../src/results/series.ts";

export type { Normal } from "../../../src/results/normals.ts";
export type { Overview, SegmentOverview } from "../../../src/results/overview.ts";
export type { FlowSummary, MeanLatency, Series, SeriesPoint } from "../../../src/results/series.ts";
export type { TapPlanState } from "../../../src/server/tap-plan.ts";
export type { TapState } from "../../../src/server/tap-states.ts";

export interface SegmentName {
  from: string;
  to: string;
  label: string;
}

export interface KnownSegment extends SegmentName {
  estimators: string[];
  /** Questions about its packets can be answered. Missing in answers of older collectors. */
  packets?: boolean;
  firstNs: string | null;
  lastNs: string | null;
}

/** A row of the live events. */
export type EpochEvent = SegmentName & SeriesPoint & { estimator: string };

export type FlowPoint = Omit<FlowSummary, "flow"> & { startNs: string };

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
