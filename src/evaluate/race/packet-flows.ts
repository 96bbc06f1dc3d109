/** Per-flow means from answers for single packets: a party with the sender's packets looks up each one by its digest and averages. */
import type { Kernels } from "../../base/kernels.ts";
import type { PacketBatch } from "../../capture/batch.ts";
import type { Interval, PacketStore, SealedEpoch } from "../../estimators/estimator.ts";
import { NO_MATCH } from "../../estimators/packet-answers.ts";

/** Maximum number of packets that are kept, from the start of the run. */
const MAX_ASKED = 1 << 23;

interface Piece {
  readonly digests: BigUint64Array;
  readonly flows: BigUint64Array;
  readonly sizes: Uint32Array;
}

export class PacketQuestions {
  readonly #pieces: Piece[] = [];
  #count = 0;

  /** Keeps packets that arrived; their flows must be keyed. */
  note(batch: PacketBatch): void {
    const n = Math.min(batch.count, MAX_ASKED - this.#count);
    if (n <= 0) return;
    const column = (name: "digest" | "flowHash") => {
      const at = batch.column(name) >>> 3;
      return batch.kernels.u64.slice(at, at + n);
    };
    const sizes = batch.wireLength.slice(0, n);
    this.#pieces.push({ digests: column("digest"), flows: column("flowHash"), sizes });
    this.#count += n;
  }

  /** Returns the answers by flow hash; null if the store does not identify packets by digest. */
  ask(kernels: Kernels, { payload }: SealedEpoch, store: PacketStore): Map<bigint, Interval> | null {
    const read = (offset: number, length: number) => payload.subarray(offset, offset + length);
    const lookup = store.open(kernels, read, payload.length);
    const sums = new Map<bigint, [packets: number, value: number, low: number, high: number]>();
    try {
      if (!lookup.has("digest")) return null;
      for (const { digests, flows, sizes } of this.#pieces) {
        const { kind, valueNs, lowNs, highNs } = lookup.lookup("digest", digests, sizes);
        for (let i = 0; i < digests.length; i++) {
          if (kind[i] === NO_MATCH) continue;
          const sum = sums.get(flows[i]!) ?? [0, 0, 0, 0];
          sum[0]++;
          sum[1] += valueNs[i]!;
          sum[2] += lowNs[i]!;
          sum[3] += highNs[i]!;
          sums.set(flows[i]!, sum);
        }
      }
    } finally {
      lookup.free();
    }
    return new Map(
      [...sums].map(([flow, [n, value, low, high]]) => [
        flow,
        { valueNs: value / n, lowNs: low / n, highNs: high / n },
      ]),
    );
  }
}

/** Returns a flow's hash as one 64-bit number. */
export function hashOf(hash: Uint32Array, flow: number): bigint {
  return (BigInt(hash[2 * flow + 1]!) << 32n) | BigInt(hash[2 * flow]!);
}
