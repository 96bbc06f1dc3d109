/**
 * Records from the network become records of the archive. Each is checked before anything is allocated for it: its frame and head, its checksums, names and times, the
 * geometry that its parameters stand for, and that it is of the point that its sender may speak for. What is wrong with one is said of that one alone.
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
  /** Records in one message. */
  maxRecords: number;
  /** Of one payload, unpacked. */
  maxPayloadBytes: number;
  /** How far ahead of the clock an epoch may end. */
  maxAheadNs: bigint;
}

export const INGEST_LIMITS: IngestLimits = {
  maxRecords: 4096,
  maxPayloadBytes: 256 << 20,
  maxAheadNs: 3_600_000_000_000n,
};

/** What a stream says of a record that it kept. */
export interface StreamPlace {
  /** By its subject, which the stream's servers check against the rights of who published it. */
  point: string;
  label: string;
  /** When it came, ns since 1970, by the clock of the servers. */
  cameNs: bigint;
}

export interface IngestResult {
  outcome: StoreOutcome["outcome"];
  reason?: string;
}

export interface Accepted {
  head: RecordHead;
  /** As it came, which is what the archive has where `outcome` is stored. */
  record: EpochRecord;
  encoded: Uint8Array | null;
  outcome: Exclude<StoreOutcome["outcome"], "refused">;
  bytes: number;
  /** Together with, or in the place of, another record of its epoch. */
  settled: boolean;
}

export interface Ingested {
  results: IngestResult[];
  /** Those that are in the archive now. */
  accepted: Accepted[];
  /** Heads of those that another record of their epoch kept out. */
  refused: RecordHead[];
  /** The message ends within a record: why. */
  cut: string | null;
}

/** No text of a head comes near. */
const MAX_TEXT = 4096;
const MAX_REASONS = 64;
const DAY_NS = 86_400_000_000_000n;
const MAX_SETTINGS = 1000;

export class Ingest {
  readonly #archive: RecordArchive;
  readonly #table: readonly Estimator[];
  readonly #limits: IngestLimits;
  readonly #now: () => bigint;
  /** What is wrong with the settings of a tap, by all of them: they are the same in each of its records. */
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
   * When it resolves, what was not refused is on disk. `points`: those whose records are taken; null: any. `places`: of each record, where a stream has it: a worker's own clock plays no part then.
   * Rejects where the disk does not take them.
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

  /** What is to be stored, or why not. */
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
    // One that is void, or between two delimiters of the same timestamp, takes no time.
    const shortest = epoch.mode === "aligned" ? 1n : 0n;
    if (endNs - startNs < shortest || startNs < 0n) throw bad(`an epoch from ${startNs} to ${endNs} ns`);
    if (endNs - startNs > DAY_NS) throw bad("an epoch of more than a day");
    if (endNs > nowNs + this.#limits.maxAheadNs)
      throw bad(
        `its epoch ends at ${formatTime(endNs)}, ahead of the collector's clock: check the clock of the point`,
      );
  }
}

/** A tap that may publish for its own point alone speaks for no other. */
function checkPlace({ point, segment }: RecordHead, place: StreamPlace): void {
  if (point === place.point && segment === place.label) return;
  const named = (of: string, label: string) =>
    `point '${of}'${label === "" ? " without a label" : `, label '${label}'`}`;
  throw new UsageError(
    "mismatch",
    `the record is of ${named(point, segment)}; its subject says ${named(place.point, place.label)}`,
  );
}

/** As JSON, a text for each. */
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
    // Parameters out of their bounds are geometries that nobody has room for.
    parseParameters(estimator, parameters);
    const settings = { estimator: name, payloadVersion, parameters, key, cover, inner };
    return { problem: null, fingerprint: geometryFingerprint(settings) };
  } catch (error) {
    if (error instanceof UsageError) return { problem: error };
    throw error;
  }
}

/** A record whose payload is unpacked when somebody asks for it: most are stored as they came. It is not kept: it may be much larger than what it came in. */
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

/** Where the archive keeps the record of a head, as its listing would give it. */
export function entryOf(file: string, head: RecordHead): ArchiveEntry {
  const { point, segment, estimator, role } = head;
  const { mode, startNs, endNs, startId, endId } = head.epoch;
  return { file, point, segment, estimator, role, epoch: { mode, startNs, endNs, startId, endId } };
}
