/**
 * A batch of decoded IP packets as columns in kernel memory, produced by captures and the simulator and consumed by every tap. Created in
 * kernels/decode/batch.ts. Views change when the memory grows: read a column into a local before a loop, and do not keep it across a kernel call that may
 * allocate.
 */
import { BatchBytes, BatchLayout, batchConstants } from "../base/kernel-layout.ts";
import type { Kernels } from "../base/kernels.ts";

type Column = Exclude<keyof typeof BatchLayout, "capacity" | "count" | "shorts" | "lean">;
/** Size of a batch apart from its columns. */
export const BATCH_HEAD_BYTES = BatchBytes;

/** Bits of the flags column above the TTL (0-7) and the TCP flags (8-15). */
export const FLAG = {
  fragment: batchConstants.FLAG_FRAGMENT,
  laterFragment: batchConstants.FLAG_LATER_FRAGMENT,
  /** Cut by the snap length within the bytes that the digest covers. */
  short: batchConstants.FLAG_SHORT,
  inner: batchConstants.FLAG_INNER,
  ipid: batchConstants.FLAG_IPID,
  cutL4: batchConstants.FLAG_CUT_L4,
  reference: batchConstants.FLAG_REFERENCE,
  probe: batchConstants.FLAG_PROBE,
  /** Whether the interface received or sent the packet, if the capture says so. */
  inbound: batchConstants.FLAG_INBOUND,
  outbound: batchConstants.FLAG_OUTBOUND,
  /** The packet never leaves its link. */
  linkLocal: batchConstants.FLAG_LINK_LOCAL,
} as const;

const highBit = (bit: bigint) => Number(bit >> 32n);
/** Flags in the upper half of the meta column. */
export const META_HIGH = {
  vlan: highBit(batchConstants.META_VLAN),
  ipv6: highBit(batchConstants.META_IPV6),
  ports: highBit(batchConstants.META_PORTS),
} as const;

/** A number of rows whose columns all stay in the L2 cache. */
export const BATCH_ROWS = 2048;

export class PacketBatch {
  readonly kernels: Kernels;
  /** Address of the batch in kernel memory, as kernel functions take it. */
  readonly address: number;
  readonly capacity: number;

  constructor(kernels: Kernels, capacity = BATCH_ROWS, address?: number) {
    this.kernels = kernels;
    this.capacity = capacity;
    this.address = address ?? kernels.call.batchNew(capacity) >>> 0;
  }

  /** Returns a batch at `address` (BATCH_HEAD_BYTES) with only the given columns, by their addresses. The caller owns all of this memory and frees it. */
  static over(
    kernels: Kernels,
    capacity: number,
    address: number,
    columns: Partial<Record<Column, number>>,
  ): PacketBatch {
    kernels.u32.fill(0, address >>> 2, (address + BATCH_HEAD_BYTES) >>> 2);
    kernels.writeU32(address + BatchLayout.capacity, capacity);
    for (const [name, column] of Object.entries(columns))
      kernels.writeU32(address + BatchLayout[name as Column], column);
    return new PacketBatch(kernels, capacity, address);
  }

  get count(): number {
    return this.kernels.readU32(this.address + BatchLayout.count);
  }
  set count(n: number) {
    this.kernels.writeU32(this.address + BatchLayout.count, n);
  }

  /** Rows decoded from now on have no identification, header address, captured length or interface. */
  makeLean(): void {
    this.kernels.writeU32(this.address + BatchLayout.lean, 1);
  }

  /** Rows decoded from now on have the numbers of their frames. */
  keepFrames(): void {
    this.kernels.call.batchKeepFrames(this.address);
  }

  /** Returns the address of a column. */
  column(name: Column): number {
    return this.kernels.readU32(this.address + BatchLayout[name]);
  }

  /** Time in ns after the capture's origin. */
  get timeNs(): Float64Array {
    return this.#f64("time");
  }
  /** Delay in ns, or NaN for a row without one. Valid only if the source says that it fills this column. */
  get delayNs(): Float64Array {
    return this.#f64("delay");
  }
  /** 64-bit values as pairs of uint32: [low, high] per row. */
  get digest(): Uint32Array {
    return this.#u32("digest", 2);
  }
  get flowHash(): Uint32Array {
    return this.#u32("flowHash", 2);
  }
  get meta(): Uint32Array {
    return this.#u32("meta", 2);
  }
  get addrA(): Uint32Array {
    return this.#u32("addrA", 2);
  }
  get addrB(): Uint32Array {
    return this.#u32("addrB", 2);
  }
  get addrC(): Uint32Array {
    return this.#u32("addrC", 2);
  }
  get addrD(): Uint32Array {
    return this.#u32("addrD", 2);
  }
  get wireLength(): Uint32Array {
    return this.#u32("wireLength", 1);
  }
  get ipid(): Uint32Array {
    return this.#u32("ipid", 1);
  }
  get flags(): Uint32Array {
    return this.#u32("flags", 1);
  }
  get iface(): Uint32Array {
    return this.#u32("iface", 1);
  }
  /** Number of the frame in its capture, from 1; filled only after `keepFrames`. */
  get frame(): Uint32Array {
    return this.#u32("frame", 1);
  }
  get header(): Uint32Array {
    return this.#u32("header", 1);
  }
  get captured(): Uint32Array {
    return this.#u32("captured", 1);
  }

  #f64(name: Column): Float64Array {
    const start = this.column(name) >>> 3;
    return this.kernels.f64.subarray(start, start + this.capacity);
  }
  #u32(name: Column, words: number): Uint32Array {
    const start = this.column(name) >>> 2;
    return this.kernels.u32.subarray(start, start + this.capacity * words);
  }

  /** Returns the first row from `from` on with time + shift above `untilNs`, or `count`. `ordered`: the times of all rows are known never to step backward. */
  rowsUntil(from: number, untilNs: number, shiftNs: number, ordered = false): number {
    const { call } = this.kernels;
    const until = ordered ? call.batchUntilOrdered : call.batchUntil;
    return until(this.address, from, untilNs, shiftNs) >>> 0;
  }

  /** Returns the first row from `from` on whose time is not in [lowNs, endNs), or `count`. */
  rowsWithin(from: number, lowNs: number, endNs: number): number {
    return this.kernels.call.batchWithin(this.address, from, lowNs, endNs) >>> 0;
  }

  /** Returns how many of the rows [from, to) have one of these flags. */
  countFlagged(from: number, to: number, mask: number): number {
    return this.kernels.call.batchFlagged(this.address, from, to, mask) >>> 0;
  }

  /** Returns how many of the rows [from, to) have a time before `startNs`. */
  countBefore(from: number, to: number, startNs: number): number {
    return this.kernels.call.batchBefore(this.address, from, to, startNs) >>> 0;
  }

  /** Keeps only the rows whose byte in plane 0 of `select` is set; returns the number of rows removed. */
  compact(): number {
    return this.kernels.call.batchCompact(this.address) >>> 0;
  }

  free(): void {
    this.kernels.call.batchFree(this.address);
  }
}
