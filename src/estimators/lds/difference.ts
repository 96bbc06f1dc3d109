/**
 * Two sealed sketches of one epoch become one sketch of delays: sums of receiver minus sender where count and digest agree. Cells that do not
 * agree held a lost packet (or one too many) and are unusable; what they still tell is how much was lost and whether loss can be all.
 *
 * Loss only takes away. A cell that holds more at the receiver, or as many packets but others, has seen packets that the sender never sent
 * into it: foreign traffic, duplicates, or packets in flight at the epoch's edge. Foreign packets at the sender look like loss, except that
 * whole flows go dark while their neighbours lose next to nothing.
 */
import { outlierCells } from "../cells/outliers.ts";
import { saltedSeed } from "../cells/salt.ts";
import { filledCells } from "../cells/variance.ts";
import { type SketchCells, signed64 } from "./cells.ts";
import { cellShares, type Geometry } from "./geometry.ts";
import { requireSameSketch } from "./payload.ts";

export interface DelaySketch {
  geometry: Geometry;
  /** By which flows are placed; the salt that went into it. */
  seed: bigint;
  salt: bigint;
  /** Share of a flow's packets in one of its cells, per row: rate / k. */
  shares: number[];
  /** Sum of delays in ns, where usable. Packets count with their weight, here and below. */
  delaySumNs: Float64Array;
  sent: Uint32Array;
  received: Uint32Array;
  /** 1 where the cell holds packets, and the same ones at both ends. */
  usable: Uint8Array;
  bytes: Float64Array | null;
  /** Only the receiver counts (SDS): `sent` is what it received. */
  oneEnd: boolean;
  rows: RowSummary[];
  /** Cells left out for a wrong timestamp, and whether nothing can be trusted for it. */
  outliers: { cells: number; most: boolean };
  /** When packets arrived that only the receiver has in this epoch, one to a cell: the cell, and what its sums of times differ by, ns. */
  late: { cell: number; sumNs: number }[];
  /** Cells are compared by digest too, so that usable ones hold the same packets but for 2^-bits. */
  digests: boolean;
}

export interface RowSummary {
  rate: number;
  sent: number;
  received: number;
  /** Packets (with weights) in usable cells, and their delay sum. */
  usable: number;
  delaySumNs: number;
  /** Sums over cells of what is missing at the receiver and of what only it has: both are lower bounds. */
  missing: number;
  appeared: number;
  /** Cells with as many packets at both ends, but others. */
  swapped: number;
  /** Packets of cells that are full at the sender and empty at the receiver. */
  dark: number;
  /** A count of the row has overflowed at one end: nothing in it is usable. */
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

/** SDS: the receiver's cells hold delays already. */
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
