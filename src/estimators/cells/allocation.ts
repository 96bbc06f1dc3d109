/**
 * Which of a flow's counters its packets went to, as far as counts say. A packet's counter is decided by its digest, which nobody has kept; but a flow's packets over its counters
 * make up its size, and the packets of all flows in a counter make up its count. Where counters are many, most hold one packet or none, and these two margins leave little open.
 *
 * First what they leave no choice about: n packets of a flow in a cell are at least what its other cells cannot hold, and at most what the cell has left when the
 * others have their least. What is open then gets the likeliest table with these margins: the one that keeps the probabilities of the layout but for a factor per flow
 * and one per cell, found by fitting the margins in turn (iterative proportional fitting, Deming and Stephan 1940), which alone would creep towards what there is no choice about.
 */

export interface Allocation {
  /** Edges of flow f: [starts[f], starts[f + 1]). */
  starts: Uint32Array;
  cell: Uint32Array;
  /** Packets of the flow in the cell: expected by the layout at first, given both margins afterwards. */
  a: Float64Array;
}

/** Sizes and counts are of the same packets where their sums are, but for this share. */
const SAME = 0.001;
/** Bounds travel so many flows and cells far. */
const SWEEPS = 12;
const ROUNDS = 30;
/** A flow's packets add up to its size but for this share: near enough. */
const TOLERANCE = 1e-4;

export function sameSum(packets: ArrayLike<number>, counts: ArrayLike<number>): boolean {
  let [listed, counted] = [0, 0];
  for (let f = 0; f < packets.length; f++) listed += packets[f]!;
  for (let c = 0; c < counts.length; c++) counted += counts[c]!;
  return counted > 0 && Math.abs(listed - counted) <= SAME * counted;
}

/** In place. `packets`: of each flow; `counts`: of each cell, all of whose flows are in the table. Returns 1 for edges whose packets are certain. */
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
  // Of each cell: the sums of its bounds.
  const lows = new Float64Array(counts.length);
  const highs = new Float64Array(counts.length);
  for (let e = 0; e < cell.length; e++) highs[cell[e]!]! += high[e]!;
  /** Narrows the bounds of one edge of a sum whose parts have these bounds in all; true where that moved them. */
  const narrow = (e: number, sum: number, least: number, most: number): boolean => {
    const above = Math.max(low[e]!, sum - (most - high[e]!));
    const below = Math.min(high[e]!, sum - (least - low[e]!));
    // Sizes and counts that contradict each other, by a packet here and there, leave it open.
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
  // Flows that have something open.
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

/** Counts are met exactly, sizes nearly. */
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

/** Flows' packets are made to add up to their sizes; true where they did. */
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
 * Variance of the packets of a flow of p in a cell of n, a expected: as if drawn without putting back (hypergeometric) from T = p n / a. One packet that is there or is not has a (1 - a); of a
 * flow and a cell that have each other alone nothing is open.
 */
export function allocationVariance(a: number, p: number, n: number): number {
  const total = (p * n) / a;
  if (!(a > 0) || !(total > 1)) return 0;
  return (a * Math.max(0, 1 - a / p) * Math.max(0, 1 - a / n) * total) / Math.max(total - 1, 1e-9);
}
