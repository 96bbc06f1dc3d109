/**
 * Packets that overtook a delimiter, or were overtaken by it, where epochs are cut by packets: missing in one epoch at the receiver, too many in another. They were not lost.
 *
 * What is missing in an epoch may have gone over the cut behind it or the one before it. Those that come into an epoch and those that leave it hide each other in cells that they share (the slow
 * flows are the same at every cut), so what is missing in one epoch may appear several epochs later: it is carried along, as far as there may be so many between two cuts.
 */
export interface ApartEpoch {
  /** Packets that are missing in cells, and that appeared there at the receiver only. */
  lost: number;
  appeared: number;
  /** So many may have gone over the cut before it, in either direction; not used of the first. */
  most: number;
}

interface Overtaken {
  /** Of all that appeared, those that are missing in another epoch. */
  total: number;
  /** Of each epoch: how many of the packets that it misses appeared in others, likely and at most. */
  ofEpoch: { likely: number; most: number }[];
}

/** Epochs in a chain without gaps. */
export function overtakenAlong(chain: readonly ApartEpoch[]): Overtaken {
  const reversed = (appeared: readonly number[]) =>
    chain.map((e, i) => ({ ...e, appeared: appeared[i] ?? 0, most: chain[i + 1]?.most ?? 0 })).reverse();
  const later = carried(chain);
  // What is explained so is not explained again. What an epoch misses may be: as much may have gone over its other cut, hidden.
  const earlier = carried(reversed(later.left)).found.reverse();
  const anyEarlier = carried(reversed(chain.map((e) => e.appeared))).found.reverse();
  return {
    total: [...later.found, ...earlier].reduce((sum, n) => sum + n, 0),
    ofEpoch: chain.map(({ lost }, i) => ({
      likely: Math.min(lost, (later.found[i] ?? 0) + (earlier[i] ?? 0)),
      most: Math.min(lost, (later.found[i] ?? 0) + (anyEarlier[i] ?? 0)),
    })),
  };
}

/** How many that each epoch misses appeared in a later one, the nearest first, and what appeared in each beyond. `most` is that of the cut before the epoch in this order. */
function carried(chain: readonly ApartEpoch[]): { found: number[]; left: number[] } {
  const found = chain.map(() => 0);
  let underWay: { from: number; packets: number }[] = [];
  const left = chain.map(({ appeared, lost, most }, i) => {
    underWay = newest(underWay, Math.max(most, Math.min(chain[i - 1]?.lost ?? 0, appeared)));
    let rest = appeared;
    for (let last = underWay.pop(); last; last = underWay.pop()) {
      const arrived = Math.min(rest, last.packets);
      found[last.from] = (found[last.from] ?? 0) + arrived;
      rest -= arrived;
      if (arrived < last.packets) {
        underWay.push({ from: last.from, packets: last.packets - arrived });
        break;
      }
    }
    if (lost > 0) underWay.push({ from: i, packets: lost });
    return rest;
  });
  return { found, left };
}

/** No more than `most` of them, those of the nearest epochs. */
function newest(underWay: readonly { from: number; packets: number }[], most: number) {
  const out: { from: number; packets: number }[] = [];
  let left = most;
  for (const { from, packets } of [...underWay].reverse()) {
    if (left <= 0) break;
    out.unshift({ from, packets: Math.min(left, packets) });
    left -= packets;
  }
  return out;
}
