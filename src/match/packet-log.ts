/**
 * Every packet of two captures and what became of it, in columns: 32 bytes a packet. Kept only where somebody asks; sums and quantiles do not
 * need it. Filled from the records that kernels/match/fates.ts leaves after each call.
 */
import { UsageError } from "../base/errors.ts";
import { FateBytes, FateLayout, fatesConstants } from "../base/kernel-layout.ts";
import type { Kernels } from "../base/kernels.ts";
import { formatCount } from "../base/quantity.ts";

export const FATE = {
  forward: fatesConstants.FATE_FORWARD,
  reverse: fatesConstants.FATE_REVERSE,
  onlyBefore: fatesConstants.FATE_ONLY_BEFORE,
  onlyAfter: fatesConstants.FATE_ONLY_AFTER,
  duplicate: fatesConstants.FATE_DUPLICATE,
  headBefore: fatesConstants.FATE_HEAD_BEFORE,
  tailBefore: fatesConstants.FATE_TAIL_BEFORE,
  headAfter: fatesConstants.FATE_HEAD_AFTER,
  tailAfter: fatesConstants.FATE_TAIL_AFTER,
  linkLocal: fatesConstants.FATE_LINK_LOCAL,
  mirrored: fatesConstants.FATE_MIRRORED,
  ambiguous: fatesConstants.FATE_AMBIGUOUS,
} as const;

/** 4 GiB of columns. */
const MAX_PACKETS = 2 ** 27;

export class PacketLog {
  count = 0;
  /** Time at BEFORE on the matcher's axis; NaN where the packet was not seen there. */
  beforeNs = new Float64Array(4096);
  /** The same at AFTER. */
  afterNs = new Float64Array(4096);
  /** Corrected, in its own direction; NaN without a partner. */
  delayNs = new Float64Array(4096);
  /** Number of its flow in the matcher. */
  flow = new Uint32Array(4096);
  fate = new Uint8Array(4096);

  /** Takes `count` records at `address`. */
  take(kernels: Kernels, address: number, count: number): void {
    this.#makeRoom(count);
    for (let i = 0; i < count; i++) {
      const record = address + i * FateBytes;
      const n = this.count++;
      this.beforeNs[n] = kernels.readF64(record + FateLayout.send);
      this.afterNs[n] = kernels.readF64(record + FateLayout.arrive);
      this.delayNs[n] = kernels.readF64(record + FateLayout.delay);
      this.flow[n] = kernels.readU32(record + FateLayout.flow);
      this.fate[n] = kernels.readU32(record + FateLayout.kind);
    }
  }

  #makeRoom(more: number): void {
    const needed = this.count + more;
    if (needed > MAX_PACKETS) {
      throw new UsageError(
        "not-supported",
        `more than ${formatCount(MAX_PACKETS)} packets cannot be listed one by one`,
        "choose some of them with a ‘filter’, or cut the captures by time (editcap -A and -B)",
      );
    }
    let room = this.fate.length;
    if (needed <= room) return;
    while (room < needed) room *= 2;
    const grown = <T extends Float64Array | Uint32Array | Uint8Array>(column: T, fresh: T): T => {
      fresh.set(column.subarray(0, this.count));
      return fresh;
    };
    this.beforeNs = grown(this.beforeNs, new Float64Array(room));
    this.afterNs = grown(this.afterNs, new Float64Array(room));
    this.delayNs = grown(this.delayNs, new Float64Array(room));
    this.flow = grown(this.flow, new Uint32Array(room));
    this.fate = grown(this.fate, new Uint8Array(room));
  }
}
