/**
 * Turns two sealed sketches of one epoch into one sketch of delays: receiver sums minus sender sums where count and digest agree. Cells that do not agree held
 * a lost packet (or an extra one) and are unusable. They still show how much was lost, and whether loss explains everything.
 *
 * Loss only removes packets. A cell with more packets at the receiver, or with the same number of different packets, holds packets that the sender did not
 * count: foreign traffic, duplicates, or packets in flight at the epoch's edge. Foreign packets at the sender look like loss, except that whole flows disappear
 * while their neighbours lose almost nothing.
 */
import { outlierCells } from "../cells/outliers.ts";
import { saltedSeed } from "../cells/salt.ts";
import { filledCells } from "../cells/variance.ts";
import { type SketchCells, signed64 } from "./cells.ts";
import { cellShares, type Geometry } from "./geometry.ts";
import { requireSameSketch } from "./payload.ts";

export interface DelaySketch {
  geometry: Geometry;
  /** The seed by which flows are placed, and the salt that is part of it. */
  seed: bigint;
  salt: bigint;
  /** Per row: share of a flow's packets in one of its cells, rate / k. */
  shares: number[];
  /** Sum of delays in ns, if usable. Here and below, packets count with their weight. */
  delaySumNs: Float64Array;
  sent: Uint32Array;
  received: Uint32Array;
  /** 1 if the cell holds packets, the same ones at both ends. */
  usable: Uint8Array;
  bytes: Float64Array | null;
  /** Only the receiver counts (SDS): `sent` is what it received. */
  oneEnd: boolean;
  rows: RowSummary[];
  /** Cells left out because of a wrong timestamp; `most`: there are so many that nothing can be trusted. */
  outliers: { cells: number; most: boolean };
  /** Cells with one more packet at the receiver, which show its arrival time: the cell, and the difference of its time sums, ns. */
  late: { cell: number; sumNs: number }[];
  /** Cells also compare digests, so usable ones hold the same packets, except with probability 2^-bits. */
  digests: boolean;
}

export interface RowSummary {
  rate: number;
  sent: number;
  received: number;
  /** Packets (with weights) in usable cells, and their delay sum. */
  usable: number;
  delaySumNs: number;
  /** Packets missing at the receiver, and packets that only the receiver has, summed over cells. Both are lower bounds. */
  missing: number;
  appeared: number;
  /** Cells with equal counts of different packets. */
  swapped: number;
  /** Packets of cells that hold many packets at the sender and none at the receiver. */
  dark: number;
  /** A count of the row overflowed at one end, so none of its cells is usable. */
  overflowed: boolean;
}

const DARK_PACKETS = 8;

/** LDS: receiver minus sender. */
export function differenceOf(
  geometry: Geometry,
  seed: bigint,
  senderCells: SketchCells,
  receiverCells: SketchCells,
): DelaySketch {
  requireSameSketch(senderCells, receiverCells, "receiver's payload");
  const sketch = blank(geometry, seed, senderCells, receiverCells);
  const { sumLow: sentLow, sumHigh: sentHigh } = senderCells;
  const { sumLow, sumHigh } = receiverCells;
  const { sent, received, usable, delaySumNs } = sketch;
  for (const [r, row] of sketch.rows.entries()) {
    for (let i = r * geometry.columns; i < (r + 1) * geometry.columns; i++) {
      const missing = sent[i]! - received[i]!;
      const sumNs = () => {
        const low = sumLow[i]! - sentLow[i]!;
        return signed64(sumHigh[i]! - sentHigh[i]! - (low < 0 ? 1 : 0), low);
      };
      if (missing > 0) {
        row.missing += missing;
        if (received[i] === 0 && missing >= DARK_PACKETS) row.dark += missing;
      } else if (missing < 0) {
        row.appeared -= missing;
        if (missing === -1 && !row.overflowed) sketch.late.push({ cell: i, sumNs: sumNs() });
      } else if (senderCells.digest[i] !== receiverCells.digest[i]) row.swapped++;
      else if (sent[i]! > 0 && !row.overflowed) {
        usable[i] = 1;
        delaySumNs[i] = sumNs();
        row.usable += sent[i]!;
        row.delaySumNs += delaySumNs[i]!;
      }
    }
  }
  return withoutOutliers(sketch);
}

function withoutOutliers(sketch: DelaySketch): DelaySketch {
  const { usable, delaySumNs, sent, rows, geometry } = sketch;
  const { cells, most } = outlierCells(filledCells(usable), delaySumNs, sent);
  for (const c of cells) {
    const row = rows[Math.floor(c / geometry.columns)];
    usable[c] = 0;
    if (!row) continue;
    row.usable -= sent[c]!;
    row.delaySumNs -= delaySumNs[c]!;
  }
  sketch.outliers = { cells: cells.length, most };
  return sketch;
}

/** SDS: the receiver's cells already hold delays. */
export function delaysOf(geometry: Geometry, seed: bigint, cells: SketchCells): DelaySketch {
  const sketch = blank(geometry, seed, cells, cells);
  for (const [r, row] of sketch.rows.entries()) {
    for (let i = r * geometry.columns; i < (r + 1) * geometry.columns && !row.overflowed; i++) {
      if (cells.count[i] === 0) continue;
      sketch.usable[i] = 1;
      sketch.delaySumNs[i] = signed64(cells.sumHigh[i]!, cells.sumLow[i]!);
      row.usable += cells.count[i]!;
      row.delaySumNs += sketch.delaySumNs[i]!;
    }
  }
  return withoutOutliers(sketch);
}

function blank(geometry: Geometry, seed: bigint, sender: SketchCells, receiver: SketchCells): DelaySketch {
  const n = geometry.rows * geometry.columns;
  return {
    geometry,
    seed: saltedSeed(seed, sender.salt),
    salt: sender.salt,
    shares: cellShares(geometry),
    delaySumNs: new Float64Array(n),
    sent: sender.count,
    received: receiver.count,
    usable: new Uint8Array(n),
    bytes: sender.bytes,
    oneEnd: sender.delays,
    rows: geometry.rates.map((rate, r) => {
      const [sent, received] = [sumRow(sender, r), sumRow(receiver, r)];
      const overflowed = sent !== sender.totals[r] || received !== receiver.totals[r];
      const zero = { usable: 0, delaySumNs: 0, missing: 0, appeared: 0, swapped: 0, dark: 0 };
      return { rate, sent, received, ...zero, overflowed };
    }),
    outliers: { cells: 0, most: false },
    late: [],
    digests: sender.delays || sender.digestBits > 0,
  };
}

function sumRow(cells: SketchCells, row: number): number {
  let sum = 0;
  for (let i = row * cells.columns; i < (row + 1) * cells.columns; i++) sum += cells.count[i]!;
  return sum;
}
