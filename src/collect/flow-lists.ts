/**
 * The flows that per-flow estimates are made for: those that a flow table at one end lists for the epoch (the sender's first: it has seen all), or
 * else those that a question names.
 */
import type { ArchiveEntry } from "../archive/names.ts";
import { FormatError, UsageError } from "../base/errors.ts";
import { mergeRecords, sealed } from "../epoch/merge.ts";
import type { EpochRecord } from "../epoch/record.ts";
import { type Estimator, type FlowListing, type KnownFlows, readsVersion } from "../estimators/estimator.ts";
import { parseParameters } from "../estimators/parameters.ts";
import type { RecordSource } from "./estimate.ts";

/** A record of an estimator that can list flows, by point and start of the epoch. */
export class FlowLists {
  readonly #source: RecordSource;
  readonly #estimators: readonly { estimator: Estimator; list: FlowListing }[];
  readonly #byEpoch = new Map<string, ArchiveEntry[]>();

  /** `entries`: whatever an archive lists; those that list flows are taken. */
  constructor(source: RecordSource, estimators: readonly Estimator[], entries: readonly ArchiveEntry[]) {
    this.#source = source;
    this.#estimators = estimators.flatMap((e) => (e.flowList ? [{ estimator: e, list: e.flowList }] : []));
    for (const entry of entries) {
      if (!this.#estimators.some((e) => e.estimator.name === entry.estimator)) continue;
      const name = place(entry);
      const list = this.#byEpoch.get(name);
      if (list) list.push(entry);
      else this.#byEpoch.set(name, [entry]);
    }
  }

  get empty(): boolean {
    return this.#byEpoch.size === 0;
  }

  /** Flows of the epochs that these records are of (one, or merged neighbours); null where a table is missing or does not fit. */
  of(records: readonly ArchiveEntry[], like: EpochRecord): KnownFlows | null {
    for (const { estimator, list } of this.#estimators) {
      try {
        const merged = this.#merged(estimator, records, like);
        const found = merged && list.read(sealed(merged), parseParameters(estimator, merged.parameters));
        if (found) return found;
      } catch (error) {
        // A damaged or foreign table is as good as none; the estimate says that it had no list of flows.
        if (!(error instanceof FormatError || error instanceof UsageError)) throw error;
      }
    }
    return null;
  }

  #merged(estimator: Estimator, records: readonly ArchiveEntry[], like: EpochRecord): EpochRecord | null {
    let merged: EpochRecord | null = null;
    for (const record of records) {
      const entry = this.#byEpoch.get(place(record))?.find((e) => e.estimator === estimator.name);
      if (!entry) return null;
      const next = this.#source.readRecord(entry);
      if (next.void !== null || !readsVersion(estimator, next.payloadVersion)) return null;
      // Hashes mean the same flows only under the same seed and key.
      if (next.seed !== like.seed || next.key !== like.key || next.inner !== like.inner) return null;
      merged = merged ? mergeRecords(merged, next, estimator) : next;
    }
    return merged;
  }
}

function place(entry: ArchiveEntry): string {
  const { mode, startNs, startId } = entry.epoch;
  return [entry.point, entry.segment, mode, startNs, startId].join("\n");
}

/** Flows named by a question, of which nothing else is known. */
export function namedFlows(flows: readonly { words: Uint32Array; hash: [number, number] }[]): KnownFlows {
  const keyWords = new Uint32Array(10 * flows.length);
  for (const [i, { words }] of flows.entries()) keyWords.set(words, 10 * i);
  return {
    count: flows.length,
    hash: Uint32Array.from(flows.flatMap((f) => f.hash)),
    packets: new Float64Array(flows.length).fill(Number.NaN),
    bytes: new Float64Array(flows.length).fill(Number.NaN),
    keyWords,
    complete: false,
  };
}
