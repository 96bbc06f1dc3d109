/**
 * What every structure that remembers the group of packets has in common (MAPLE, section 3.3). Keys are 64-bit packet identities, codes are
 * group numbers; both lie in kernel memory, as columns of u64 and u16.
 *
 * An answer is Match (one group), Multi-Match (several; the answer is the one with most packets, section 3.3.4) or No-Match. For a packet that was
 * stored, the Bloom filters and the ribbon always have the true group among the candidates; PBF may have left it out, the
 * hash table may have overwritten it. A packet that was never stored may get an answer too, with probability `absentAccepted`.
 */
export type StoreKind = "ribbon" | "svbf" | "comb" | "pbf" | "table" | "mixed";
export const STORE_KINDS: readonly StoreKind[] = ["ribbon", "svbf", "comb", "pbf", "table", "mixed"];

/** Built when the epoch ends, from a buffer of its packets. */
export function isBuilt(kind: StoreKind): boolean {
  return kind === "ribbon" || kind === "mixed";
}

/** Everything but the bits: enough to read them. */
export interface StoreGeometry {
  kind: StoreKind;
  groups: number;
  /** Of the structure's hashes. */
  seed: bigint;
  /** Stored bits per packet (ribbon) or per slot (table); 0 otherwise. */
  codeBits: number;
  /** Hash functions (per code bit for COMB); 0 where there are none. */
  hashes: number;
  /** COMB(f, theta); 0, 0 otherwise. */
  f: number;
  theta: number;
}

export interface PacketStore {
  readonly geometry: StoreGeometry;
  /** Packets asked to be stored, and those that could not be (full filters) or were there already (ribbon). */
  readonly packets: number;
  readonly leftOut: number;
  /** Of the structure with its own index; known after `close` for the ribbon. */
  readonly bits: number;
  /** Probability that a packet never stored gets an answer, as the structure is filled now. */
  readonly absentAccepted: number;
  insert(keys: number, codes: number, count: number): void;
  /** No more packets will come; `counts` are the packets of each group. */
  close(counts: ArrayLike<number>): void;
  /** Two u32 per key into `out`: group | kind << 16, lowest | highest candidate << 16. Only after `close`. */
  lookup(keys: number, count: number, out: number): void;
  /** The section of a payload. */
  body(): Uint8Array;
  free(): void;
}
