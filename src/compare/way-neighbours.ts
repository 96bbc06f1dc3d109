/** Which way flows go that nothing else shows it of: their packets held against those of flows whose way is known, sent around the same time (ways.ts). */

/** Points of an undecided flow that are held against decided ones. */
const MAX_VOTES = 64;
/** Points to either side that are looked at for decided ones. */
const FARTHEST = 2048;

/** A sample of pairs: flow, time at BEFORE, after - before. */
export interface WayPoints {
  flow: Uint32Array;
  timeNs: Float64Array;
  valueNs: Float64Array;
}

/** Points of undecided flows held against the nearest decided ones in time. */
export function decideByNeighbours(ways: Uint8Array, points: WayPoints, kept: number): void {
  const { flow, timeNs, valueNs } = points;
  const order = Array.from({ length: kept }, (_, i) => i).sort((a, b) => timeNs[a]! - timeNs[b]!);
  const lean = new Map<number, { votes: number; sum: number }>();
  const step = (at: number, way: number, by: 1 | -1): number | null => {
    for (let k = at + by; k >= 0 && k < order.length && Math.abs(k - at) < FARTHEST; k += by)
      if (ways[flow[order[k]!]!] === way) return order[k]!;
    return null;
  };
  /** What a packet of that way would have shown then: on the line between the nearest two, so that drift cancels. */
  const levelAt = (at: number, way: number): number | null => {
    const [a, b] = [step(at, way, -1), step(at, way, 1)];
    if (a === null || b === null) return a === null ? (b === null ? null : valueNs[b]!) : valueNs[a]!;
    const span = timeNs[b]! - timeNs[a]!;
    const part = span > 0 ? (timeNs[order[at]!]! - timeNs[a]!) / span : 0.5;
    return valueNs[a]! + part * (valueNs[b]! - valueNs[a]!);
  };
  for (const [at, i] of order.entries()) {
    const id = flow[i]!;
    if (ways[id] !== 0) continue;
    const so = lean.get(id) ?? { votes: 0, sum: 0 };
    if (so.votes === MAX_VOTES) continue;
    const [forward, reverse] = [levelAt(at, 1), levelAt(at, 2)];
    // Packets of one way are above those of the other at any time: where they are not, a clock was set in between.
    if (forward === null || reverse === null || forward <= reverse) continue;
    so.votes++;
    so.sum += Math.sign(valueNs[i]! - (forward + reverse) / 2);
    lean.set(id, so);
  }
  for (const [id, { sum }] of lean) if (sum !== 0) ways[id] = sum > 0 ? 1 : 2;
}
