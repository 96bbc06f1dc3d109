/**
 * The error of the delays given to an estimator, if they are not exact (RLI's interpolation). An epoch has two numbers: the root mean square error of a
 * packet's delay, and of the mean over all its packets, with independent errors of the gaps between references.
 */
/** Root mean square errors, ns. */
export interface DelayError {
  packetNs: number;
  meanNs: number;
}

/** Sums over the errors of some packets: squares; squares of the sums within gaps; and the sum of errors common to all packets. */
export interface DelayErrorSums {
  packets: number;
  squares: number;
  gapSquares: number;
  alike: number;
}

export const noDelayErrors = (): DelayErrorSums => ({ packets: 0, squares: 0, gapSquares: 0, alike: 0 });

export function addDelayErrors(to: DelayErrorSums, more: DelayErrorSums): void {
  to.packets += more.packets;
  to.squares += more.squares;
  to.gapSquares += more.gapSquares;
  to.alike += more.alike;
}

/** Returns null if no packet has an inexact delay. */
export function delayErrorOf({ packets, squares, gapSquares, alike }: DelayErrorSums): DelayError | null {
  if (packets === 0) return null;
  return {
    packetNs: Math.sqrt(squares / packets),
    meanNs: Math.sqrt(gapSquares + alike * alike) / packets,
  };
}

/** Merges the errors of two epochs of one tap. */
export function mergeDelayErrors(
  a: { error: DelayError | null; packets: number },
  b: { error: DelayError | null; packets: number },
): DelayError | null {
  if (!a.error || !b.error) return a.error ?? b.error;
  const packets = Math.max(1, a.packets + b.packets);
  const [p, q] = [a.packets / packets, b.packets / packets];
  return {
    packetNs: Math.sqrt(p * a.error.packetNs ** 2 + q * b.error.packetNs ** 2),
    meanNs: Math.hypot(p * a.error.meanNs, q * b.error.meanNs),
  };
}

const scratch = new DataView(new ArrayBuffer(4));
/** Returns the upper half of a float32, rounded up: within 0.8 %, never too small. */
function half(valueNs: number): number {
  scratch.setFloat32(0, Math.max(0, Math.min(valueNs, 1e18)));
  const bits = scratch.getUint32(0);
  return (bits >>> 16) + ((bits & 0xffff) === 0 ? 0 : 1);
}
function whole(bits: number): number {
  scratch.setUint32(0, bits << 16);
  return scratch.getFloat32(0);
}

/** Packs both numbers into 32 bits, as in records; 0: delays are exact, or there are none. */
export function packDelayError(error: DelayError | null): number {
  return error === null ? 0 : ((half(error.packetNs) << 16) | half(error.meanNs)) >>> 0;
}
export function unpackDelayError(bits: number): DelayError | null {
  return bits === 0 ? null : { packetNs: whole(bits >>> 16), meanNs: whole(bits & 0xffff) };
}
