/**
 * What all structures that store the group of packets have in common (MAPLE, section 3.3). Keys are 64-bit packet identities, codes are group numbers; both are
 * in kernel memory, as columns of u64 and u16.
 *
 * An answer is Match (one group), Multi-Match (several; the answer is the one with most packets, section 3.3.4) or No-Match. For a stored packet, the Bloom
 * filters and the ribbon always have the true group among the candidates; PBF may have left it out, and the hash table may have overwritten it. A packet that
 * was never stored may also get an answer, with probability `absentAccepted`.
 */
export type StoreKind = "ribbon" | "svbf" | "comb" | "pbf" | "table" | "mixed";
export const STORE_KINDS: readonly StoreKind[] = ["ribbon", "svbf", "comb", "pbf", "table", "mixed"];

/** Returns true for stores built at the end of the epoch, from a buffer of its packets. */
export function isBuilt(kind: StoreKind): boolean {
  return kind === "ribbon" || kind === "mixed";
}

/** The parameters needed to read a store's bits. */
export interface StoreGeometry {
  kind: StoreKind;
  groups: number;
  /** Seed of the structure's hashes. */
  seed: bigint;
  /** Stored bits per packet (ribbon) or per slot (table); 0 otherwise. */
  codeBits: number;
  /** Number of hash functions (per code bit for COMB); 0 if none. */
  hashes: number;
  /** COMB(f, theta); 0, 0 otherwise. */
  f: number;
  theta: number;
}

export interface PacketStore {
  readonly geometry: StoreGeometry;
  /** Packets inserted, and those of them that could not be stored (full filters) or were there already (ribbon). */
  readonly packets: number;
  readonly leftOut: number;
  /** Size of the structure including its index; for the ribbon, known after `close`. */
  readonly bits: number;
  /** False positive rate: probability that a packet that was never stored gets an answer, at the current fill level. */
  readonly absentAccepted: number;
  insert(keys: number, codes: number, count: number): void;
  /** Ends insertion. `counts` are the packets of each group. */
  close(counts: ArrayLike<number>): void;
  /** Writes two u32 per key to `out`: group | kind << 16, lowest | highest candidate << 16. Only after `close`. */
  lookup(keys: number, count: number, out: number): void;
  /** Returns the store's section of a payload. */
  body(): Uint8Array;
  free(): void;
}
