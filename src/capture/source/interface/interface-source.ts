/**
 * A live interface as a source: packets as they arrive, until the signal aborts. A kernel decodes the blocks of the packet ring into batches
 * (kernels/decode/walk-ring.ts), in place (ring-window.ts) or, if that is impossible, from a copy. The ring is polled by a timer, because Node cannot wait for
 * a packet socket, so the event loop runs between blocks. Memory: the ring.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { CursorLayout, cursorConstants, walkRingConstants } from "../../../base/kernel-layout.ts";
import type { Kernels } from "../../../base/kernels.ts";
import { countOf } from "../../../base/quantity.ts";
import { PacketBatch } from "../../batch.ts";
import { type CaptureStatistics, DEFAULT_COVER, DEFAULT_SEED } from "../../reader.ts";
import type { ClockState } from "../clock-state.ts";
import { systemClock, type WallClock } from "../live-clock.ts";
import type { CaptureTotals, Source, SourceBatch } from "../source.ts";
import { type InterfaceSourceOptions, plainSnapOf, snapBytesOf } from "./interface-options.ts";
import { loadLibc } from "./libc.ts";
import { BLOCK_BYTES, PacketRing, RETIRE_MS, type RingOptions } from "./ring.ts";
import type { RingWindow } from "./ring-window.ts";
import { socketFilter } from "./socket-filter.ts";
import { SystemClock } from "./system-clock.ts";
import { newShorts, skippedOf, walkedStatistics } from "./walk-counts.ts";

const LOOPBACK = "lo";
const RING_BYTES = 32 << 20;
/** Kernels may load words beyond the end of a frame. */
const PADDING = 64;
/**
 * Limits of the polling interval, which adapts so that about WANTED_BYTES are in the ring. With many packets at once the sketches are in the cache from the
 * second packet on, and a wake-up costs as much as some hundred packets. A quarter of the ring leaves room for a late reader.
 */
const MIN_WAIT_MS = 4;
const MAX_WAIT_MS = 100;
const WANTED_BYTES = 8 << 20;
/** Longest time before the event loop gets a turn. */
const TURN_MS = 20;
/**
 * Longest time from a packet's arrival until its block is handed over; the kernel's timer may be late. If no packet waits in the ring, EMPTY_PATIENCE_NS is
 * enough, because writing one takes almost no time.
 */
const PATIENCE_NS = 250_000_000n;
const EMPTY_PATIENCE_NS = 20_000_000n;
/** Time after the signal until the last packets before it are in a block that was handed over. */
const LINGER_MS = 2 * RETIRE_MS;
/** Ethernet header and two VLAN tags. */
const FRAME_OVERHEAD = 22;
const { BATCH_FULL, BAD_LENGTH, SPECIAL_INNER } = cursorConstants;
const { RING_ETHERNET, RING_NETWORK } = walkRingConstants;
/** Interval at which the interface's MTU and up/down state are read. */
const STATE_MS = 1000;
/** Packets may be missing for this long after an interface came back, because its presence is polled at this interval. */
const THERE_MS = 100;
const ANY_LENGTH = 0xffff_ffff;

type Counter = "packets" | "bytes" | "merged" | "hardware";
type Word = "pos" | "limit" | "left" | "link" | "cover" | "special" | "longest" | "hardwareOnly" | "started";

/** Returns a source that does nothing before the first `next`. */
export function openInterface(
  kernels: Kernels,
  name: string,
  options: InterfaceSourceOptions = {},
): InterfaceSource {
  return new InterfaceSource(kernels, name, options);
}

export class InterfaceSource implements Source {
  readonly name: string;
  readonly live = true;
  readonly #kernels: Kernels;
  readonly #options: InterfaceSourceOptions;
  readonly #wall: WallClock;
  readonly #batch: PacketBatch;
  readonly #cursor: number;
  /** Address of a copied block; null while blocks are read in place. */
  #block: number | null = null;
  #window: RingWindow | null = null;
  /** The current block is in the ring itself, and must be given back after reading. */
  #borrowed = false;
  readonly #shorts: number;
  #ring: PacketRing | null = null;
  #final: CaptureStatistics | null = null;
  #rows = 0;
  #waitMs = MIN_WAIT_MS;
  /** Bytes found since the ring was last empty. */
  #foundBytes = 0;
  #turnAt = performance.now() + TURN_MS;
  /** All packets up to this time have been returned. */
  #passedNs: bigint | null = null;
  #endAt: number | null = null;
  #beganNs: bigint | null = null;
  #damaged = 0;
  #mtu: number | null = null;
  #stateAt = 0;
  #down = false;
  /** Number of times the interface was down. */
  #downs = 0;
  #clock: SystemClock | null = null;
  #ringOptions: RingOptions | null = null;
  #thereAt = 0;
  #gone = false;
  /** Number of times the interface was removed and came back. */
  #returns = 0;

  constructor(kernels: Kernels, name: string, options: InterfaceSourceOptions) {
    this.#kernels = kernels;
    this.name = name;
    this.#options = options;
    this.#wall = options.clock ?? systemClock;
    this.#batch = new PacketBatch(kernels);
    this.#cursor = kernels.call.cursorNew() >>> 0;
    this.#shorts = newShorts(kernels);
    const {
      cover = DEFAULT_COVER,
      inner = false,
      seed = DEFAULT_SEED,
      rowsOnly = false,
    } = options.capture ?? {};
    if (rowsOnly) this.#batch.makeLean();
    kernels.writeU64(this.#cursor + CursorLayout.seed, seed);
    this.#set("cover", cover);
    this.#set("special", inner ? SPECIAL_INNER : 0);
  }

  /** Opens the interface if it is not open yet, so that several sources can start together. */
  async open(): Promise<void> {
    if (this.#ring || this.#final) return;
    const libc = await loadLibc(this.name);
    const {
      promiscuous = false,
      timestamps = "software",
      ringBytes = RING_BYTES,
      wanted = null,
    } = this.#options;
    // A loopback receives what it sends: capturing both directions would count each packet twice.
    const direction = this.#options.direction ?? (this.name === LOOPBACK ? "in" : "both");
    const hardware = timestamps === "hardware";
    const { program, selective } = socketFilter(wanted, direction, {
      bytes: this.snapBytes,
      plainBytes: plainSnapOf(this.#options, DEFAULT_COVER),
    });
    this.#ringOptions = { name: this.name, direction, promiscuous, hardware, program, ringBytes };
    const originNs = this.#wall();
    this.#ring = PacketRing.open(libc, this.#ringOptions);
    // A network card's clock may be far from the system's.
    if (!hardware) this.#begin(originNs, this.#wall());
    this.#window = this.#options.copyBlocks ? null : this.#ring.window(this.#kernels);
    // The kernel knows nothing about the state of a network card's clock.
    this.#clock = hardware ? null : new SystemClock(libc);
    const way = direction === "in" ? "received" : direction === "out" ? "sent" : "received and sent";
    const filtered =
      wanted === null ? "" : selective ? "; filtered in the kernel" : "; filtered in user space";
    this.#options.onOpen?.(
      `${this.name}: packets ${way}, ${this.snapBytes} bytes of each, ${timestamps} timestamps${filtered}`,
    );
    this.#lookAtLink();
    this.#lookAtState();
    this.#set("hardwareOnly", hardware ? 1 : 0);
  }

  /** Sets the origin of row times, which lies before the ring was created, as that takes a while. From `nowNs` on no packet is missed. */
  #begin(originNs: bigint, nowNs: bigint): void {
    this.#beganNs = nowNs;
    this.#kernels.writeU64(this.#cursor + CursorLayout.origin, originNs);
    this.#set("started", 1);
  }

  /** Bytes captured of each packet. */
  get snapBytes(): number {
    return snapBytesOf(this.#options, DEFAULT_COVER);
  }

  async next(): Promise<SourceBatch | null> {
    await this.open();
    const { signal } = this.#options;
    for (;;) {
      if (performance.now() > this.#turnAt) {
        await new Promise(setImmediate);
        this.#turnAt = performance.now() + TURN_MS;
      }
      if (this.#final) return null;
      if (signal?.aborted) this.#endAt ??= performance.now() + LINGER_MS;
      if (this.#endAt !== null && performance.now() > this.#endAt) return null;
      this.#lookWhetherThere();
      this.#lookAtState();
      // Read the clock before looking at the ring: if this process is paused in between, packets may arrive that the look has missed.
      const lookedNs = this.#wall();
      const given = this.#found();
      if (given) return given;
      this.#passedNs = lookedNs - ((this.#ring?.waiting ?? 0) > 0 ? PATIENCE_NS : EMPTY_PATIENCE_NS);
      this.#adaptWait();
      await sleep(this.#endAt === null ? this.#waitMs : MIN_WAIT_MS);
      this.#turnAt = performance.now() + TURN_MS;
    }
  }

  /**
   * Checks whether the interface still exists. Tunnels, ports of virtual machines and cards with a reloaded driver are removed and created again, as another
   * interface of the same name.
   */
  #lookWhetherThere(): void {
    const ring = this.#ring;
    if (!ring || !this.#ringOptions || performance.now() < this.#thereAt) return;
    this.#thereAt = performance.now() + THERE_MS;
    if (!ring.isOrphan) return;
    if (!this.#gone) this.#options.onOpen?.(`${this.name}: removed; waiting for an interface of that name`);
    this.#gone = true;
    if (!ring.adopt(this.#ringOptions)) return;
    this.#gone = false;
    this.#returns++;
    this.#lookAtLink();
    this.#options.onOpen?.(`${this.name}: is there again`);
  }

  #lookAtLink(): void {
    this.#set("link", this.#ring?.link(this.name).ethernet === false ? RING_NETWORK : RING_ETHERNET);
  }

  /**
   * Reads MTU and up/down state, which may change while packets are read. Frames up to the MTU count as single packets; an interface that is down looks like a
   * link without packets.
   */
  #lookAtState(): void {
    if (performance.now() < this.#stateAt) return;
    this.#stateAt = performance.now() + STATE_MS;
    const { mtu = null, up = null } = this.#ring?.link(this.name) ?? {};
    this.#mtu = mtu ?? this.#mtu;
    this.#set("longest", this.#mtu === null ? ANY_LENGTH : this.#mtu + FRAME_OVERHEAD);
    if (up === null || up !== this.#down) return;
    this.#down = !up;
    if (this.#down) this.#downs++;
    const { name } = this;
    this.#options.onOpen?.(
      up ? `${name}: is up` : `${name}: is down, no packets until it is up (ip link set ${name} up)`,
    );
  }

  ready(): SourceBatch | null {
    if (!this.#ring || this.#endAt !== null || this.#options.signal?.aborted) return null;
    return performance.now() > this.#turnAt ? null : this.#found();
  }

  nowNs(): bigint | null {
    return this.#passedNs;
  }

  beganNs(): bigint | null {
    return this.#beganNs;
  }

  clock(): ClockState | null {
    return this.#clock?.state() ?? null;
  }

  totals(): CaptureTotals {
    if (this.#final) return { ...this.#final, frames: this.#final.packets };
    const skipped = skippedOf(this.#kernels, this.#cursor);
    const dropped = this.#ring?.counts().dropped ?? 0;
    return { frames: this.#counter("packets"), skipped, dropped };
  }

  statistics(): CaptureStatistics[] {
    return [this.#final ?? this.#statistics()];
  }

  progress(): { doneBytes: number; totalBytes: number | null } {
    return { doneBytes: this.#final ? this.#final.bytes : this.#counter("bytes"), totalBytes: null };
  }

  close(): void {
    if (this.#final) return;
    this.#window?.close();
    this.#ring?.close();
    this.#final = this.#statistics();
    this.#ring = null;
    this.#batch.free();
    this.#kernels.free(this.#cursor);
    if (this.#block !== null) this.#kernels.free(this.#block);
    this.#kernels.free(this.#shorts);
  }

  #found(): SourceBatch | null {
    for (;;) {
      const given = this.#walk();
      if (given) return given;
      if (!this.#takeBlock()) return null;
    }
  }

  /** Decodes the rest of the current block, up to a full batch; null if nothing of it is left. */
  #walk(): SourceBatch | null {
    const { call } = this.#kernels;
    const batch = this.#batch;
    while (this.#get("left") > 0) {
      batch.count = 0;
      const outcome = call.walkRing(this.#cursor, batch.address);
      if (outcome === BAD_LENGTH) {
        // The kernel wrote a block that cannot be valid: skip its packets and count them.
        this.#damaged += this.#get("left");
        this.#set("left", 0);
      }
      call.countShorts(batch.address, this.#shorts);
      if (batch.count === 0 && outcome === BATCH_FULL) throw new Error("a batch without room");
      if (batch.count === 0) continue;
      this.#rows += batch.count;
      return { batch, originNs: this.#kernels.readI64(this.#cursor + CursorLayout.origin) };
    }
    return null;
  }

  /** Takes the next block. Rows of a batch point into the current block, so that one is given back only now. */
  #takeBlock(): boolean {
    const ring = this.#ring;
    if (this.#borrowed) ring?.giveBack();
    this.#borrowed = false;
    const block = ring?.peek();
    if (!ring || !block) return false;
    const inside = this.#window?.address ?? null;
    const start = inside === null ? this.#copy(block.bytes) : inside + block.offset;
    if (inside === null) ring.giveBack();
    else this.#borrowed = true;
    this.#set("pos", start + block.first);
    this.#set("limit", start + block.bytes.length);
    this.#set("left", block.packets);
    this.#foundBytes += block.bytes.length;
    return true;
  }

  #copy(bytes: Uint8Array): number {
    this.#block ??= this.#kernels.alloc(BLOCK_BYTES + PADDING);
    this.#kernels.u8.set(bytes, this.#block);
    return this.#block;
  }

  /** Adapts the interval to the bytes found in the last one, by at most a factor of two upwards. */
  #adaptWait(): void {
    const factor = Math.min(2, WANTED_BYTES / Math.max(1, this.#foundBytes));
    this.#waitMs = Math.min(MAX_WAIT_MS, Math.max(MIN_WAIT_MS, Math.round(this.#waitMs * factor)));
    this.#foundBytes = 0;
  }

  #statistics(): CaptureStatistics {
    return walkedStatistics(
      this.#kernels,
      { cursor: this.#cursor, shorts: this.#shorts },
      {
        ...{ name: this.name, rows: this.#rows, totals: this.totals() },
        description: `${this.#options.timestamps ?? "software"} timestamps`,
        ...{ link: this.#get("link"), snapLength: this.snapBytes, warnings: this.#warnings() },
      },
    );
  }

  #warnings(): string[] {
    const warnings: string[] = [];
    const merged = this.#counter("merged");
    if (merged > 0)
      warnings.push(
        `${this.name}: ${countOf(merged, "packet")} of several merged ones, longer than the link's MTU${this.#mtu === null ? "" : ` of ${this.#mtu}`}: they look different elsewhere; ethtool -K ${this.name} gro off lro off (received) gso off tso off (sent)`,
      );
    const hardware = this.#counter("hardware");
    if (this.#options.timestamps === "hardware")
      warnings.push(
        `${this.name}: ${countOf(hardware, "packet")} timestamped by the card; others are not used`,
      );
    if (this.#returns > 0)
      warnings.push(
        `${this.name}: removed and created again ${countOf(this.#returns, "time")}: packets within ${THERE_MS} ms of its return are missing`,
      );
    if (this.#gone) warnings.push(`${this.name}: removed, and did not come back`);
    if (this.#downs > 0)
      warnings.push(
        `${this.name}: was down ${countOf(this.#downs, "time")}${this.#down ? ", and is" : ""}: no packets came then`,
      );
    if (this.#damaged > 0)
      warnings.push(`${this.name}: ${countOf(this.#damaged, "packet")} in damaged blocks of the ring`);
    return warnings;
  }

  #get(field: Word): number {
    return this.#kernels.readU32(this.#cursor + CursorLayout[field]);
  }
  #set(field: Word, value: number): void {
    this.#kernels.writeU32(this.#cursor + CursorLayout[field], value);
  }
  #counter(field: Counter): number {
    return this.#kernels.readCounter(this.#cursor + CursorLayout[field]);
  }
}
