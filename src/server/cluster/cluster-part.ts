/** The interface between the service and its cluster (worker.ts), for a collector that is one of several workers. A single collector has none. */
import type { RecordArchive } from "../../archive/archive.ts";
import type { CollectedSegment } from "../../collect/collector.ts";
import type { RecordHead } from "../../epoch/record.ts";
import type { Ingested, StreamPlace } from "../ingest.ts";
import type { PairingState } from "../pairing.ts";
import type { PairingPart } from "../pairing-thread.ts";
import type { ArchiveQuestion } from "../questions.ts";
import type { RowGate } from "../row-writer.ts";
import type { TapPlanState } from "../tap-plan.ts";

/** The parts of the service that a worker drives. */
export interface WorkerParts {
  archive: RecordArchive;
  pairing: PairingPart;
  latenessNs: bigint;
  /** Checks and stores records (transport/batch.ts) without estimating them. */
  store(message: Uint8Array, places: readonly StreamPlace[]): Promise<Ingested>;
  /** Stores records and estimates them. */
  take(message: Uint8Array, arrival: Arrival): Promise<Ingested>;
  adoptPlan(state: TapPlanState): Promise<void>;
  /** Reports a problem to the log and to the list of problems. */
  problem(text: string): void;
  log(text: string): void;
}

export interface Arrival {
  /** Each tap's report about itself, by point. */
  reports: ReadonlyMap<string, string>;
  /** Whether the records count as arrived. A copy made for another partition does not. */
  counts: boolean;
  /** Place in the stream, one per record. */
  places: readonly StreamPlace[];
}

export interface ClusterPart {
  attach(parts: WorkerParts): void;
  /** Asks for a segment to be watched by the worker that has its receiver's partition. */
  watch(segment: CollectedSegment): void;
  /** Decides which rows this worker writes, and when. */
  readonly gate: RowGate;
  /** Called when a record arrives after its epoch was closed. */
  late(head: RecordHead): void;
  /** Called when all rows made up to this pairing state are written, except those of segments to the receivers in `held`. */
  written(state: Pick<PairingState, "orders" | "openNames" | "aloneNames">, held: ReadonlySet<string>): void;
  /** Called when everything that arrived before the last tick is either estimated and written, or waiting. */
  ticked(): void;
  /** Publishes records received over HTTP to the stream, like all other records. */
  publish(message: Uint8Array, points: readonly string[] | null, tap: string | null): Promise<Ingested>;
  /** Resolves when the archive holds the records that the question needs. */
  fetchFor(asked: ArchiveQuestion): Promise<void>;
  /** The points that the cluster has records of, with their labels. */
  readonly labels: ReadonlyMap<string, readonly string[]>;
  /** Whether the records of this point arrive at this worker. */
  hears(point: string): boolean;
  sharePlan(state: TapPlanState): Promise<void>;
  state(): ClusterState;
}

/** The cluster state shown by /v1/health and /metrics. */
export interface ClusterState {
  url: string;
  group: string;
  worker: string;
  workers: number;
  partitions: number;
  /** Partitions this worker owns. */
  owned: number[];
  /** Messages not acknowledged yet. `lag`: messages of this worker's partitions that have not been read. */
  unacknowledged: number;
  lag: number;
  acknowledged: number;
  copied: number;
  setAside: number;
  /** The most recent records set aside. */
  aside: { subject: string; sequence: number; reason: string }[];
  takenOver: number;
  lost: number;
}
