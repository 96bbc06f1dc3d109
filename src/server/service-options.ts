/** What a collector's own parts are given, and what they count. */
import type { ObjectPlace } from "../archive/objects/object-place.ts";
import type { CollectedSegment } from "../collect/collector.ts";
import type { Estimator } from "../estimators/estimator.ts";
import type { ResultsStore } from "../results/results-store.ts";
import type { ClusterPart } from "./cluster/cluster-part.ts";
import type { AnsweringLimits } from "./limits.ts";
import type { Retention } from "./retention.ts";

export interface ServiceOptions {
  /** Made where it is missing. */
  data: string;
  table?: readonly Estimator[];
  /** Where results are kept (default: a file of DuckDB in the directory). */
  openResults?: (() => Promise<ResultsStore>) | undefined;
  now?: () => bigint;
  /** Longest time of one question, ms (default 30 s). */
  questionMs?: number;
  /** What one client may have of the time of answering. */
  answering?: AnsweringLimits | undefined;
  /** Segments to watch, beside those that labels A:B name. */
  segments?: readonly CollectedSegment[];
  /** How long an epoch waits for its other end (default 30 s). */
  latenessNs?: bigint | undefined;
  retention?: Retention | undefined;
  /** How often rows are made and written, ms (default 500). */
  tickMs?: number;
  /** Records are copied there, and asked for there too. */
  objects?: ObjectPlace | undefined;
  /** Where it is a worker of a cluster. */
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
