/**
 * Every packet of two captures with its outcome, in columns: 32 bytes per packet. Kept only on request; sums and quantiles do not need it. Filled from the
 * records that kernels/match/fates.ts leaves after each call.
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
  /** Set by the second look (residue/) at packets without a partner: bytes of a merged segment that arrived, without the last one. */
  merged: 64,
  /** A fragment, or another part of a packet that has a row of its own. */
  part: 65,
} as const;
/** Returns the side of a packet seen at one point only, for whatever reason. */
function loneSide(fate: number): 0 | 1 | null {
  if (fate === FATE.onlyBefore || fate === FATE.headBefore || fate === FATE.tailBefore) return 0;
  return fate === FATE.onlyAfter || fate === FATE.headAfter || fate === FATE.tailAfter ? 1 : null;
}

/** Marks rows that were replaced, until they are removed. */
const REPLACED = 255;

/** 4 GiB of columns. */
const MAX_PACKETS = 2 ** 27;

/** A row added by the second look. */
export interface ResolvedRow {
  beforeNs: number;
  afterNs: number;
  flow: number;
  fate: number;
  /** Number of packets on the wire that it stands for. */
  packets: number;
  /** Set if other rows may be in the same frames. */
  frames: SharedFrames | null;
}

/** The frames that contain a row, as numbers: rows of one flow and time with the same number are in the same frame. */
export interface SharedFrames {
  before: number;
  after: number;
}

export class PacketLog {
  count = 0;
  /** Rows that stand for a number of packets on the wire other than one. */
  readonly #wire = new Map<number, number>();
  /** Rows that share a frame with others, as parts of merged segments do. */
  readonly #shared = new Map<number, SharedFrames>();
  /** Rows of packets without a partner, by side, time, flow and fate; made for the second look. */
  #lone: Map<string, number[]> | null = null;
  /** Time at BEFORE on the matcher's axis; NaN if the packet was not seen there. */
  beforeNs = new Float64Array(4096);
  /** The same at AFTER. */
  afterNs = new Float64Array(4096);
  /** Corrected, in its own direction; NaN without a partner. */
  delayNs = new Float64Array(4096);
  /** Id of its flow in the matcher. */
  flow = new Uint32Array(4096);
  fate = new Uint8Array(4096);

  /** Adds `count` records at `address`. */
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

  /** Returns the number of packets on the wire that a row stands for. */
  packets(id: number): number {
    return this.#wire.get(id) ?? 1;
  }

  /** Returns the row's frames if others may be in the same; null if it has them for itself. */
  sharedFrames(id: number): SharedFrames | null {
    return this.#shared.get(id) ?? null;
  }

  /** Marks the row of an unmatched packet for removal: other rows replace it. */
  replaceLone(packet: { side: 0 | 1; timeNs: number; flow: number; fate: number }): void {
    const { side, timeNs, flow, fate } = packet;
    this.#lone ??= this.#loneRows();
    const id = this.#lone.get(`${side},${timeNs},${flow},${fate}`)?.shift();
    if (id !== undefined) this.fate[id] = REPLACED;
  }

  /** Moves an unmatched packet to another flow. */
  renameLone(packet: { side: 0 | 1; timeNs: number; flow: number; fate: number }, flow: number): void {
    this.#lone ??= this.#loneRows();
    const { side, timeNs, fate } = packet;
    const id = this.#lone.get(`${side},${timeNs},${packet.flow},${fate}`)?.shift();
    if (id === undefined) return;
    this.flow[id] = flow;
    const name = `${side},${timeNs},${flow},${fate}`;
    const same = this.#lone.get(name);
    if (same) same.push(id);
    else this.#lone.set(name, [id]);
  }

  /** Adds the row of an unmatched packet, which can be replaced like the others. */
  addLone({ side, timeNs, flow, fate }: { side: 0 | 1; timeNs: number; flow: number; fate: number }): void {
    this.#lone ??= this.#loneRows();
    const [beforeNs, afterNs] = side === 0 ? [timeNs, Number.NaN] : [Number.NaN, timeNs];
    const name = `${side},${timeNs},${flow},${fate}`;
    const same = this.#lone.get(name);
    if (same) same.push(this.count);
    else this.#lone.set(name, [this.count]);
    this.add({ beforeNs, afterNs, flow, fate, packets: 1, frames: null });
  }

  /** Sets the number of packets on the wire of matched rows: by flow and time at BEFORE. */
  countMatched(packets: ReadonlyMap<string, number>): void {
    if (packets.size === 0) return;
    for (let id = 0; id < this.count; id++) {
      const fate = this.fate[id];
      if (fate !== FATE.forward && fate !== FATE.reverse && fate !== FATE.ambiguous) continue;
      const known = packets.get(`${this.flow[id]},${this.beforeNs[id]}`);
      if (known !== undefined) this.#wire.set(id, known);
    }
  }

  add({ beforeNs, afterNs, flow, fate, packets, frames }: ResolvedRow): void {
    this.#makeRoom(1);
    const n = this.count++;
    this.beforeNs[n] = beforeNs;
    this.afterNs[n] = afterNs;
    this.delayNs[n] = Number.NaN;
    this.flow[n] = flow;
    this.fate[n] = fate;
    this.shareLast(packets, frames);
  }

  /** Sets the number of packets on the wire of the last row, and the frames that it shares. */
  shareLast(packets: number, frames: SharedFrames | null): void {
    const id = this.count - 1;
    if (frames !== null) this.#shared.set(id, frames);
    if (packets !== 1) this.#wire.set(id, packets);
  }

  /** Removes the rows that were replaced; ids change. */
  finishReplacing(): void {
    if (this.#lone === null) return;
    this.#lone = null;
    const [wire, shared] = [new Map(this.#wire), new Map(this.#shared)];
    this.#wire.clear();
    this.#shared.clear();
    let kept = 0;
    for (let id = 0; id < this.count; id++) {
      if (this.fate[id] === REPLACED) continue;
      for (const column of [this.beforeNs, this.afterNs, this.delayNs, this.flow, this.fate])
        column[kept] = column[id]!;
      const packets = wire.get(id);
      if (packets !== undefined) this.#wire.set(kept, packets);
      const frames = shared.get(id);
      if (frames !== undefined) this.#shared.set(kept, frames);
      kept++;
    }
    this.count = kept;
  }

  #loneRows(): Map<string, number[]> {
    const rows = new Map<string, number[]>();
    for (let id = 0; id < this.count; id++) {
      const side = loneSide(this.fate[id] ?? 0);
      if (side === null) continue;
      const name = `${side},${(side === 0 ? this.beforeNs : this.afterNs)[id]},${this.flow[id]},${this.fate[id]}`;
      const same = rows.get(name);
      if (same) same.push(id);
      else rows.set(name, [id]);
    }
    return rows;
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
