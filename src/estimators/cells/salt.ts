/**
 * The seed of one epoch's cells. Flows are placed by it, so that a flow meets other neighbours in every epoch and the errors that they cause average out over
 * epochs. Both ends derive the salt from the epoch (Tap.begin) and write it into the payload: a sketch says itself how it was placed, and sketches of
 * different salt do not merge. Salt 0: placed by the seed alone, as in all payloads of version 1.
 */
import { hashBytes64 } from "../../base/hash.ts";

export function saltedSeed(seed: bigint, salt: bigint): bigint {
  if (salt === 0n) return seed;
  const bytes = new Uint8Array(16);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, BigInt.asUintN(64, seed), true);
  view.setBigUint64(8, BigInt.asUintN(64, salt), true);
  const [high, low] = hashBytes64(bytes, 0x63656c6c, 0x73616c74);
  return (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
}

/**
 * Share of an answer's variance that is the same error in every epoch (Interval.repeats). Placed alike in all epochs: all of it. Placed anew: what is left
 * is that an answer is drawn to the common mean, always by the same share of the flow's distance from it. Of the variance v of an answer whose
 * prior variance is V, that is v / V.
 */
export function repeatedShare(salt: bigint, variance: number, priorVariance: number): number {
  if (salt === 0n) return 1;
  return priorVariance > 0 ? Math.min(1, Math.max(0, variance / priorVariance)) : 1;
}
