/**
 * Passes strides from one thread to another: a ring of slots in the kernel memory of the reading thread, which is shared. The writer copies its rows there, and
 * the reader's kernels use them in place.
 *
 *   control (i32): written | taken | state | reader waits | slot it waits for | writer waits | slot it waits for | kernel memory in use
 *   counters (f64): bytes of the files consumed | packets given
 *   slot: kind, side, rows, runs, wide, shorts, far (i32 each); a batch with the columns time f64, digest u64, flags u32 of the rows (at the
 *         end of a side a single time: its last, NaN without packets);
 *         head and runs of their keys, or the keys of each (kernels/flows/key-runs.ts, rows from 0 on), and with `wide` the rest of their IPv6 keys
 *
 * A thread with nothing to do sleeps until the other is half a ring ahead: waking up for every stride would cost more than copying it.
 */

import type { Kernels } from "../base/kernels.ts";
import { entryAt } from "../base/lists.ts";
import { BATCH_HEAD_BYTES, PacketBatch } from "../capture/batch.ts";
import { KeyRuns, RUN_BYTES, RUNS_HEAD_BYTES, WIDE_RUN_BYTES } from "../capture/flow/key-runs.ts";
import type { Stride, StrideRows } from "./pair-feed.ts";

/** Few, so that the reader finds the writer's data still in the cache. */
export const SLOTS = 16;
const WRITTEN = 0;
const TAKEN = 1;
const STATE = 2;
const READER_WAITS = 3;
const READER_WANTS = 4;
const WRITER_WAITS = 5;
const WRITER_WANTS = 6;
const IN_USE = 7;
const LINE_BYTES = 64;
const CONTROL_BYTES = 64;
const COUNTER_BYTES = 64;
/** Header of a slot: its description, and its batch. */
const SLOT_HEAD_BYTES = LINE_BYTES + Math.ceil(BATCH_HEAD_BYTES / LINE_BYTES) * LINE_BYTES;
/** Number of integers that describe a slot. */
const HEAD_INTS = 7;
const HEAD_WORDS = RUNS_HEAD_BYTES / 4;
const RUN_WORDS = RUN_BYTES / 4;
const WIDE_WORDS = WIDE_RUN_BYTES / 4;
/** Digest, flags, and a run of its own. */
const ROW_WORDS = 2 + 1 + RUN_WORDS + WIDE_WORDS;
const ROW_BYTES = 8 + 4 * ROW_WORDS;

const RING_OPEN = 0;
const RING_ENDED = 1;
const RING_CANCELLED = 2;
const KIND_ROWS = 1;
const KIND_END = 2;

// Kinds of keys in a slot, other than runs of IPv4.
const WIDE = 1;
const PER_ROW = 2;

/** Thrown by a write when the reader has cancelled. */
export class RingCancelled extends Error {}

/** The ring as seen by both threads. */
class Ring {
  readonly rows: number;
  protected readonly control: Int32Array;
  readonly #counters: Float64Array;
  protected readonly heads: Int32Array[] = [];

  constructor(buffer: ArrayBufferLike, address: number, rows: number) {
    this.rows = rows;
    this.control = new Int32Array(buffer, address, CONTROL_BYTES / 4);
    this.#counters = new Float64Array(buffer, address + CONTROL_BYTES, COUNTER_BYTES / 8);
    for (let i = 0; i < SLOTS; i++)
      this.heads.push(new Int32Array(buffer, slotAddress(address, rows, i), HEAD_INTS));
  }

  /** Prepares for another feed; both threads must be idle. */
  reset(): void {
    this.control.fill(0);
    this.#counters.fill(0);
  }

  setProgress(doneBytes: number, packets: number): void {
    this.#counters[0] = doneBytes;
    this.#counters[1] = packets;
  }
  progress(): { doneBytes: number; packets: number } {
    return { doneBytes: this.#counters[0]!, packets: this.#counters[1]! };
  }
}

const slotBytesOf = (rows: number) =>
  Math.ceil((SLOT_HEAD_BYTES + RUNS_HEAD_BYTES + rows * ROW_BYTES) / LINE_BYTES) * LINE_BYTES;
const slotAddress = (address: number, rows: number, slot: number) =>
  address + CONTROL_BYTES + COUNTER_BYTES + slot * slotBytesOf(rows);

/** Size of a ring in bytes. */
export const ringBytes = (rows: number) => slotAddress(0, rows, SLOTS);

export class RingWriter extends Ring {
  readonly #time: Float64Array[] = [];
  readonly #words: Uint32Array[] = [];
  /** Called while there is nothing to write. */
  readonly #idle: ((inUse: number) => void) | undefined;

  constructor(buffer: ArrayBufferLike, address: number, rows: number, idle?: (inUse: number) => void) {
    super(buffer, address, rows);
    this.#idle = idle;
    for (let i = 0; i < SLOTS; i++) {
      const at = slotAddress(address, rows, i) + SLOT_HEAD_BYTES;
      this.#time.push(new Float64Array(buffer, at, rows));
      this.#words.push(new Uint32Array(buffer, at + rows * 8, HEAD_WORDS + rows * ROW_WORDS));
    }
  }

  writeRows({ side, batch, runs, from, to, shorts, far }: StrideRows): void {
    const slot = this.#slotToWrite();
    const { rows } = this;
    const words = entryAt(this.#words, slot);
    const { u32, f64 } = batch.kernels;
    const copy = (address: number, length: number, at: number) =>
      words.set(u32.subarray(address >>> 2, (address >>> 2) + length), at);
    const time = (batch.column("time") >>> 3) + from;
    entryAt(this.#time, slot).set(f64.subarray(time, time + to - from));
    copy(batch.column("digest") + 8 * from, 2 * (to - from), 0);
    copy(batch.column("flags") + 4 * from, to - from, 2 * rows);
    const { count, wide, perRow } = runs;
    const first = 3 * rows + HEAD_WORDS;
    copy(runs.address, runs.bytes / 4, 3 * rows);
    if (wide) copy(runs.wideAddress, count * WIDE_WORDS, first + rows * RUN_WORDS);
    const few = Math.min(shorts, 0x7fff_ffff);
    this.#publish(slot, [
      KIND_ROWS,
      side,
      to - from,
      count,
      perRow ? PER_ROW : wide ? WIDE : 0,
      few,
      far ? 1 : 0,
    ]);
  }

  writeEnd(side: 0 | 1, lastNs: number | null): void {
    const slot = this.#slotToWrite();
    entryAt(this.#time, slot)[0] = lastNs ?? Number.NaN;
    this.#publish(slot, [KIND_END, side]);
  }

  /** Ends the input: no more slots will come. */
  close(): void {
    Atomics.store(this.control, STATE, RING_ENDED);
    Atomics.store(this.control, READER_WAITS, 0);
    Atomics.notify(this.control, READER_WAITS);
  }

  #slotToWrite(): number {
    const { control } = this;
    const written = Atomics.load(control, WRITTEN);
    const full = () =>
      ((written - Atomics.load(control, TAKEN)) | 0) >= SLOTS &&
      Atomics.load(control, STATE) !== RING_CANCELLED;
    while (full()) {
      this.#idle?.(Atomics.load(control, IN_USE) >>> 0);
      Atomics.store(control, WRITER_WANTS, (written - SLOTS / 2) | 0);
      Atomics.store(control, WRITER_WAITS, 1);
      if (full()) Atomics.wait(control, WRITER_WAITS, 1);
      Atomics.store(control, WRITER_WAITS, 0);
    }
    if (Atomics.load(control, STATE) === RING_CANCELLED) throw new RingCancelled();
    return written & (SLOTS - 1);
  }

  #publish(slot: number, head: number[]): void {
    entryAt(this.heads, slot).set(head);
    const { control } = this;
    const written = (Atomics.add(control, WRITTEN, 1) + 1) | 0;
    wake(control, READER_WAITS, READER_WANTS, written);
  }
}

export class RingReader extends Ring {
  readonly kernels: Kernels;
  readonly address: number;
  readonly #batches: PacketBatch[] = [];
  readonly #runs: KeyRuns[] = [];

  /** `kernels`: shared ones, whose memory the ring occupies as long as they exist. */
  constructor(kernels: Kernels, rows: number) {
    const room = kernels.alloc(ringBytes(rows) + LINE_BYTES);
    const address = Math.ceil(room / LINE_BYTES) * LINE_BYTES;
    super(kernels.memory.buffer, address, rows);
    this.kernels = kernels;
    this.address = address;
    for (let i = 0; i < SLOTS; i++) {
      const slot = slotAddress(address, rows, i);
      const time = slot + SLOT_HEAD_BYTES;
      const digest = time + 8 * rows;
      const flags = digest + 8 * rows;
      this.#batches.push(PacketBatch.over(kernels, rows, slot + LINE_BYTES, { time, digest, flags }));
      this.#runs.push(new KeyRuns(kernels, rows, flags + 4 * rows));
    }
    this.reset();
  }

  /** Whether a slot is ready to be read. */
  get ready(): boolean {
    return Atomics.load(this.control, WRITTEN) !== Atomics.load(this.control, TAKEN);
  }

  get ended(): boolean {
    return Atomics.load(this.control, STATE) === RING_ENDED && !this.ready;
  }

  /** Sleeps until half the ring is full or the writer has closed it, or until the time is up. */
  wait(milliseconds: number): void {
    const { control } = this;
    Atomics.store(control, READER_WANTS, (Atomics.load(control, TAKEN) + SLOTS / 2) | 0);
    Atomics.store(control, READER_WAITS, 1);
    if (!this.ready && Atomics.load(control, STATE) === RING_OPEN) {
      Atomics.wait(control, READER_WAITS, 1, milliseconds);
    }
    Atomics.store(control, READER_WAITS, 0);
  }

  /** Returns the content of the oldest slot, valid until release(). */
  read(): Stride {
    const slot = Atomics.load(this.control, TAKEN) & (SLOTS - 1);
    const head = entryAt(this.heads, slot);
    const batch = entryAt(this.#batches, slot);
    const side = head[1] as 0 | 1;
    if (head[0] === KIND_END) {
      const lastNs = batch.timeNs[0]!;
      return { kind: "end", side, lastNs: Number.isNaN(lastNs) ? null : lastNs };
    }
    const runs = entryAt(this.#runs, slot);
    const rows = head[2]!;
    batch.count = rows;
    runs.count = head[3]!;
    runs.wide = head[4] === WIDE;
    runs.perRow = head[4] === PER_ROW;
    return { kind: "rows", side, batch, runs, from: 0, to: rows, shorts: head[5]!, far: head[6] !== 0 };
  }

  /** Cancels: the writer notices at its next slot. */
  cancel(): void {
    Atomics.store(this.control, STATE, RING_CANCELLED);
    Atomics.store(this.control, WRITER_WAITS, 0);
    Atomics.notify(this.control, WRITER_WAITS);
  }

  /** Allows the slot that was read to be written again. `inUse`: address up to which the kernels have used their memory. */
  release(inUse = 0): void {
    const { control } = this;
    Atomics.store(control, IN_USE, inUse | 0);
    const taken = (Atomics.add(control, TAKEN, 1) + 1) | 0;
    wake(control, WRITER_WAITS, WRITER_WANTS, taken);
  }
}

/** Wakes the other thread if it sleeps and its condition is met. */
function wake(control: Int32Array, waits: number, wants: number, now: number): void {
  if (Atomics.load(control, waits) !== 1 || ((now - Atomics.load(control, wants)) | 0) < 0) return;
  if (Atomics.compareExchange(control, waits, 1, 0) === 1) Atomics.notify(control, waits);
}
