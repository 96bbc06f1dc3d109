/** Packets picked by their digest, the same at every point (PSAMP, trajectory sampling), and the fingerprint that says how. */
import { ByteWriter, crc32c } from "../../base/bytes.ts";
import { mix64Into } from "../../base/hash.ts";
import type { PacketBatch } from "../../capture/batch.ts";

/** Rows of our own: references and probes of a simulation. */
const OWN = (1 << 22) | (1 << 23);

export class PacketSampler {
  readonly #high: number;
  readonly #low: number;
  readonly #out = new Uint32Array(2);
  /** A packet is taken where its 32-bit hash is below. */
  limit: number;

  constructor(seed: bigint, rate: number) {
    this.#high = Number((BigInt.asUintN(64, seed) >> 32n) & 0xffff_ffffn);
    this.#low = Number(seed & 0xffff_ffffn);
    this.limit = Math.round(rate * 2 ** 32);
  }

  hash(low: number, high: number): number {
    mix64Into(high ^ this.#high, low ^ this.#low, this.#out);
    return this.#out[0]!;
  }

  /** Calls `take` with each sampled row and its hash. */
  each(batch: PacketBatch, from: number, to: number, take: (row: number, hash: number) => void): void {
    const { digest, flags } = batch;
    for (let i = from; i < to; i++) {
      const hash = this.hash(digest[2 * i]!, digest[2 * i + 1]!);
      if (hash < this.limit && (flags[i]! & OWN) === 0) take(i, hash);
    }
  }
}

export function samplingFingerprint(seed: bigint, text: string): number {
  const out = new ByteWriter();
  out.u64(BigInt.asUintN(64, seed));
  out.utf8(text);
  return crc32c(out.view());
}
