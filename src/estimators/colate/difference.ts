/**
 * The counters of both ends become sums of delays: Delta_c = (R_c - S_c) mod 2^b, signed, wherever a counter holds the same packets at both ends.
 * That is judged counter by counter: equal counts, equal digests where they are kept, and fewer packets than could make the sum wrap. The paper
 * would drop a whole vector for one lost packet.
 *
 * Loss only takes away. A counter with more packets at the receiver, or as many but others, has seen packets that the sender did not count:
 * of other senders, duplicates, or in flight over the epoch's edge.
 */
import { entryAt } from "../../base/lists.ts";
import { type Layout, layoutOf, vectorsOfCells } from "./layout.ts";
import { type ColateParameters, fullAt } from "./parameters.ts";
import type { Counters } from "./payload.ts";

export interface Difference {
  layout: Layout;
  /** The vector of each cell. */
  vector: Uint8Array;
  /** 1 where the cell holds packets, and the same ones at both ends. */
  usable: Uint8Array;
  /** Packets of usable cells, else 0. */
  packets: Float64Array;
  /** Sum of their delays, ns. */
  delayNs: Float64Array;
  sent: Uint32Array;
  received: Uint32Array;
  unitNs: number;
  /** Packets and cells of all usable cells. */
  used: number;
  usedCells: number;
  /** Cells that hold packets at either end. */
  filled: number;
  /** Sums over cells of what is missing at the receiver and of what only it has: lower bounds. */
  missing: number;
  appeared: number;
  /** When packets arrived that only the receiver has in this epoch, one to a cell: the cell, and what its sums of times differ by, ns. */
  late: { cell: number; sumNs: number }[];
  /** Cells with equal counts of different packets. */
  swapped: number;
  /** Cells left out for a wrong timestamp, and whether nothing can be trusted for it. */
  outliers: { cells: number; most: boolean };
  /** Cells with more packets than b bits allow. */
  overfull: number;
  /** Packets received in each vector, and those in usable cells. */
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
