/**
 * Flow records (NetFlow, IPFIX) as the list of flows that decoders need: keyed and hashed like the points' packets. Records of one flow are added up, and a
 * record that extends over an epoch's edge counts with the share of its time within.
 */
import type { Kernels } from "../base/kernels.ts";
import type { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { encodeFlowKey, hashFlowKey } from "../capture/flow/flow-words.ts";
import type { KnownFlows } from "../estimators/estimator.ts";
import type { FlowRecord } from "../flow-records/flow-records.ts";

interface Recorded {
  words: Uint32Array;
  hash: [low: number, high: number];
  record: FlowRecord;
}

export class RecordedFlows {
  readonly #flows: Map<string, Recorded[]> = new Map();

  constructor(kernels: Kernels, records: readonly FlowRecord[], key: FlowKeySpec, seed: bigint) {
    for (const record of records) {
      const words = encodeFlowKey(key, record.key);
      const name = words.join();
      const known = this.#flows.get(name);
      const [first] = known ?? [];
      if (known && first) known.push({ ...first, record });
      else this.#flows.set(name, [{ words, hash: hashFlowKey(kernels, words, seed), record }]);
    }
  }

  /** Returns flows with packets in [startNs, endNs), ns since 1970; without an epoch, all. */
  of(epoch: { startNs: number; endNs: number } | null): KnownFlows {
    const hash: number[] = [];
    const packets: number[] = [];
    const bytes: number[] = [];
    const words: Uint32Array[] = [];
    for (const parts of this.#flows.values()) {
      let [p, b] = [0, 0];
      for (const { record } of parts) {
        const share = epoch ? within(record, epoch) : 1;
        p += record.packets * share;
        b += (record.bytes ?? Number.NaN) * share;
      }
      const [first] = parts;
      if (p <= 0 || !first) continue;
      hash.push(...first.hash);
      packets.push(p);
      bytes.push(b);
      words.push(first.words);
    }
    const keyWords = new Uint32Array(10 * words.length);
    for (const [i, w] of words.entries()) keyWords.set(w, 10 * i);
    return {
      count: packets.length,
      hash: Uint32Array.from(hash),
      packets: Float64Array.from(packets),
      bytes: Float64Array.from(bytes),
      keyWords,
      // Exporters sample, expire and drop records: whether all flows are listed shows when their packets are added up.
      complete: false,
    };
  }
}

function within({ startNs, endNs }: FlowRecord, epoch: { startNs: number; endNs: number }): number {
  const from = startNs ?? endNs;
  if (from === null) return 1;
  const to = Math.max(from, endNs ?? from);
  if (to === from) return from >= epoch.startNs && from < epoch.endNs ? 1 : 0;
  const common = Math.min(to, epoch.endNs) - Math.max(from, epoch.startNs);
  return Math.max(0, common / (to - from));
}
