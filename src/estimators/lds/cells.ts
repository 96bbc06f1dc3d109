import { mulHigh32 } from "../../base/hash.ts";
import type { HeavyKeys } from "./heavy-keys.ts";

/** The cells of one sealed sketch, row after row. Sums are 64-bit and wrap: only differences of them mean something. */
export interface SketchCells {
  rows: number;
  columns: number;
  sumLow: Uint32Array;
  sumHigh: Uint32Array;
  /** Packets, each counted with its weight. */
  count: Uint32Array;
  /** Xor of the packets' digests, cut to `digestBits`. */
  digest: Uint32Array;
  digestBits: number;
  /** Bytes on the wire; null where they are not counted. */
  bytes: Float64Array | null;
  /** Everything that was added to the counts of each row: differs from their sum where a count overflowed. */
  totals: number[];
  /** Sums are of delays (SDS), not of times. */
  delays: boolean;
  fingerprint: number;
  /** Of the epoch: ../cells/salt.ts. */
  salt: bigint;
  /** Keys of the heaviest flows; null where none are kept. */
  keys: HeavyKeys | null;
}

export function emptyCells(
  of: Pick<SketchCells, "rows" | "columns" | "digestBits" | "delays" | "fingerprint" | "salt"> & {
    bytes: boolean;
  },
): SketchCells {
  const { rows, columns, digestBits, delays, fingerprint, salt } = of;
  const n = rows * columns;
  return {
    ...{ rows, columns, digestBits, delays, fingerprint, salt },
    sumLow: new Uint32Array(n),
    sumHigh: new Uint32Array(n),
    count: new Uint32Array(n),
    digest: new Uint32Array(n),
    bytes: of.bytes ? new Float64Array(n) : null,
    totals: new Array<number>(of.rows).fill(0),
    keys: null,
  };
}

/** A signed 64-bit value as a number: exact below 2^53. */
export function signed64(high: number, low: number): number {
  return (high | 0) * 0x1_0000_0000 + (low >>> 0);
}

/** b is added to a, cell by cell. */
export function addCells(a: SketchCells, b: SketchCells): void {
  for (let i = 0; i < a.count.length; i++) {
    const low = a.sumLow[i]! + b.sumLow[i]!;
    a.sumLow[i] = low;
    a.sumHigh[i] = a.sumHigh[i]! + b.sumHigh[i]! + (low > 0xffff_ffff ? 1 : 0);
    a.count[i]! += b.count[i]!;
    a.digest[i]! ^= b.digest[i]!;
  }
  if (a.bytes && b.bytes) for (let i = 0; i < a.bytes.length; i++) a.bytes[i]! += b.bytes[i]!;
  a.totals = a.totals.map((t, r) => t + b.totals[r]!);
}

/** Every packet's time counted from `earlierNs` before: count x earlierNs on top of each sum. */
export function shiftCells(cells: SketchCells, earlierNs: number): void {
  const high = Math.floor(earlierNs / 0x1_0000_0000) | 0;
  const low = earlierNs >>> 0;
  for (let i = 0; i < cells.count.length; i++) {
    const c = cells.count[i]!;
    const sum = cells.sumLow[i]! + (Math.imul(c, low) >>> 0);
    cells.sumLow[i] = sum;
    cells.sumHigh[i] =
      cells.sumHigh[i]! + mulHigh32(c, low) + Math.imul(c, high) + (sum > 0xffff_ffff ? 1 : 0);
  }
}
