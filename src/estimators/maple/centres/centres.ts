/**
 * Centres: the representative delays by which packets are stored (MAPLE, section 3.1). A packet belongs to the nearest one. `shares` is the expected share of
 * packets of each, if known (a partitioned Bloom filter is divided by it).
 */
export interface Centres {
  /** Whole ns, strictly ascending. */
  readonly valuesNs: Float64Array;
  /** First delay that belongs to the next centre; Infinity for the last. */
  readonly uppersNs: Float64Array;
  readonly shares: Float64Array | null;
}

/** Returns centres from values in any order: rounded to whole ns, without duplicates. */
export function nearestCentres(valuesNs: Iterable<number>, shares: Float64Array | null = null): Centres {
  const values = Float64Array.from(new Set(Array.from(valuesNs, Math.round))).sort();
  if (values.length === 0) throw new RangeError("there must be at least one centre");
  const uppers = new Float64Array(values.length);
  for (let i = 0; i + 1 < values.length; i++) uppers[i] = values[i]! + (values[i + 1]! - values[i]!) / 2;
  uppers[values.length - 1] = Infinity;
  return { valuesNs: values, uppersNs: uppers, shares: shares?.length === values.length ? shares : null };
}

/** Returns the index of the centre that a delay belongs to. */
export function centreOf(centres: Centres, delayNs: number): number {
  const { uppersNs } = centres;
  let low = 0;
  let high = uppersNs.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (delayNs >= uppersNs[middle]!) low = middle + 1;
    else high = middle;
  }
  return low;
}
