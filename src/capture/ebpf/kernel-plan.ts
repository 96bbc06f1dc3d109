/**
 * Describes what the programs of datapath/observe.bpf.c keep of packets: parts, one per estimator, created by the estimators (estimators/estimator.ts,
 * `kernel`).
 */

/** Cells of {time sum, packets, xor of digests}, 16 bytes each, and how a packet selects its cells. */
export type CellPart =
  /** Bank j takes packets whose hash, out of 2^32, is in [from[j], from[j - 1]); bank 0 takes those up to limit. */
  | { kind: "lda"; cells: number; rows: number; seed: bigint; limit: bigint; from: readonly bigint[] }
  /** Row r takes packets whose hash, out of 2^32, is below thresholds[r]. `flows`: number of flows counted beside the cells, 0 for none. */
  | {
      kind: "lds";
      cells: number;
      rows: number;
      columns: number;
      k: number;
      thresholds: readonly bigint[];
      flows: number;
    }
  /** Vector v takes remainders, out of 2^32, below edges[v]; times are in units of 2^shift ns. */
  | {
      kind: "colate";
      cells: number;
      m: number;
      multiplier: bigint;
      edges: readonly bigint[];
      shift: number;
      /** An epoch should end once a counter has this many packets. */
      fullAt: number;
    };

/** An estimator's cells, or packet and byte counts of up to `max` flows. */
export type KernelPart = CellPart | { kind: "flows"; max: number };

/** Returns how many flows a part wants counted. */
export function flowsOf(part: KernelPart): number {
  return part.kind === "flows" ? part.max : part.kind === "lds" ? part.flows : 0;
}

/** Seeds by which packets select their cells in one epoch; they depend on the epoch's salt. */
export type KernelPlaces =
  | { kind: "lds"; rows: readonly { flow: bigint; packet: bigint }[] }
  | { kind: "colate"; slots: readonly { seed: bigint; first: number; cells: number }[] };

/** What the programs kept of an epoch for one estimator. */
export interface KernelKept {
  packets: number;
  /** Cells of each CPU, in their memory layout. */
  cells: readonly Uint8Array[];
  /** Flows, 64 bytes each: meta, four words of addresses, hash, packets, bytes. `shed`: the flows for which there was no room. */
  flows: readonly Uint8Array[];
  shed: { cut: bigint; packets: bigint; bytes: bigint } | null;
}
