/** What a service that is one of several workers asks of its cluster (worker.ts), and what it gives to it. A service on its own has none. */
import type { RecordArchive } from "../../archive/archive.ts";
import type { CollectedSegment } from "../../collect/collector.ts";
import type { RecordHead } from "../../epoch/record.ts";
import type { Ingested, StreamPlace } from "../ingest.ts";
import type { PairingState } from "../pairing.ts";
import type { PairingPart } from "../pairing-thread.ts";
import type { ArchiveQuestion } from "../questions.ts";
import type { RowGate } from "../row-writer.ts";
import type { TapPlanState } from "../tap-plan.ts";

/** The service's parts that a worker drives. */
export interface WorkerParts {
  archive: RecordArchive;
  pairing: PairingPart;
  latenessNs: bigint;
  /** Checks and stores records (transport/batch.ts); nothing else is made of them. */
  store(message: Uint8Array, places: readonly StreamPlace[]): Promise<Ingested>;
  /** The same, and estimates them. */
  take(message: Uint8Array, arrival: Arrival): Promise<Ingested>;
  adoptPlan(state: TapPlanState): Promise<void>;
  /** To the log, and the list of problems. */
  problem(text: string): void;
  log(text: string): void;
}

export interface Arrival {
  /** What the tap of a point says of itself. */
  reports: ReadonlyMap<string, string>;
  /** Does it count as one that came? A copy for another partition does not. */
  counts: boolean;
  /** Of each record. */
  places: readonly StreamPlace[];
}

export interface ClusterPart {
  attach(parts: WorkerParts): void;
  /** A segment that is to be watched by whoever works its receiver. */
  watch(segment: CollectedSegment): void;
  /** Which rows this worker writes, and when. */
  readonly gate: RowGate;
  /** A record came after its epoch was given up. */
  late(head: RecordHead): void;
  /** Rows that had been made when the pairing was in this state are written, but for those of segments to these receivers. */
  written(state: Pick<PairingState, "orders" | "openNames" | "aloneNames">, held: ReadonlySet<string>): void;
  /** Everything that had come before the last tick is estimated and written, or waits. */
  ticked(): void;
  /** Records from HTTP go the way of all. */
  publish(message: Uint8Array, points: readonly string[] | null, tap: string | null): Promise<Ingested>;
  /** When it resolves, the archive has what the question is about. */
  fetchFor(asked: ArchiveQuestion): Promise<void>;
  /** Points that the cluster has records of, and their labels. */
  readonly labels: ReadonlyMap<string, readonly string[]>;
  /** Is this worker the one that hears of the point? */
  hears(point: string): boolean;
  sharePlan(state: TapPlanState): Promise<void>;
  state(): ClusterState;
}

/** As /v1/health and /metrics have it. */
export interface ClusterState {
  url: string;
  group: string;
  worker: string;
  workers: number;
  partitions: number;
  /** Worked here. */
  owned: number[];
  /** Messages that are not acknowledged yet, and those of its partitions that have not been read. */
  unacknowledged: number;
  lag: number;
  acknowledged: number;
  copied: number;
  setAside: number;
  /** The last few that were set aside. */
  aside: { subject: string; sequence: number; reason: string }[];
  takenOver: number;
  lost: number;
}
