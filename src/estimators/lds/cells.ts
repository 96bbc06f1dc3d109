import { mulHigh32 } from "../../base/hash.ts";
import type { HeavyKeys } from "./heavy-keys.ts";

/** The cells of one sealed sketch, row by row. Sums are 64-bit and wrap around: only their differences are meaningful. */
export interface SketchCells {
  rows: number;
  columns: number;
  sumLow: Uint32Array;
  sumHigh: Uint32Array;
  /** Packets, each counted with its weight. */
  count: Uint32Array;
  /** Xor of the packets' digests, truncated to `digestBits`. */
  digest: Uint32Array;
  digestBits: number;
  /** Bytes on the wire; null if they are not counted. */
  bytes: Float64Array | null;
  /** Sum of everything added to the counts of each row. Differs from the sum of the counts if a count overflowed. */
  totals: number[];
  /** Sums are of delays (SDS), not of times. */
  delays: boolean;
  fingerprint: number;
  /** The epoch's salt (../cells/salt.ts). */
  salt: bigint;
  /** Keys of the heaviest flows; null if none are kept. */
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

/** Returns a signed 64-bit value as a number, exact below 2^53. */
export function signed64(high: number, low: number): number {
  return (high | 0) * 0x1_0000_0000 + (low >>> 0);
}

/** Adds b to a, cell by cell. */
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

/** Counts all packets' times from `earlierNs` earlier: adds count x earlierNs to each sum. */
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
