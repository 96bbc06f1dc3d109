/**
 * Packets that overtook a delimiter, or were overtaken by it, if epochs are cut by packets: missing in one epoch at the receiver, in excess in another. They
 * were not lost.
 *
 * A packet missing in an epoch may have crossed the next cut or the previous one. Packets that enter an epoch and those that leave it hide each other in shared
 * cells (the slow flows are the same at every cut), so a packet missing in one epoch may appear several epochs later: it is carried along, up to the maximum
 * number that may cross a cut.
 */
export interface ApartEpoch {
  /** Packets that are missing in cells, and those that appeared there at the receiver only. */
  lost: number;
  appeared: number;
  /** Maximum number that crossed the cut before it, in either direction; not used for the first. */
  most: number;
}

interface Overtaken {
  /** Packets that appeared and are missing in another epoch. */
  total: number;
  /** Per epoch: how many of its missing packets appeared in others, likely and maximum. */
  ofEpoch: { likely: number; most: number }[];
}

/** Epochs in a chain without gaps. */
export function overtakenAlong(chain: readonly ApartEpoch[]): Overtaken {
  const reversed = (appeared: readonly number[]) =>
    chain.map((e, i) => ({ ...e, appeared: appeared[i] ?? 0, most: chain[i + 1]?.most ?? 0 })).reverse();
  const later = carried(chain);
  // Packets explained once are not explained again. Missing packets of an epoch may be: as many may have crossed its other cut, hidden.
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

/**
 * Returns how many missing packets of each epoch appeared in a later one, the closest first, and the rest that appeared in each. `most` is that of the cut
 * before the epoch in this order.
 */
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

/** Returns at most `most` of them, those of the closest epochs. */
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
