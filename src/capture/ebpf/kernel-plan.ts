/** What the programs of datapath/observe.bpf.c are to keep of packets: parts, one per estimator. Estimators make them (estimators/estimator.ts, `kernel`). */

/** Cells of {time sum, packets, xor of digests}, 16 bytes each, and how packets find theirs. */
export type CellPart =
  /** Bank j takes hashes in [from[j], from[j - 1]), the first up to limit, of 2^32. */
  | { kind: "lda"; cells: number; rows: number; seed: bigint; limit: bigint; from: readonly bigint[] }
  /** Row r takes packets whose hash is below thresholds[r] of 2^32. `flows`: so many are counted beside the cells; 0: none. */
  | {
      kind: "lds";
      cells: number;
      rows: number;
      columns: number;
      k: number;
      thresholds: readonly bigint[];
      flows: number;
    }
  /** Vector v takes remainders below edges[v] of 2^32; times are in units of 2^shift ns. */
  | {
      kind: "colate";
      cells: number;
      m: number;
      multiplier: bigint;
      edges: readonly bigint[];
      shift: number;
      /** Packets in a counter from which on an epoch should end. */
      fullAt: number;
    };

/** Packets and bytes of flows, up to so many. */
export type KernelPart = CellPart | { kind: "flows"; max: number };

/** How many flows a part wants to be counted. */
export function flowsOf(part: KernelPart): number {
  return part.kind === "flows" ? part.max : part.kind === "lds" ? part.flows : 0;
}

/** Where flows lie in the cells of one epoch: by its salt. */
export type KernelPlaces =
  | { kind: "lds"; rows: readonly { flow: bigint; packet: bigint }[] }
  | { kind: "colate"; slots: readonly { seed: bigint; first: number; cells: number }[] };

/** What the programs kept of an epoch for one estimator. */
export interface KernelKept {
  packets: number;
  /** Cells of each CPU, as they lie in memory. */
  cells: readonly Uint8Array[];
  /** Flows in pieces, 64 bytes each: meta, four words of addresses, hash, packets, bytes; and those that had no room. */
  flows: readonly Uint8Array[];
  shed: { cut: bigint; packets: bigint; bytes: bigint } | null;
}
