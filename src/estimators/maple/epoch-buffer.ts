/**
 * One epoch's packets in kernel memory (kernels/maple/buffer.ts): a fixed number of rows, allocated once and never grown. If there are more packets, a sample
 * by digest is kept; sums are over all of them.
 */
import type { Kernels } from "../../base/kernels.ts";
import type { PacketBatch } from "../../capture/batch.ts";

/** u32 fields, then 8-byte fields, of kernels/maple/buffer.ts. */
const FIELD = { count: 1, seen: 2, unknown: 3, shed: 4, unlisted: 5, digest: 6, flow: 7, delay: 8 } as const;
const WIDE = { bytes: 8, sum: 9, squares: 10, carry: 11, minimum: 12, maximum: 13, base: 14 } as const;

/** Sums over an epoch's packets that have a delay, kept or not; exact integers. */
export interface EpochTotals {
  /** Rows of the epoch, with or without a known delay. */
  seen: number;
  stored: number;
  /** Rows without a delay: no matching packet at the sender. */
  unknown: number;
  /** Rows with a delay that were not kept because the buffer was full. */
  shed: number;
  /** Rows included in the sums: all with a delay. (Records of earlier versions: stored rows only.) */
  summed: number;
  /** The base of all delays here and in the cells; 0 unless clocks are seconds apart. */
  baseNs: number;
  bytes: number;
  sum: bigint;
  squares: bigint;
  minNs: number;
  maxNs: number;
}

/** Bytes per row: digest, flow key, delay; plus IPID and flow number if flows are listed. */
export const ROW_BYTES = 24;
export const FLOW_ROW_BYTES = 8;

export class EpochBuffer {
  readonly address: number;
  readonly #kernels: Kernels;
  readonly #lists: boolean;

  constructor(kernels: Kernels, capacity: number, flowLimit: number, nsPerByte: number) {
    this.#kernels = kernels;
    this.#lists = flowLimit > 0;
    const columns = this.#lists ? [8, 8, 8, 4, 4] : [8, 8, 8];
    kernels.ensure(...columns.map((bytes) => bytes * capacity));
    this.address = kernels.call.mapleBufferNew(capacity, flowLimit, nsPerByte) >>> 0;
  }

  begin(): void {
    this.#kernels.call.mapleBufferReset(this.address);
    if (this.#lists) this.#kernels.call.mapleBufferForgetFlows(this.address);
  }

  append(batch: PacketBatch, from: number, to: number): void {
    this.#kernels.call.mapleBufferAppend(this.address, batch.address, from, to);
  }

  /** Empties the rows after a streaming store took them; the sums continue. */
  taken(): void {
    this.#kernels.call.mapleBufferTaken(this.address);
  }

  get count(): number {
    return this.#word("count");
  }
  /** Addresses of the columns in kernel memory. */
  get digests(): number {
    return this.#word("digest");
  }
  get flowKeys(): number {
    return this.#word("flow");
  }
  get delays(): number {
    return this.#word("delay");
  }

  totals(): EpochTotals {
    const { f64, i64, u64 } = this.#kernels;
    const at = this.address >>> 3;
    const [seen, unknown, shed] = [this.#word("seen"), this.#word("unknown"), this.#word("shed")];
    return {
      seen,
      stored: seen - unknown - shed,
      unknown,
      shed,
      summed: seen - unknown,
      baseNs: seen > unknown ? f64[at + WIDE.base]! : 0,
      bytes: f64[at + WIDE.bytes]!,
      sum: i64[at + WIDE.sum]!,
      squares: (u64[at + WIDE.carry]! << 64n) | u64[at + WIDE.squares]!,
      minNs: f64[at + WIDE.minimum]!,
      maxNs: f64[at + WIDE.maximum]!,
    };
  }

  /** Returns the epoch's flow index as bytes (docs/formats/maple-payload.md): keys and IPIDs. */
  flowIndex(flowsPerBucket: number): Uint8Array {
    return this.#section((out) => this.#kernels.call.mapleIndexBuild(this.address, flowsPerBucket, out));
  }

  /** Returns the delays of each flow as bytes, from the group numbers of the rows (u16 in kernel memory). */
  flowDelays(codes: number, groups: number, flowsPerBucket: number): Uint8Array {
    return this.#section((out) =>
      this.#kernels.call.mapleFlowDelays(this.address, codes, groups, flowsPerBucket, out),
    );
  }

  /** Copies the bytes that a kernel allocated and frees them. */
  #section(build: (out: number) => void): Uint8Array {
    const kernels = this.#kernels;
    const out = kernels.alloc(8);
    build(out);
    const [address, bytes] = kernels.u32.subarray(out >>> 2, (out >>> 2) + 2) as unknown as [number, number];
    const index = kernels.u8.slice(address, address + bytes);
    kernels.free(address);
    kernels.free(out);
    return index;
  }

  free(): void {
    this.#kernels.call.mapleBufferFree(this.address);
  }

  #word(name: keyof typeof FIELD): number {
    return this.#kernels.u32[(this.address >>> 2) + FIELD[name]]!;
  }
}
