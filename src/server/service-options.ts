/** Options of the collector service, and its counters. */
import type { ObjectPlace } from "../archive/objects/object-place.ts";
import type { CollectedSegment } from "../collect/collector.ts";
import type { Estimator } from "../estimators/estimator.ts";
import type { ResultsStore } from "../results/results-store.ts";
import type { ClusterPart } from "./cluster/cluster-part.ts";
import type { AnsweringLimits } from "./limits.ts";
import type { Retention } from "./retention.ts";

export interface ServiceOptions {
  /** Data directory; created if missing. */
  data: string;
  table?: readonly Estimator[];
  /** Opens the result store (default: a DuckDB file in the data directory). */
  openResults?: (() => Promise<ResultsStore>) | undefined;
  now?: () => bigint;
  /** Time limit of one question, ms (default 30 s). */
  questionMs?: number;
  /** Share of answering time per client. */
  answering?: AnsweringLimits | undefined;
  /** Segments to watch besides those that labels A:B name. */
  segments?: readonly CollectedSegment[];
  /** How long an epoch waits for the record of the other endpoint (default 30 s). */
  latenessNs?: bigint | undefined;
  retention?: Retention | undefined;
  /** Interval at which rows are made and written, ms (default 500). */
  tickMs?: number;
  /** Object store to which records are copied and from which old ones are read. */
  objects?: ObjectPlace | undefined;
  /** Set if the collector is a worker of a cluster. */
  cluster?: ClusterPart | undefined;
  onLog?: (text: string) => void;
}

export interface ServiceCounts {
  messages: number;
  stored: number;
  unchanged: number;
  replaced: number;
  merged: number;
  refused: number;
  bytes: number;
  questions: number;
  failedQuestions: number;
  rows: number;
  rolledUp: number;
}

export const LATENESS_NS = 30_000_000_000n;
