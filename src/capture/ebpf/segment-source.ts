/**
 * Packets on their way through this box, one by one, from the rings of datapath/segment.bpf.c. The sender sees them at the output before its queue, with their
 * arrival time; the receiver sees them behind the queue, with their departure time and delay. The two sources share a clock and are the ends of a segment.
 * Frames are laid out as in a packet ring and decoded by the same kernel (kernels/decode/walk-ring.ts). Memory: the rings, and a batch of frames.
 */
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { CursorLayout, cursorConstants, walkRingConstants } from "../../base/kernel-layout.ts";
import type { Kernels } from "../../base/kernels.ts";
import { countOf } from "../../base/quantity.ts";
import { BATCH_ROWS, PacketBatch } from "../batch.ts";
import { type CaptureOptions, type CaptureStatistics, DEFAULT_COVER, DEFAULT_SEED } from "../reader.ts";
import type { ClockState } from "../source/clock-state.ts";
import { SystemClock } from "../source/interface/system-clock.ts";
import { newShorts, skippedOf, walkedStatistics } from "../source/interface/walk-counts.ts";
import type { CaptureTotals, Source, SourceBatch } from "../source/source.ts";
import type { RingBuffer } from "./ring-buffer.ts";
import type { SegmentDatapath } from "./segment.ts";
import { PACKET, SNAP_BYTES } from "./segment-layout.ts";

export interface SegmentSourceOptions {
  capture?: CaptureOptions;
  signal?: AbortSignal | undefined;
}

/** Size of struct tpacket3_hdr as the decoding kernel reads it, with room for a VLAN tag; the frame follows. */
const FRAME_AT = 80;
const SLOT_BYTES = FRAME_AT + SNAP_BYTES;
const TAG_VALID = (1 << 4) | (1 << 6);
const MERGED = 1 << 8;
const OUTGOING = 4;
const PADDING = 64;
const ANY_LENGTH = 0xffff_ffff;
const MIN_WAIT_MS = 4;
const MAX_WAIT_MS = 50;
const LINGER_MS = 60;
const TURN_MS = 20;
/** Longest time for which a packet may still be on its way into the ring after its time. */
const PATIENCE_NS = 20_000_000n;
const LOOK_AT_CLOCK_MS = 1000;
const { SPECIAL_INNER } = cursorConstants;

/** Returns both ends. The datapath is closed when the second end is closed. */
export function segmentSources(
  kernels: Kernels,
  box: SegmentDatapath,
  options: SegmentSourceOptions = {},
): { sender: Source; receiver: Source } {
  const times = new WallTimes(box);
  let open = 2;
  const onClose = () => {
    if (--open === 0) box.close();
  };
  return {
    sender: new SegmentSource(kernels, box, "in", { ...options, times, onClose }),
    receiver: new SegmentSource(kernels, box, "left", { ...options, times, onClose }),
  };
}

interface EndOptions extends SegmentSourceOptions {
  times: WallTimes;
  onClose: () => void;
}

/** Converts the kernel's times to the wall clock, alike for both ends. When the clock is set, the times jump with it, as those of captures do. */
class WallTimes {
  readonly #box: SegmentDatapath;
  #offsetNs: bigint;
  #readAt = performance.now();

  constructor(box: SegmentDatapath) {
    this.#box = box;
    this.#offsetNs = box.wallOffsetNs();
  }

  offsetNs(): bigint {
    if (performance.now() - this.#readAt > LOOK_AT_CLOCK_MS) {
      this.#readAt = performance.now();
      this.#offsetNs = this.#box.wallOffsetNs();
    }
    return this.#offsetNs;
  }
}

class SegmentSource implements Source {
  readonly name: string;
  readonly live = true;
  readonly knowsDelays: boolean;
  readonly #kernels: Kernels;
  readonly #box: SegmentDatapath;
  readonly #end: "in" | "left";
  readonly #options: EndOptions;
  readonly #ring: RingBuffer;
  readonly #batch: PacketBatch;
  readonly #cursor: number;
  readonly #slots: number;
  readonly #shorts: number;
  readonly #delays = new Float64Array(BATCH_ROWS);
  readonly #clock: SystemClock;
  #rows = 0;
  #read = 0;
  #waitMs = MIN_WAIT_MS;
  #turnAt = performance.now() + TURN_MS;
  #endAt: number | null = null;
  #passedNs: bigint | null = null;
  #final: CaptureStatistics | null = null;

  constructor(kernels: Kernels, box: SegmentDatapath, end: "in" | "left", options: EndOptions) {
    const [way] = box.ways;
    this.name = (end === "in" ? way?.input : way?.output) ?? "";
    this.knowsDelays = end === "left";
    this.#kernels = kernels;
    this.#box = box;
    this.#end = end;
    this.#options = options;
    this.#ring = box.ring(end);
    this.#batch = new PacketBatch(kernels);
    this.#batch.keepFrames();
    this.#slots = kernels.alloc(SLOT_BYTES * BATCH_ROWS + PADDING);
    this.#shorts = newShorts(kernels);
    this.#cursor = kernels.call.cursorNew() >>> 0;
    const { cover = DEFAULT_COVER, inner = false, seed = DEFAULT_SEED } = options.capture ?? {};
    kernels.writeU64(this.#cursor + CursorLayout.seed, seed);
    this.#set("cover", cover);
    this.#set("special", inner ? SPECIAL_INNER : 0);
    const { RING_ETHERNET, RING_NETWORK } = walkRingConstants;
    this.#set("link", isEthernet(way?.output ?? "") ? RING_ETHERNET : RING_NETWORK);
    this.#set("longest", ANY_LENGTH);
    this.#clock = new SystemClock(box.datapath.bpf.libc);
  }

  async next(): Promise<SourceBatch | null> {
    for (;;) {
      if (performance.now() > this.#turnAt) {
        await new Promise(setImmediate);
        this.#turnAt = performance.now() + TURN_MS;
      }
      if (this.#final) return null;
      if (this.#options.signal?.aborted) this.#endAt ??= performance.now() + LINGER_MS;
      if (this.#endAt !== null && performance.now() > this.#endAt) return null;
      const given = this.ready();
      if (given) return given;
      this.#passedNs = process.hrtime.bigint() + this.#options.times.offsetNs() - PATIENCE_NS;
      this.#waitMs = this.#read > BATCH_ROWS / 2 ? MIN_WAIT_MS : Math.min(MAX_WAIT_MS, this.#waitMs * 2);
      this.#read = 0;
      await sleep(this.#endAt === null ? this.#waitMs : MIN_WAIT_MS);
      this.#turnAt = performance.now() + TURN_MS;
    }
  }

  ready(): SourceBatch | null {
    if (this.#final) return null;
    for (;;) {
      const before = this.#counter("packets");
      const found = this.#fill();
      if (found === 0) return null;
      this.#read += found;
      const { call } = this.#kernels;
      const batch = this.#batch;
      batch.count = 0;
      this.#set("pos", this.#slots);
      this.#set("limit", this.#slots + found * SLOT_BYTES);
      this.#set("left", found);
      call.walkRing(this.#cursor, batch.address);
      call.countShorts(batch.address, this.#shorts);
      if (batch.count === 0) continue;
      this.#rows += batch.count;
      if (this.knowsDelays) {
        const { frame, delayNs, count } = batch;
        for (let i = 0; i < count; i++) delayNs[i] = this.#delays[(frame[i]! - before - 1) >>> 0]!;
      }
      return { batch, originNs: this.#kernels.readI64(this.#cursor + CursorLayout.origin) };
    }
  }

  nowNs(): bigint | null {
    return this.#passedNs;
  }

  clock(): ClockState | null {
    return this.#clock.state();
  }

  totals(): CaptureTotals {
    if (this.#final) return { ...this.#final, frames: this.#final.packets };
    const skipped = skippedOf(this.#kernels, this.#cursor);
    const { ringIn, ringLeft } = this.#box.counts(0);
    return { frames: this.#counter("packets"), skipped, dropped: this.#end === "in" ? ringIn : ringLeft };
  }

  statistics(): CaptureStatistics[] {
    return [this.#final ?? this.#statistics()];
  }

  progress(): { doneBytes: number; totalBytes: number | null } {
    return { doneBytes: this.#final ? this.#final.bytes : this.#counter("bytes"), totalBytes: null };
  }

  close(): void {
    if (this.#final) return;
    this.#final = this.#statistics();
    this.#ring.close();
    this.#batch.free();
    for (const address of [this.#cursor, this.#slots, this.#shorts]) this.#kernels.free(address);
    this.#options.onClose();
  }

  /** Copies frames out of the ring, one per slot; returns their number. */
  #fill(): number {
    const { u8, u32, u16 } = viewsOf(this.#kernels);
    const offsetNs = this.#options.times.offsetNs();
    let slot = this.#slots;
    let n = 0;
    return this.#ring.read(BATCH_ROWS, (data, at) => {
      const arrival = data.getBigUint64(at + PACKET.arrival, true);
      const departure = data.getBigUint64(at + PACKET.departure, true);
      const timeNs = (departure === 0n ? arrival : departure) + offsetNs;
      const seconds = timeNs / 1_000_000_000n;
      const captured = data.getUint16(at + PACKET.captured, true);
      const tagType = data.getUint16(at + PACKET.tagType, false);
      const segments = data.getUint32(at + PACKET.segments, true);
      this.#delays[n++] = Number(departure - arrival);
      const word = slot >>> 2;
      u32[word] = SLOT_BYTES;
      u32[word + 1] = Number(seconds);
      u32[word + 2] = Number(timeNs - seconds * 1_000_000_000n);
      u32[word + 3] = captured;
      u32[word + 4] = data.getUint32(at + PACKET.length, true);
      u32[word + 5] = (tagType === 0 ? 0 : TAG_VALID) | (segments > 1 ? MERGED : 0);
      u16[(slot + 24) >>> 1] = FRAME_AT;
      u16[(slot + 26) >>> 1] = FRAME_AT;
      u32[word + 8] = data.getUint16(at + PACKET.tag, true);
      u16[(slot + 36) >>> 1] = tagType;
      u8[slot + 58] = this.#end === "left" ? OUTGOING : 0;
      u8.set(new Uint8Array(data.buffer, data.byteOffset + at + PACKET.frame, captured), slot + FRAME_AT);
      slot += SLOT_BYTES;
    });
  }

  #statistics(): CaptureStatistics {
    return walkedStatistics(
      this.#kernels,
      { cursor: this.#cursor, shorts: this.#shorts },
      {
        ...{ name: this.name, rows: this.#rows, totals: this.totals() },
        description: this.#end === "in" ? "forwarded packets, arrival" : "forwarded packets, departure",
        ...{ link: 1, snapLength: SNAP_BYTES, warnings: this.#warnings() },
      },
    );
  }

  #warnings(): string[] {
    const { unstamped, marked } = this.#box.counts(0);
    const { input = "", output = "" } = this.#box.ways[0] ?? {};
    const merged = this.#counter("merged");
    const warnings: string[] = [];
    if (merged > 0)
      warnings.push(
        `${this.name}: ${countOf(merged, "merged packet")} (GRO), each counted as one; ‘ebpf-arrival xdp’, or ethtool -K ${input} gro off, keeps packets separate`,
      );
    if (this.#end === "in" && unstamped > 0)
      warnings.push(`${countOf(unstamped, "packet")} from ${input} to ${output} not timed: not IP`);
    if (this.#end === "in" && marked > 0)
      warnings.push(`${countOf(marked, "packet")} with a firewall mark, which is not touched: not measured`);
    return warnings;
  }

  #set(field: "pos" | "limit" | "left" | "link" | "cover" | "special" | "longest", value: number): void {
    this.#kernels.writeU32(this.#cursor + CursorLayout[field], value);
  }
  #counter(field: "packets" | "bytes" | "merged"): number {
    return this.#kernels.readCounter(this.#cursor + CursorLayout[field]);
  }
}

/** Returns whether the interface has Ethernet headers. Others (PPP, WireGuard, tun) send packets without a link header. */
function isEthernet(name: string): boolean {
  try {
    return Number(readFileSync(`/sys/class/net/${name}/type`, "utf8")) === 1;
  } catch {
    return true;
  }
}

function viewsOf({ u8, u32 }: Kernels): { u8: Uint8Array; u16: Uint16Array; u32: Uint32Array } {
  return { u8, u32, u16: new Uint16Array(u8.buffer) };
}
