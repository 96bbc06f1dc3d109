/** Directions of flows without other evidence: compares their packets with those of flows with known direction, sent around the same time (ways.ts). */

/** Maximum number of points of an undecided flow that are compared with decided ones. */
const MAX_VOTES = 64;
/** Maximum number of points on either side searched for decided ones. */
const FARTHEST = 2048;

/** A sample of pairs: flow, time at BEFORE, after - before. */
export interface WayPoints {
  flow: Uint32Array;
  timeNs: Float64Array;
  valueNs: Float64Array;
}

interface Lean {
  votes: number;
  /** Votes for going from BEFORE to AFTER, minus those against. */
  sum: number;
  /** Sum of how far its packets are above the middle between the two directions. */
  aboveNs: number;
  /** The vote of the packet closest to either direction, and its distance. */
  closest: { vote: number; apartNs: number };
}

const NO_VOTES: Lean = {
  votes: 0,
  sum: 0,
  aboveNs: 0,
  closest: { vote: 0, apartNs: Number.POSITIVE_INFINITY },
};

/**
 * Compares points of undecided flows with the closest decided ones in time. `placeOf`: number of a flow's host pair, times 2, plus 1 for one of its two orders.
 * If both orders of two hosts seem to go the same way, they are compared with each other: the effect of queues on the packets around them cancels.
 */
export function decideByNeighbours(
  ways: Uint8Array,
  points: WayPoints,
  kept: number,
  placeOf: (flow: number) => number,
): void {
  const { flow, timeNs, valueNs } = points;
  const order = Array.from({ length: kept }, (_, i) => i).sort((a, b) => timeNs[a]! - timeNs[b]!);
  const leans = new Map<number, Lean>();
  const step = (at: number, way: number, by: 1 | -1): number | null => {
    for (let k = at + by; k >= 0 && k < order.length && Math.abs(k - at) < FARTHEST; k += by)
      if (ways[flow[order[k]!]!] === way) return order[k]!;
    return null;
  };
  /** Expected difference of a packet of that direction at this time: on the line between the closest two, so that drift cancels. */
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
    const place = placeOf(id);
    const so = leans.get(place) ?? { ...NO_VOTES };
    if (so.votes === MAX_VOTES) continue;
    const [forward, reverse] = [levelAt(at, 1), levelAt(at, 2)];
    // Forward packets are above reverse ones at any time: if not, a clock was set in between.
    if (forward === null || reverse === null || forward <= reverse) continue;
    const aboveNs = valueNs[i]! - (forward + reverse) / 2;
    so.votes++;
    so.sum += Math.sign(aboveNs);
    so.aboveNs += aboveNs;
    const apartNs = Math.min(Math.abs(valueNs[i]! - forward), Math.abs(valueNs[i]! - reverse));
    if (apartNs < so.closest.apartNs) so.closest = { vote: Math.sign(aboveNs), apartNs };
    leans.set(place, so);
  }
  for (let id = 0; id < ways.length; id++) {
    if (ways[id] !== 0) continue;
    const [own, other] = [leans.get(placeOf(id)), leans.get(placeOf(id) ^ 1)];
    // The two orders of a host pair cannot go the same way: then the distance between them decides.
    const alike = own && other && own.sum * other.sum > 0;
    // On a tie of votes, some are from packets near a clock step, far from either direction: the closest packet decides.
    const lean = alike
      ? own.aboveNs / own.votes - other.aboveNs / other.votes
      : own?.sum || (own?.closest.vote ?? 0);
    if (lean !== 0) ways[id] = lean > 0 ? 1 : 2;
  }
}
