/**
 * The flows that per-flow estimates are made for: those that a flow table at one end lists for the epoch (the sender's first: it has seen all), or
 * else those that a question names.
 */
import { mergeRecords, sealed } from "../epoch/merge.ts";
import type { EpochRecord } from "../epoch/record.ts";
import { type Estimator, type FlowListing, type KnownFlows, readsVersion } from "../estimators/estimator.ts";
import { parseParameters } from "../estimators/parameters.ts";
import type { RecordHandle } from "./record-handle.ts";

/** Records of estimators that list flows, by point and epoch. */
export class FlowLists {
  readonly #estimators: readonly { estimator: Estimator; list: FlowListing }[];
  readonly #byEpoch = new Map<string, RecordHandle[]>();

  constructor(estimators: readonly Estimator[]) {
    this.#estimators = estimators.flatMap((e) => (e.flowList ? [{ estimator: e, list: e.flowList }] : []));
  }

  get empty(): boolean {
    return this.#byEpoch.size === 0;
  }

  /** Takes what lists flows; other records are left alone. */
  add(record: RecordHandle): void {
    if (!this.#estimators.some((e) => e.estimator.name === record.estimator)) return;
    const name = place(record);
    const list = this.#byEpoch.get(name);
    if (list) list.push(record);
    else this.#byEpoch.set(name, [record]);
  }

  /** Lists of epochs that ended at or before this are no longer wanted. */
  forget(watermarkNs: bigint): void {
    for (const [name, [first]] of this.#byEpoch)
      if (first && first.epoch.endNs <= watermarkNs) this.#byEpoch.delete(name);
  }

  /** Is there a list for each of these records' epochs? It may turn out not to fit. */
  has(records: readonly RecordHandle[]): boolean {
    return records.length > 0 && records.every((r) => this.#byEpoch.has(place(r)));
  }

  /**
   * Flows of the epochs that these records are of (one, or merged neighbours), as a point lists them (that of the records where none is named); null where
   * a table is missing or does not fit.
   */
  of(records: readonly RecordHandle[], like: EpochRecord, point?: string): KnownFlows | null {
    if (records.length === 0) return null;
    for (const { estimator, list } of this.#estimators) {
      try {
        const merged = this.#merged(estimator, records, like, point);
        const found = merged && list.read(sealed(merged), parseParameters(estimator, merged.parameters));
        if (found) return found;
      } catch {
        // A damaged or foreign table is as good as none; the estimate says that it had no list of flows.
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
      // Hashes mean the same flows only under the same seed and key.
      const handle = this.#byEpoch
        .get(place(record, point))
        ?.find((e) => e.estimator === estimator.name && e.seed === like.seed);
      if (!handle) return null;
      const next = handle.read();
      if (next.void !== null || !readsVersion(estimator, next.payloadVersion)) return null;
      if (next.key !== like.key || next.inner !== like.inner) return null;
      merged = merged ? mergeRecords(merged, next, estimator) : next;
    }
    return merged;
  }
}

/** Epochs that are cut by packets are known by those: their times differ from point to point. */
function place({ point, segment, epoch }: RecordHandle, at = point): string {
  const { mode, startNs, endNs, startId, endId } = epoch;
  const cut = startId !== 0n && endId !== 0n ? [startId, endId] : [startNs, endNs, startId];
  return [at, segment, mode, ...cut].join("\n");
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
