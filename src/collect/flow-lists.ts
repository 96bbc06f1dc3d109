/**
 * The flows for which per-flow estimates are made: those that a flow table at one end lists for the epoch (preferably the sender's: it saw all), otherwise
 * those named by a query.
 */
import { later } from "../base/time.ts";
import { identityText } from "../epoch/identity.ts";
import { mergeRecords, sealed } from "../epoch/merge.ts";
import type { EpochRecord } from "../epoch/record.ts";
import { type Estimator, type FlowListing, type KnownFlows, readsVersion } from "../estimators/estimator.ts";
import { KEY_WORDS } from "../estimators/flow-keys.ts";
import { parseParameters } from "../estimators/parameters.ts";
import type { RecordHandle } from "./record-handle.ts";

/** A point that listed no flows for this many epochs no longer lists any. */
const SILENT_EPOCHS = 10n;

/** Records of estimators that list flows, by point and epoch. */
export class FlowLists {
  readonly #estimators: readonly { estimator: Estimator; list: FlowListing }[];
  /** By place, then by identity: a repeated record takes no additional room. */
  readonly #byEpoch = new Map<string, Map<string, RecordHandle>>();
  /** Places whose estimates were made already, with the lists present then. */
  readonly #used = new Map<string, bigint>();
  /** By point: end of the newest epoch whose flows it has listed. */
  readonly #latest = new Map<string, bigint>();
  #forgottenNs: bigint | null = null;
  #seen = false;

  constructor(estimators: readonly Estimator[]) {
    // A sketch that lists its own heavy flows is read by its owner.
    this.#estimators = estimators.flatMap((e) =>
      e.flowList && !e.flowList.heavyOnly ? [{ estimator: e, list: e.flowList }] : [],
    );
  }

  get empty(): boolean {
    return this.#byEpoch.size === 0;
  }

  /** Whether any epoch had a list: then others will have one. */
  get seen(): boolean {
    return this.#seen;
  }

  /** Takes records that list flows, and ignores others. `late`: estimates of its epoch were made without it. */
  add(record: RecordHandle): "taken" | "repeated" | "late" | null {
    if (!this.#estimators.some((e) => e.estimator.name === record.estimator)) return null;
    this.#seen = true;
    const name = place(record);
    const { point, epoch } = record;
    this.#latest.set(point, later(epoch.endNs, this.#latest.get(point) ?? 0n));
    const lists = this.#byEpoch.get(name) ?? new Map<string, RecordHandle>();
    const identity = identityText(record);
    if (lists.has(identity)) return "repeated";
    if (this.#forgottenNs !== null && epoch.endNs <= this.#forgottenNs) return "late";
    if (lists.size === 0) this.#byEpoch.set(name, lists);
    lists.set(identity, record);
    return this.#used.has(name) ? "late" : "taken";
  }

  /** Marks the epochs of these records as estimated with the lists present. */
  use(records: readonly RecordHandle[]): void {
    for (const record of records) this.#used.set(place(record), record.epoch.endNs);
  }

  /** Whether a list of these records' epochs is still expected: their point listed flows in its last epochs. */
  awaits(records: readonly RecordHandle[]): boolean {
    return records.some((record) => {
      const latestNs = this.#latest.get(record.point);
      const { startNs, endNs } = record.epoch;
      return (
        latestNs !== undefined &&
        latestNs >= startNs - SILENT_EPOCHS * (endNs - startNs) &&
        !this.has([record])
      );
    });
  }

  /** Removes lists of epochs that ended at or before the watermark; of the others, the last `most` are kept. */
  forget(watermarkNs: bigint, most: number): void {
    if (this.#forgottenNs === null || watermarkNs > this.#forgottenNs) this.#forgottenNs = watermarkNs;
    for (const [name, endNs] of this.#used) if (endNs <= watermarkNs) this.#used.delete(name);
    for (const oldest of this.#used.keys()) {
      if (this.#used.size <= most) break;
      this.#used.delete(oldest);
    }
    for (const [name, lists] of this.#byEpoch)
      for (const { epoch } of lists.values()) {
        // All lists of a place are of one epoch.
        if (epoch.endNs <= watermarkNs) this.#byEpoch.delete(name);
        break;
      }
    for (const oldest of this.#byEpoch.keys()) {
      if (this.#byEpoch.size <= most) break;
      this.#byEpoch.delete(oldest);
    }
  }

  *records(): Generator<RecordHandle> {
    for (const list of this.#byEpoch.values()) yield* list.values();
  }

  /** Whether there is a list for each of these records' epochs. It may turn out not to fit. */
  has(records: readonly RecordHandle[]): boolean {
    return records.length > 0 && records.every((r) => this.#byEpoch.has(place(r)));
  }

  /**
   * Returns the flows of the epochs of these records (one, or merged adjacent ones), as listed by `point` (default: the point of the records); null if a table
   * is missing or does not fit.
   */
  of(records: readonly RecordHandle[], like: EpochRecord, point?: string): KnownFlows | null {
    if (records.length === 0) return null;
    for (const { estimator, list } of this.#estimators) {
      try {
        const merged = this.#merged(estimator, records, like, point);
        const found = merged && list.read(sealed(merged), parseParameters(estimator, merged.parameters));
        if (found) return found;
      } catch {
        // A damaged or foreign table counts as none; the estimate reports that it had no list of flows.
      }
    }
    return null;
  }

  #merged(
    estimator: Estimator,
    records: readonly RecordHandle[],
    like: EpochRecord,
    point?: string,
  ): EpochRecord | null {
    let merged: EpochRecord | null = null;
    for (const record of records) {
      // Hashes identify the same flows only with the same seed and key.
      const lists = [...(this.#byEpoch.get(place(record, point))?.values() ?? [])];
      const handle = lists.find((e) => e.estimator === estimator.name && e.seed === like.seed);
      if (!handle) return null;
      const next = handle.read();
      if (next.void !== null || !readsVersion(estimator, next.payloadVersion)) return null;
      if (next.key !== like.key || next.inner !== like.inner) return null;
      merged = merged ? mergeRecords(merged, next, estimator) : next;
    }
    return merged;
  }
}

/** Names a place. Epochs cut by packets are identified by these packets: their times differ from point to point. */
function place({ point, segment, epoch }: RecordHandle, at = point): string {
  const { mode, startNs, endNs, startId, endId } = epoch;
  const cut = startId !== 0n && endId !== 0n ? [startId, endId] : [startNs, endNs, startId];
  return [at, segment, mode, ...cut].join("\n");
}

/** Merges both lists: for a flow in both, with the first one's counts. */
export function joinFlows(a: KnownFlows | null, b: KnownFlows | null): KnownFlows | null {
  if (!a || !b) return a ?? b;
  if (a.complete) return a;
  if (b.complete) return b;
  const name = ({ keyWords }: KnownFlows, i: number) =>
    keyWords.subarray(KEY_WORDS * i, KEY_WORDS * (i + 1)).join();
  const listed = new Set(Array.from({ length: a.count }, (_, i) => name(a, i)));
  const added: number[] = [];
  for (let i = 0; i < b.count; i++) if (!listed.has(name(b, i))) added.push(i);
  const pick = (one: Float64Array, other: Float64Array) =>
    Float64Array.from([...one.subarray(0, a.count), ...added.map((i) => other[i] ?? Number.NaN)]);
  const words = (one: Uint32Array, other: Uint32Array, n: number) => {
    const out = new Uint32Array(n * (a.count + added.length));
    out.set(one.subarray(0, n * a.count));
    for (const [at, i] of added.entries()) out.set(other.subarray(n * i, n * (i + 1)), n * (a.count + at));
    return out;
  };
  const floor = Math.min(a.heavy?.floor ?? Infinity, b.heavy?.floor ?? Infinity);
  const bound = (end: "low" | "high" | "bytes") => {
    const none = end === "high" ? floor : 0;
    const own = (of: KnownFlows, i: number) => {
      if (of.heavy) return of.heavy[end][i] ?? none;
      const known = (end === "bytes" ? of.bytes : of.packets)[i] ?? Number.NaN;
      return Number.isNaN(known) ? none : known;
    };
    return Float64Array.from([
      ...Array.from({ length: a.count }, (_, i) => own(a, i)),
      ...added.map((i) => own(b, i)),
    ]);
  };
  return {
    count: a.count + added.length,
    hash: words(a.hash, b.hash, 2),
    keyWords: words(a.keyWords, b.keyWords, KEY_WORDS),
    packets: pick(a.packets, b.packets),
    bytes: pick(a.bytes, b.bytes),
    complete: false,
    ...(Number.isFinite(floor)
      ? { heavy: { floor, low: bound("low"), high: bound("high"), bytes: bound("bytes") } }
      : {}),
  };
}

/** Flows named by a query, with unknown counts. */
export function namedFlows(flows: readonly { words: Uint32Array; hash: [number, number] }[]): KnownFlows {
  const keyWords = new Uint32Array(KEY_WORDS * flows.length);
  for (const [i, { words }] of flows.entries()) keyWords.set(words, KEY_WORDS * i);
  return {
    count: flows.length,
    hash: Uint32Array.from(flows.flatMap((f) => f.hash)),
    packets: new Float64Array(flows.length).fill(Number.NaN),
    bytes: new Float64Array(flows.length).fill(Number.NaN),
    keyWords,
    complete: false,
  };
}
