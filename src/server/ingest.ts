/**
 * Checks records from the network and stores them in the archive. Before anything is allocated for a record, its frame, head, checksums, names,
 * times and geometry are checked, and that its sender may send records of its point. An invalid record is refused by itself; the others of the
 * message are stored.
 */
import type { RecordArchive } from "../archive/archive.ts";
import type { ArchiveEntry } from "../archive/names.ts";
import type { StoreItem, StoreOutcome } from "../archive/writer.ts";
import { FormatError, UsageError } from "../base/errors.ts";
import { remembered } from "../base/remembered.ts";
import { formatTime } from "../base/time.ts";
import { turnEvery } from "../base/turn.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { geometryFingerprint } from "../epoch/compatible.ts";
import { type EpochRecord, payloadIn, type RecordHead, verifyRecord } from "../epoch/record.ts";
import { type Estimator, readsVersion } from "../estimators/estimator.ts";
import { parseParameters } from "../estimators/parameters.ts";
import { mergeBy } from "../observe/directory-sink.ts";
import { checkName } from "../observe/observer.ts";
import { type BatchSlice, splitBatch } from "../transport/batch.ts";
import { notItsPoint } from "./access.ts";

export interface IngestLimits {
  /** Most records in one message. */
  maxRecords: number;
  /** Largest payload, uncompressed. */
  maxPayloadBytes: number;
  /** How far an epoch's end may lie ahead of the clock. */
  maxAheadNs: bigint;
}

export const INGEST_LIMITS: IngestLimits = {
  maxRecords: 4096,
  maxPayloadBytes: 256 << 20,
  maxAheadNs: 3_600_000_000_000n,
};

/** Where and when a stream received a record. */
export interface StreamPlace {
  /** Point in the record's subject. The stream's servers check it against the publisher's permissions. */
  point: string;
  label: string;
  /** When the stream received it, ns since 1970, by the servers' clock. */
  cameNs: bigint;
}

export interface IngestResult {
  outcome: StoreOutcome["outcome"];
  reason?: string;
}

export interface Accepted {
  head: RecordHead;
  /** The record as received; the archive holds the same if `outcome` is `stored`. */
  record: EpochRecord;
  encoded: Uint8Array | null;
  outcome: Exclude<StoreOutcome["outcome"], "refused">;
  bytes: number;
  /** It was merged with another record of its epoch, or replaced it. */
  settled: boolean;
}

export interface Ingested {
  results: IngestResult[];
  /** Records now in the archive. */
  accepted: Accepted[];
  /** Heads of records refused in favour of another record of the same epoch. */
  refused: RecordHead[];
  /** Why the message ends in the middle of a record; null if it does not. */
  cut: string | null;
}

/** Far longer than any text in a valid head. */
const MAX_TEXT = 4096;
const MAX_REASONS = 64;
const DAY_NS = 86_400_000_000_000n;
const MAX_SETTINGS = 1000;

export class Ingest {
  readonly #archive: RecordArchive;
  readonly #table: readonly Estimator[];
  readonly #limits: IngestLimits;
  readonly #now: () => bigint;
  /** The result of checking a tap's settings, cached: they are the same in each of its records. */
  readonly #settings: (text: string) => CheckedSettings;

  constructor(
    archive: RecordArchive,
    table: readonly Estimator[],
    {
      limits = INGEST_LIMITS,
      now = () => BigInt(Date.now()) * 1_000_000n,
    }: { limits?: IngestLimits; now?: () => bigint } = {},
  ) {
    this.#archive = archive;
    this.#table = table;
    this.#limits = limits;
    this.#now = now;
    this.#settings = remembered(MAX_SETTINGS, (text) => checkSettings(JSON.parse(text) as Settings, table));
  }

  /**
   * Checks and stores the records of a message; all accepted ones are on disk when it resolves. `points`: the points that the sender may send
   * records of; null: any. `places`: where the stream received each record; their times then replace this worker's clock. Rejects if the disk
   * cannot be written.
   */
  async take(
    message: Uint8Array,
    points: readonly string[] | null,
    places: readonly StreamPlace[] = [],
  ): Promise<Ingested> {
    const { records, cut } = splitBatch(message, "message", this.#limits.maxRecords);
    const results: (IngestResult | null)[] = records.map(() => null);
    const items: StoreItem[] = [];
    const at: number[] = [];
    const turn = turnEvery(30);
    for (const [i, slice] of records.entries()) {
      await turn();
      const checked = this.#check(slice, points, places[i]);
      if (typeof checked === "string") results[i] = { outcome: "refused", reason: checked };
      else {
        items.push(checked);
        at.push(i);
      }
    }
    const accepted: Accepted[] = [];
    const refused: RecordHead[] = [];
    const { outcomes } = await this.#archive.store(items, mergeBy(this.#table));
    for (const [n, outcome] of outcomes.entries()) {
      const item = items[n];
      results[at[n] ?? 0] =
        outcome.outcome === "refused"
          ? { outcome: "refused", reason: plain(outcome.reason) }
          : { outcome: outcome.outcome };
      if (!item) continue;
      const { record, encoded } = item;
      const head: RecordHead = record;
      if (outcome.outcome === "refused") refused.push(head);
      else {
        const settled = outcome.outcome === "merged" || outcome.outcome === "replaced";
        accepted.push({
          ...{ head, record, encoded: encoded ?? null },
          ...{ outcome: outcome.outcome, bytes: encoded?.length ?? 0, settled },
        });
      }
    }
    const all = results.map((r) => r ?? { outcome: "refused" as const, reason: "not stored" });
    return { results: all, accepted, refused, cut: cut?.message ?? null };
  }

  /** Returns the item to store, or why the record is refused. */
  #check(
    { bytes, offset }: BatchSlice,
    points: readonly string[] | null,
    place?: StreamPlace,
  ): StoreItem | string {
    try {
      const source = { file: "message", offset };
      const { head, layout } = verifyRecord(bytes, source);
      if (place) checkPlace(head, place);
      this.#checkHead(head, layout.unpackedBytes, points);
      this.#checkTimes(head, place?.cameNs ?? this.#now());
      return { record: lazily(head, () => payloadIn(bytes, layout, source)), encoded: bytes };
    } catch (error) {
      if (error instanceof FormatError) return error.message;
      if (error instanceof UsageError) return plain(error);
      throw error;
    }
  }

  #checkHead(head: RecordHead, payloadBytes: number, points: readonly string[] | null): void {
    const bad = (problem: string) => new UsageError("mismatch", problem);
    checkName("point", head.point);
    if (head.segment !== "") checkName("segment", head.segment);
    const foreign = notItsPoint(head.point, points);
    if (foreign !== null) throw bad(foreign);
    for (const name of ["parameters", "key", "filter", "program"] as const)
      if (head[name].length > MAX_TEXT)
        throw bad(`its ${name} have ${head[name].length} characters (expected at most ${MAX_TEXT})`);
    if ((head.void?.length ?? 0) > MAX_TEXT || Object.keys(head.counters.skipped).length > MAX_REASONS)
      throw bad("its reasons are too long or too many");
    if (payloadBytes > this.#limits.maxPayloadBytes)
      throw bad(`a payload of ${payloadBytes} bytes (expected at most ${this.#limits.maxPayloadBytes})`);
    const { estimator, payloadVersion, parameters, key, cover, inner } = head;
    const settings: Settings = [estimator, payloadVersion, parameters, key, cover, inner];
    const checked = this.#settings(JSON.stringify(settings));
    if (checked.problem) throw checked.problem;
    if (head.fingerprint !== checked.fingerprint) throw bad("its fingerprint is not that of its settings");
  }

  #checkTimes({ epoch }: RecordHead, nowNs: bigint): void {
    const { startNs, endNs } = epoch;
    const bad = (problem: string) => new UsageError("bad-time", problem);
    // A void epoch, or one between two delimiters with the same timestamp, has zero length.
    const shortest = epoch.mode === "aligned" ? 1n : 0n;
    if (endNs - startNs < shortest || startNs < 0n) throw bad(`an epoch from ${startNs} to ${endNs} ns`);
    if (endNs - startNs > DAY_NS) throw bad("an epoch of more than a day");
    if (endNs > nowNs + this.#limits.maxAheadNs)
      throw bad(
        `its epoch ends at ${formatTime(endNs)}, ahead of the collector's clock: check the clock of the point`,
      );
  }
}

/** A tap permitted to publish for one point must not send records of another. */
function checkPlace({ point, segment }: RecordHead, place: StreamPlace): void {
  if (point === place.point && segment === place.label) return;
  const named = (of: string, label: string) =>
    `point '${of}'${label === "" ? " without a label" : `, label '${label}'`}`;
  throw new UsageError(
    "mismatch",
    `the record is of ${named(point, segment)}; its subject says ${named(place.point, place.label)}`,
  );
}

/** A tap's settings. Their JSON is the key of the cache. */
type Settings = [
  estimator: string,
  payloadVersion: number,
  parameters: string,
  key: string,
  cover: number,
  inner: boolean,
];
type CheckedSettings = { problem: UsageError } | { problem: null; fingerprint: bigint };

function checkSettings(
  [name, payloadVersion, parameters, key, cover, inner]: Settings,
  table: readonly Estimator[],
): CheckedSettings {
  try {
    const estimator = table.find((e) => e.name === name);
    if (!estimator)
      throw new UsageError("mismatch", `this collector does not know estimator '${name.slice(0, 64)}'`);
    if (!readsVersion(estimator, payloadVersion))
      throw new UsageError(
        "mismatch",
        `this collector does not read version ${payloadVersion} of ${estimator.name}`,
      );
    FlowKeySpec.parse(key);
    // Parameters out of bounds would describe geometries too large to allocate.
    parseParameters(estimator, parameters);
    const settings = { estimator: name, payloadVersion, parameters, key, cover, inner };
    return { problem: null, fingerprint: geometryFingerprint(settings) };
  } catch (error) {
    if (error instanceof UsageError) return { problem: error };
    throw error;
  }
}

/**
 * Returns a record that unpacks its payload on each access, without keeping it. Most records are stored as received, and an unpacked payload may be
 * much larger.
 */
function lazily(head: RecordHead, unpack: () => Uint8Array): EpochRecord {
  return {
    ...head,
    get payload() {
      return unpack();
    },
  };
}

function plain({ message, hint }: UsageError): string {
  return hint === undefined ? message : `${message}; ${hint}`;
}

/** Returns the archive's listing entry for a record with this head. */
export function entryOf(file: string, head: RecordHead): ArchiveEntry {
  const { point, segment, estimator, role } = head;
  const { mode, startNs, endNs, startId, endId } = head.epoch;
  return { file, point, segment, estimator, role, epoch: { mode, startNs, endNs, startId, endId } };
}
