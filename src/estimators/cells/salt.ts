/**
 * The seed of one epoch's cells. It places the flows, so a flow has different neighbours in every epoch, and the errors they cause average out over epochs.
 * Both ends derive the salt from the epoch (Tap.begin) and write it into the payload, so a sketch states how it was placed. Sketches with different salts
 * do not merge. Salt 0: placed by the seed alone, as in all payloads of version 1.
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
 * Returns the share of an answer's variance that is the same error in every epoch (Interval.repeats). With equal placement in all epochs, this is all of
 * it. With new placement, one error remains: an answer is shrunk towards the common mean, always by the same share of the flow's distance from it. For an
 * answer with variance v and prior variance V, that share is v / V.
 */
export function repeatedShare(salt: bigint, variance: number, priorVariance: number): number {
  if (salt === 0n) return 1;
  return priorVariance > 0 ? Math.min(1, Math.max(0, variance / priorVariance)) : 1;
}
