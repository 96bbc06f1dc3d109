/** The requested flows placed on a sketch: their cells, their packets (known, or mined from the counts) and their weights. */
import { entryAt } from "../../base/lists.ts";
import type { KnownFlows } from "../estimator.ts";
import type { DelaySketch } from "./difference.ts";
import { firstColumns } from "./geometry.ts";
import { flowWeights } from "./weights.ts";

export interface FlowSet {
  count: number;
  /** Flow-major: rows x k cells per flow. */
  cells: Int32Array;
  cellsPerFlow: number;
  /** Packets, known or from an unbiased estimate; never below 0. */
  packets: Float64Array;
  /** Variance of `packets`; 0 if they are known. */
  doubt: Float64Array;
  /** Upper bound from the counts (count-min); infinite if no row takes all packets. */
  atMost: Float64Array;
  /** Lower bound, if one is known. */
  atLeast: Float64Array;
  known: Uint8Array;
  weights: Float64Array | null;
  complete: boolean;
}

export function layFlows(sketch: DelaySketch, flows: KnownFlows): FlowSet {
  const { rows, columns, k } = sketch.geometry;
  const n = flows.count;
  const first = firstColumns(sketch.geometry, sketch.seed, flows.hash.subarray(0, 2 * n));
  const perFlow = rows * k;
  const cells = new Int32Array(n * perFlow);
  for (let f = 0, e = 0; f < n; f++) {
    for (let r = 0; r < rows; r++) {
      let column = first[f * rows + r]!;
      for (let i = 0; i < k; i++, e++) {
        cells[e] = r * columns + column;
        if (++column === columns) column = 0;
      }
    }
  }
  const set: FlowSet = {
    count: n,
    cells,
    cellsPerFlow: perFlow,
    packets: new Float64Array(n),
    doubt: new Float64Array(n),
    atMost: new Float64Array(n),
    atLeast: new Float64Array(n),
    known: new Uint8Array(n),
    weights: flowWeights(sketch.geometry.weights, flows.keyWords, n),
    complete: flows.complete,
  };
  countPackets(sketch, flows, set);
  if (sketch.oneEnd) allowForLoss(sketch, set);
  return set;
}

/**
 * Corrects the flows' packets for loss if only the receiver counts. The receiver counts packets that arrived (those with a delay), but the list has packets
 * sent. Packets missing in a flow's cells belong to any of the flows there at random, or to the flow itself if it does not share the cells. For each flow, the
 * row with the fewest packets of others in its cells is used.
 */
function allowForLoss(sketch: DelaySketch, set: FlowSet): void {
  if (!set.complete || set.known.includes(0)) return;
  let listed = 0;
  const weighted = set.packets.map((p, f) => p * (set.weights?.[f] ?? 1));
  for (const p of weighted) listed += p;
  if (!(entryAt(sketch.rows, 0).received < listed)) return;
  const { k } = sketch.geometry;
  const expected = new Float64Array(sketch.received.length);
  const rows = fullestRows(sketch);
  const sumOver = (f: number, row: number, values: ArrayLike<number>) => {
    const from = f * set.cellsPerFlow + row * k;
    let sum = 0;
    for (let i = 0; i < k; i++) sum += values[set.cells[from + i]!]!;
    return sum;
  };
  for (const row of rows) {
    const share = sketch.shares[row]!;
    for (let f = 0; f < set.count; f++)
      for (let i = 0; i < k; i++)
        expected[set.cells[f * set.cellsPerFlow + row * k + i]!]! += weighted[f]! * share;
  }
  for (let f = 0; f < set.count; f++) {
    let [least, arrived] = [Infinity, 1];
    for (const row of rows) {
      const load = sumOver(f, row, expected);
      if (!(load < least)) continue;
      least = load;
      arrived = load > 0 ? Math.min(1, sumOver(f, row, sketch.received) / load) : 1;
    }
    const own = Math.min(1, (weighted[f]! * (sketch.rows[rows[0] ?? 0]?.rate ?? 1)) / least);
    set.doubt[f] = set.packets[f]! * arrived * (1 - arrived) * (1 - own);
    set.packets[f]! *= arrived;
  }
}

/** Expected packets of a flow in its usable cells: the number that its jitter averages out over. */
export function packetsSeen(sketch: DelaySketch, flows: FlowSet, flow: number): number {
  const { k, rows } = sketch.geometry;
  let at = flow * flows.cellsPerFlow;
  let share = 0;
  for (let r = 0; r < rows; r++)
    for (let i = 0; i < k; i++) share += sketch.usable[flows.cells[at++]!]! * sketch.shares[r]!;
  return share * flows.packets[flow]!;
}

/** Returns the rows with the highest sampling rate. If they take all packets, their counts bound a flow from above. */
export function fullestRows(sketch: DelaySketch): number[] {
  const usable = [...sketch.rows.entries()].filter(([, row]) => !row.overflowed);
  const best = Math.max(...usable.map(([, row]) => row.rate));
  return usable.flatMap(([r, row]) => (row.rate === best ? [r] : []));
}

function countPackets(sketch: DelaySketch, flows: KnownFlows, set: FlowSet): void {
  const { k } = sketch.geometry;
  const rows = fullestRows(sketch);
  const rate = sketch.rows[rows[0] ?? -1]?.rate ?? 1;
  const background = new MinBackground(sketch, rows);
  for (let f = 0; f < set.count; f++) {
    let minimum = Number.POSITIVE_INFINITY;
    for (const r of rows) {
      let sum = 0;
      const e = f * set.cellsPerFlow + r * k;
      for (let i = 0; i < k; i++) sum += sketch.sent[set.cells[e + i]!]!;
      minimum = Math.min(minimum, sum);
    }
    const weight = set.weights?.[f] ?? 1;
    const given = flows.packets[f]!;
    set.atMost[f] = rate === 1 ? minimum / weight : Number.POSITIVE_INFINITY;
    set.known[f] = Number.isNaN(given) ? 0 : 1;
    if (set.known[f] === 1) set.packets[f] = given;
    else if (Number.isFinite(minimum)) {
      const [mean, variance] = background.below(minimum);
      set.packets[f] = Math.max(Math.min(minimum, 1), minimum - mean) / weight / rate;
      const sampling = (set.packets[f]! * (1 - rate)) / rate;
      set.doubt[f] = variance / (weight * rate) ** 2 + sampling;
      if (flows.heavy) clip(set, f, flows.heavy.low[f] ?? 0, flows.heavy.high[f] ?? flows.heavy.floor);
    }
  }
}

/** Applies the bounds: counts bound a flow from above, a list of heavy flows from both sides. */
function clip(set: FlowSet, f: number, low: number, high: number): void {
  const top = Math.max(low, Math.min(high, set.atMost[f]!));
  set.atMost[f] = top;
  set.atLeast[f] = low;
  set.packets[f] = Math.min(Math.max(set.packets[f]!, low), top);
  // Variance of a uniform distribution between the bounds.
  set.doubt[f] = Math.min(set.doubt[f]!, (top - low) ** 2 / 12);
}

/**
 * Packets of other flows in the emptiest of a flow's row windows: the mean of the minimum of one draw per row from the sketch's windows, among draws below the
 * content of the flow's own window.
 */
class MinBackground {
  readonly #sorted: Float64Array;
  readonly #meanBelow: Float64Array;
  readonly #squareBelow: Float64Array;

  constructor(sketch: DelaySketch, rows: readonly number[]) {
    const { columns, k } = sketch.geometry;
    const draws = Math.min(columns, 4096);
    const minimum = new Float64Array(rows.length > 0 ? draws : 0).fill(Number.POSITIVE_INFINITY);
    for (const [at, r] of rows.entries()) {
      for (let d = 0; d < minimum.length; d++) {
        // Rows are hashed independently, so equal steps with a shift per row are as good as random draws.
        const column = (Math.floor((d * columns) / draws) + at * 7919) % columns;
        let sum = 0;
        for (let i = 0; i < k; i++) sum += sketch.sent[r * columns + ((column + i) % columns)]!;
        minimum[d] = Math.min(minimum[d]!, sum);
      }
    }
    this.#sorted = minimum.sort();
    this.#meanBelow = new Float64Array(minimum.length);
    this.#squareBelow = new Float64Array(minimum.length);
    let sum = 0;
    let squares = 0;
    for (let d = 0; d < minimum.length; d++) {
      sum += minimum[d]!;
      squares += minimum[d]! * minimum[d]!;
      this.#meanBelow[d] = sum / (d + 1);
      this.#squareBelow[d] = squares / (d + 1);
    }
  }

  /** Returns mean and variance. */
  below(limit: number): [number, number] {
    let low = 0;
    let high = this.#sorted.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#sorted[middle]! < limit) low = middle + 1;
      else high = middle;
    }
    if (low === 0) return [0, 0];
    const mean = this.#meanBelow[low - 1]!;
    return [mean, this.#squareBelow[low - 1]! - mean * mean];
  }
}
