/**
 * Turns the counters of both ends into sums of delays: Delta_c = (R_c - S_c) mod 2^b, signed, for every counter that holds the same packets at both ends. Each
 * counter is checked by itself: equal counts, equal digests if stored, and too few packets for the sum to wrap around. The paper would drop a whole vector for
 * one lost packet.
 *
 * Loss only removes packets. A counter with more packets at the receiver, or with the same number of different packets, holds packets that the sender did not
 * count: from other senders, duplicates, or in flight at the epoch's edge.
 */
import { entryAt } from "../../base/lists.ts";
import { type Layout, layoutOf, vectorsOfCells } from "./layout.ts";
import { type ColateParameters, fullAt } from "./parameters.ts";
import type { Counters } from "./payload.ts";

export interface Difference {
  layout: Layout;
  /** Vector of each cell. */
  vector: Uint8Array;
  /** 1 if the cell holds packets, the same ones at both ends. */
  usable: Uint8Array;
  /** Packets of usable cells; 0 for others. */
  packets: Float64Array;
  /** Sum of the delays of these packets, ns. */
  delayNs: Float64Array;
  sent: Uint32Array;
  received: Uint32Array;
  unitNs: number;
  /** Packets and cells, summed over all usable cells. */
  used: number;
  usedCells: number;
  /** Cells that hold packets at either end. */
  filled: number;
  /** Packets missing at the receiver, and packets that only the receiver has, summed over cells. Both are lower bounds. */
  missing: number;
  appeared: number;
  /** Cells with one more packet at the receiver, which show its arrival time: the cell, and the difference of its time sums, ns. */
  late: { cell: number; sumNs: number }[];
  /** Cells with equal counts of different packets. */
  swapped: number;
  /** Cells left out because of a wrong timestamp; `most`: there are so many that nothing can be trusted. */
  outliers: { cells: number; most: boolean };
  /** Cells with more packets than b bits allow. */
  overfull: number;
  /** Per vector: packets received, and packets in usable cells. */
  vectors: { received: number; used: number }[];
}

export function differenceOf(sender: Counters, receiver: Counters, parameters: ColateParameters): Difference {
  const layout = layoutOf(parameters);
  const { n } = layout;
  const limit = fullAt(parameters);
  const { unit } = parameters;
  const range = 2 ** parameters.b;
  const out: Difference = {
    layout,
    vector: vectorsOfCells(layout),
    usable: new Uint8Array(n),
    packets: new Float64Array(n),
    delayNs: new Float64Array(n),
    sent: sender.count,
    received: receiver.count,
    unitNs: unit,
    used: 0,
    usedCells: 0,
    filled: 0,
    missing: 0,
    appeared: 0,
    late: [],
    swapped: 0,
    overfull: 0,
    outliers: { cells: 0, most: false },
    vectors: layout.q.map(() => ({ received: 0, used: 0 })),
  };
  const delta = (c: number) => {
    let units = receiver.sum[c]! - sender.sum[c]!;
    if (units < 0) units += range;
    if (units >= range / 2) units -= range;
    return units * unit;
  };
  for (let c = 0; c < n; c++) {
    const before = sender.count[c]!;
    const after = receiver.count[c]!;
    if (before === 0 && after === 0) continue;
    out.filled++;
    const vector = entryAt(out.vectors, out.vector[c]!);
    vector.received += after;
    if (before > after) out.missing += before - after;
    else if (before < after) {
      out.appeared += after - before;
      if (after === before + 1 && after <= limit) out.late.push({ cell: c, sumNs: delta(c) });
    } else if (sender.digest[c] !== receiver.digest[c]) out.swapped++;
    else if (before > limit) out.overfull++;
    else {
      out.usable[c] = 1;
      out.packets[c] = before;
      out.delayNs[c] = delta(c);
      out.used += before;
      out.usedCells++;
      vector.used += before;
    }
  }
  return out;
}
