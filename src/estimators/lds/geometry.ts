/**
 * Where packets and flows fall in a sketch: the seeds and sampling rates of its rows, and the columns of a flow. kernels/sketches/lds.ts computes the same
 * positions per packet. Both ends of a segment must agree on everything here; the fingerprint checks that.
 */
import { hashBytes64, mix64Into, mulHigh32 } from "../../base/hash.ts";

/** Everything that must be equal for two sketches to be comparable. */
export interface Geometry {
  rows: number;
  columns: number;
  /** Contiguous cells of a flow in a row (its virtual LDA). */
  k: number;
  /** Share of the packets that each row takes. */
  rates: readonly number[];
  /** Text of the weights; "" if all flows have weight 1. */
  weights: string;
}

export interface RowSeeds {
  flowHi: number;
  flowLo: number;
  packetHi: number;
  packetLo: number;
}

export function rowSeeds(seed: bigint, rows: number): RowSeeds[] {
  const bytes = new Uint8Array(9);
  new DataView(bytes.buffer).setBigUint64(0, BigInt.asUintN(64, seed), true);
  return Array.from({ length: rows }, (_, row) => {
    bytes[8] = row;
    const [flowHi, flowLo] = hashBytes64(bytes, 0x6c6473, 0x666c6f77);
    const [packetHi, packetLo] = hashBytes64(bytes, 0x6c6473, 0x7061636b);
    return { flowHi, flowLo, packetHi, packetLo };
  });
}

/** A row takes a packet if the low half of its mixed digest is below this. */
export function samplingThreshold(rate: number): number {
  return Math.round(rate * 0x1_0000_0000);
}

/** Share of a flow's packets that one of its cells holds, per row. */
export function cellShares(geometry: Geometry): number[] {
  return geometry.rates.map((rate) => samplingThreshold(rate) / 0x1_0000_0000 / geometry.k);
}

/** First column of each flow in each row: flow-major, `rows` values per flow. Hashes are [low, high] pairs. */
export function firstColumns(geometry: Geometry, seed: bigint, hashes: Uint32Array): Uint32Array {
  const seeds = rowSeeds(seed, geometry.rows);
  const flows = hashes.length >>> 1;
  const out = new Uint32Array(flows * geometry.rows);
  const pair = new Uint32Array(2);
  for (const [r, { flowHi, flowLo }] of seeds.entries()) {
    for (let f = 0; f < flows; f++) {
      mix64Into(hashes[2 * f + 1]! ^ flowHi, hashes[2 * f]! ^ flowLo, pair);
      out[f * geometry.rows + r] = mulHigh32(pair[0]!, geometry.columns);
    }
  }
  return out;
}

/** 32-bit checksum of seed and geometry: sketches with different fingerprints must not be combined. */
export function fingerprint(geometry: Geometry, seed: bigint): number {
  const { rows, columns, k, rates, weights } = geometry;
  const text = [BigInt.asUintN(64, seed), rows, columns, k, rates.join("/"), weights].join(" ");
  return hashBytes64(new TextEncoder().encode(text), 0x6c6473, 0x67656f6d)[1] >>> 0;
}
