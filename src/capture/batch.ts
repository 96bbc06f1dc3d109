/**
 * A batch of decoded IP packets as columns in kernel memory: what captures and the simulator produce and every tap consumes.
 * Made in kernels/decode/batch.ts. Views are taken anew when the memory has grown: read a column into a local before a loop, and
 * do not keep it over a kernel call that may allocate.
 */
import { BatchBytes, BatchLayout, batchConstants } from "../base/kernel-layout.ts";
import type { Kernels } from "../base/kernels.ts";

type Column = Exclude<keyof typeof BatchLayout, "capacity" | "count" | "shorts" | "lean">;
/** What a batch takes besides its columns. */
export const BATCH_HEAD_BYTES = BatchBytes;

/** Bits of the flags column above the TTL (0-7) and the TCP flags (8-15). */
export const FLAG = {
  fragment: batchConstants.FLAG_FRAGMENT,
  laterFragment: batchConstants.FLAG_LATER_FRAGMENT,
  /** Cut by the snap length within what the digest covers. */
  short: batchConstants.FLAG_SHORT,
  inner: batchConstants.FLAG_INNER,
  ipid: batchConstants.FLAG_IPID,
  cutL4: batchConstants.FLAG_CUT_L4,
  reference: batchConstants.FLAG_REFERENCE,
  probe: batchConstants.FLAG_PROBE,
  /** The interface received or sent it, where the capture says. */
  inbound: batchConstants.FLAG_INBOUND,
  outbound: batchConstants.FLAG_OUTBOUND,
  /** Never leaves its link. */
  linkLocal: batchConstants.FLAG_LINK_LOCAL,
} as const;

const highBit = (bit: bigint) => Number(bit >> 32n);
/** Single bits of the upper half of the meta column. */
export const META_HIGH = {
  vlan: highBit(batchConstants.META_VLAN),
  ipv6: highBit(batchConstants.META_IPV6),
  ports: highBit(batchConstants.META_PORTS),
} as const;

/** Rows that stay in L2 with all their columns. */
export const BATCH_ROWS = 2048;

export class PacketBatch {
  readonly kernels: Kernels;
  /** Address of the batch in kernel memory: what kernel functions take. */
  readonly address: number;
  readonly capacity: number;

  constructor(kernels: Kernels, capacity = BATCH_ROWS, address?: number) {
    this.kernels = kernels;
    this.capacity = capacity;
    this.address = address ?? kernels.call.batchNew(capacity) >>> 0;
  }

  /** A batch at `address` (BATCH_HEAD_BYTES) with only the columns that are given, by their addresses; whose memory all of it is, gives it back. */
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

  /** From now on rows are decoded without identification, header, captured bytes and interface. */
  makeLean(): void {
    this.kernels.writeU32(this.address + BatchLayout.lean, 1);
  }

  /** From now on rows are decoded with the numbers of their frames. */
  keepFrames(): void {
    this.kernels.call.batchKeepFrames(this.address);
  }

  /** Address of a column. */
  column(name: Column): number {
    return this.kernels.readU32(this.address + BatchLayout[name]);
  }

  /** ns after the capture's origin. */
  get timeNs(): Float64Array {
    return this.#f64("time");
  }
  /** Delay in ns where the source knows it, else NaN. Only meaningful when the source says that it fills it. */
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
  /** Number of the frame in its capture, from 1 on; only after `keepFrames`. */
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

  /** The first row from `from` on whose time + shift is above `untilNs`, or `count`. `ordered`: the times of all rows are known not to step backward. */
  rowsUntil(from: number, untilNs: number, shiftNs: number, ordered = false): number {
    const { call } = this.kernels;
    const until = ordered ? call.batchUntilOrdered : call.batchUntil;
    return until(this.address, from, untilNs, shiftNs) >>> 0;
  }

  /** The first row from `from` on whose time is not in [lowNs, endNs), or `count`. */
  rowsWithin(from: number, lowNs: number, endNs: number): number {
    return this.kernels.call.batchWithin(this.address, from, lowNs, endNs) >>> 0;
  }

  /** How many of the rows [from, to) have one of these flags. */
  countFlagged(from: number, to: number, mask: number): number {
    return this.kernels.call.batchFlagged(this.address, from, to, mask) >>> 0;
  }

  /** How many of the rows [from, to) have a time before this. */
  countBefore(from: number, to: number, startNs: number): number {
    return this.kernels.call.batchBefore(this.address, from, to, startNs) >>> 0;
  }

  /** Keeps only the rows whose byte in plane 0 of `select` is set; returns how many went. */
  compact(): number {
    return this.kernels.call.batchCompact(this.address) >>> 0;
  }

  free(): void {
    this.kernels.call.batchFree(this.address);
  }
}
