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

interface Lean {
  votes: number;
  /** Votes for going from BEFORE to AFTER less those against. */
  sum: number;
  /** How far its packets lie above the middle of what goes either way. */
  aboveNs: number;
  /** The vote of the packet that is nearest to what goes one of the two ways, and how near it is. */
  closest: { vote: number; apartNs: number };
}

const NO_VOTES: Lean = {
  votes: 0,
  sum: 0,
  aboveNs: 0,
  closest: { vote: 0, apartNs: Number.POSITIVE_INFINITY },
};

/**
 * Points of undecided flows held against the nearest decided ones in time. `placeOf`: the two hosts of a flow, times 2, and 1 in one order of them. Where the two
 * orders of hosts seem to go the same way, they are held against each other: what queues did to the packets around them cancels.
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
    const place = placeOf(id);
    const so = leans.get(place) ?? { ...NO_VOTES };
    if (so.votes === MAX_VOTES) continue;
    const [forward, reverse] = [levelAt(at, 1), levelAt(at, 2)];
    // Packets of one way are above those of the other at any time: where they are not, a clock was set in between.
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
    // Both orders of two hosts cannot go the same way: then how far they are apart decides.
    const alike = own && other && own.sum * other.sum > 0;
    // As many votes for either way: some are of packets next to a clock that was set, and far from what goes any way.
    const lean = alike
      ? own.aboveNs / own.votes - other.aboveNs / other.votes
      : own?.sum || (own?.closest.vote ?? 0);
    if (lean !== 0) ways[id] = lean > 0 ? 1 : 2;
  }
}
