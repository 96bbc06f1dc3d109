/**
 * Estimates how many packets of a flow went to each of its counters. A packet's digest decides its counter, and digests are not stored. But a flow's
 * packets over its counters add up to its size, and the packets of all flows in a counter add up to its count. With many counters, most hold one packet or
 * none, and these two margins leave little open.
 *
 * First come the hard bounds: a cell holds at least the n packets of a flow that its other cells cannot hold, and at most what the cell has left when its
 * other flows are at their lower bounds. The rest gets the most likely table with these margins: the layout's probabilities times one factor per flow and
 * one per cell, found by fitting the margins in turn (iterative proportional fitting, Deming and Stephan 1940). Without the bounds, that fitting converges
 * slowly where the margins force a value.
 */

export interface Allocation {
  /** Edges of flow f: [starts[f], starts[f + 1]). */
  starts: Uint32Array;
  cell: Uint32Array;
  /** Packets of the flow in the cell: on input as expected from the layout, on output given both margins. */
  a: Float64Array;
}

/** Sizes and counts are taken to be of the same packets if their sums differ by at most this share. */
const SAME = 0.001;
/** Iterations of the bounds: how many flows and cells a bound can propagate through. */
const SWEEPS = 12;
const ROUNDS = 30;
/** The fit ends when the flows' packets match their sizes up to this share of all packets. */
const TOLERANCE = 1e-4;

export function sameSum(packets: ArrayLike<number>, counts: ArrayLike<number>): boolean {
  let [listed, counted] = [0, 0];
  for (let f = 0; f < packets.length; f++) listed += packets[f]!;
  for (let c = 0; c < counts.length; c++) counted += counts[c]!;
  return counted > 0 && Math.abs(listed - counted) <= SAME * counted;
}

/**
 * Fits the table in place. `packets`: of each flow. `counts`: of each cell; all flows of these cells are in the table. Returns 1 for edges whose packets
 * are certain.
 */
export function fitMargins(
  table: Allocation,
  packets: ArrayLike<number>,
  counts: ArrayLike<number>,
): Uint8Array {
  const { starts, cell, a } = table;
  const { low, high } = boundsOf(table, packets, counts);
  const certain = new Uint8Array(a.length);
  const sizes = Float64Array.from(packets);
  const left = Float64Array.from(counts);
  const places = new Uint32Array(a.length);
  const openStarts = new Uint32Array(starts.length);
  let open = 0;
  for (let f = 0; f < sizes.length; f++) {
    openStarts[f] = open;
    for (let e = starts[f]!; e < starts[f + 1]!; e++) {
      if (low[e]! < high[e]!) {
        places[open++] = e;
        continue;
      }
      certain[e] = 1;
      sizes[f]! -= low[e]!;
      left[cell[e]!]! -= low[e]!;
      a[e] = low[e]!;
    }
  }
  openStarts[sizes.length] = open;
  const kept = places.subarray(0, open);
  const rest = {
    starts: openStarts,
    cell: kept.map((e) => cell[e]!),
    a: Float64Array.from(kept, (e) => a[e]!),
  };
  fitOpen(rest, sizes, left);
  for (let i = 0; i < open; i++) a[kept[i]!] = rest.a[i]!;
  return certain;
}

interface Bounds {
  low: Float64Array;
  high: Float64Array;
}

function boundsOf(
  { starts, cell }: Allocation,
  packets: ArrayLike<number>,
  counts: ArrayLike<number>,
): Bounds {
  const low = new Float64Array(cell.length);
  const high = new Float64Array(cell.length);
  for (let f = 0; f < starts.length - 1; f++)
    for (let e = starts[f]!; e < starts[f + 1]!; e++) high[e] = Math.min(packets[f]!, counts[cell[e]!]!);
  // Per cell: the sums of its edges' bounds.
  const lows = new Float64Array(counts.length);
  const highs = new Float64Array(counts.length);
  for (let e = 0; e < cell.length; e++) highs[cell[e]!]! += high[e]!;
  /** Narrows the bounds of one edge of a sum, given the sums of all its parts' bounds. Returns true if a bound moved. */
  const narrow = (e: number, sum: number, least: number, most: number): boolean => {
    const above = Math.max(low[e]!, sum - (most - high[e]!));
    const below = Math.min(high[e]!, sum - (least - low[e]!));
    // Sizes and counts may contradict each other by a packet here and there: the bounds then stay as they are.
    if (!(above <= below) || (above === low[e] && below === high[e])) return false;
    lows[cell[e]!]! += above - low[e]!;
    highs[cell[e]!]! += below - high[e]!;
    low[e] = above;
    high[e] = below;
    return true;
  };
  const isOpen = (f: number): boolean => {
    for (let e = starts[f]!; e < starts[f + 1]!; e++) if (low[e]! < high[e]!) return true;
    return false;
  };
  // Flows with open edges.
  let active = Uint32Array.from({ length: starts.length - 1 }, (_, f) => f);
  for (let sweep = 0, moved = true; sweep < SWEEPS && moved; sweep++) {
    moved = false;
    for (const f of active) {
      let [least, most] = [0, 0];
      for (let e = starts[f]!; e < starts[f + 1]!; e++) {
        least += low[e]!;
        most += high[e]!;
      }
      for (let e = starts[f]!; e < starts[f + 1]!; e++) {
        const [l, h] = [low[e]!, high[e]!];
        if (!narrow(e, packets[f]!, least, most)) continue;
        least += low[e]! - l;
        most += high[e]! - h;
        moved = true;
      }
    }
    for (const f of active) {
      for (let e = starts[f]!; e < starts[f + 1]!; e++) {
        const c = cell[e]!;
        if (narrow(e, counts[c]!, lows[c]!, highs[c]!)) moved = true;
      }
    }
    active = active.filter(isOpen);
  }
  return { low, high };
}

/** Meets the counts exactly and the sizes approximately. */
function fitOpen(table: Allocation, packets: Float64Array, counts: Float64Array): void {
  const { cell, a } = table;
  const sums = new Float64Array(counts.length);
  for (let round = 0; round <= ROUNDS; round++) {
    sums.fill(0);
    for (let e = 0; e < cell.length; e++) sums[cell[e]!]! += a[e]!;
    for (let e = 0; e < cell.length; e++) {
      const c = cell[e]!;
      if (sums[c]! > 0) a[e]! *= Math.max(0, counts[c]!) / sums[c]!;
    }
    if (round < ROUNDS && meetSizes(table, packets)) return;
  }
}

/** Scales each flow's packets to its size. Returns true if they matched already. */
function meetSizes({ starts, a }: Allocation, packets: Float64Array): boolean {
  const factors = new Float64Array(packets.length);
  let [off, all] = [0, 0];
  for (let f = 0; f < factors.length; f++) {
    let sum = 0;
    for (let e = starts[f]!; e < starts[f + 1]!; e++) sum += a[e]!;
    if (!(sum > 0)) continue;
    const size = Math.max(0, packets[f]!);
    factors[f] = size / sum;
    off += Math.abs(size - sum);
    all += size;
  }
  if (off <= TOLERANCE * all) return true;
  for (let f = 0; f < factors.length; f++) {
    for (let e = starts[f]!; e < starts[f + 1]!; e++) a[e]! *= factors[f]!;
  }
  return false;
}

/**
 * Variance of the number of packets that a flow of p packets has in a cell of n packets, if a are expected. Modelled as drawing without replacement
 * (hypergeometric) from T = p n / a packets. For one packet that is either there or not, this is a (1 - a). It is 0 if flow and cell hold each other's
 * packets only.
 */
export function allocationVariance(a: number, p: number, n: number): number {
  const total = (p * n) / a;
  if (!(a > 0) || !(total > 1)) return 0;
  return (a * Math.max(0, 1 - a / p) * Math.max(0, 1 - a / n) * total) / Math.max(total - 1, 1e-9);
}
