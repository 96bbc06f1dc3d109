/**
 * Delays from reference packets, as a column: batches go in as captured and come out, in order, with the delay of every packet filled in (equation 1), for
 * estimators that need delays (MAPLE, SDS). References keep their measured delay and are flagged; NaN: packets without a reference nearby, and references that
 * are not used.
 *
 * A packet's delay is known when the next reference has arrived, so batches are held until then; at most `hold` of them, then the oldest get the delay of the
 * left reference alone. Output batches are copies without packet bytes: read those before.
 */
import type { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "../capture/batch.ts";
import { copyBatch } from "../capture/copy-batch.ts";
import { addDelayErrors, type DelayErrorSums, noDelayErrors } from "./delay-error.ts";
import { withSource } from "./reference-source.ts";
import { STAMP_PORT } from "./stamp.ts";

export interface ReferenceDelaysOptions {
  /** bit/s; undefined: packets' own transmission time is not separated. */
  drainBps?: number;
  port?: number;
  /** Undefined: any. */
  session?: number;
  /** Source address of the references; undefined: the sender with most of them. */
  source?: string;
  /** Only references with a verified code (reference-key.ts). */
  authenticated?: boolean;
  longestNs?: number;
  /** Maximum number of waiting batches. */
  hold?: number;
}

export interface OwnedBatch {
  batch: PacketBatch;
  originNs: bigint;
  /** Errors of the batch's delays, for batches returned from here. */
  errors?: DelayErrorSums;
}

export interface ReferenceDelayCounts {
  filled: number;
  /** Of those: with a reference on one side only. */
  oneSided: number;
  /** Regular packets without any reference. */
  unanswered: number;
  references: number;
  lost: number;
  duplicate: number;
  reordered: number;
  forged: number;
}

interface Held extends OwnedBatch {
  errors: DelayErrorSums;
  /** Rows before this are filled. */
  row: number;
}

export class ReferenceDelays {
  readonly #kernels: Kernels;
  readonly #finder: number;
  readonly #found: number;
  readonly #hold: number;
  readonly #held: Held[] = [];
  readonly #idle: PacketBatch[] = [];
  #out: PacketBatch | null = null;
  #axisNs: bigint | null = null;
  #filled = 0;
  #oneSided = 0;
  #rows = 0;
  #own = 0;

  constructor(kernels: Kernels, options: ReferenceDelaysOptions = {}) {
    this.#kernels = kernels;
    const nsPerByte = options.drainBps ? 8e9 / options.drainBps : 0;
    const { port = STAMP_PORT, session = -1, longestNs = 10e9 } = options;
    this.#finder = kernels.call.referenceFinderNew(port, session, longestNs, nsPerByte) >>> 0;
    withSource(kernels, options.source ?? "", (header) =>
      kernels.call.referenceFinderTrust(this.#finder, header, options.authenticated ? 1 : 0),
    );
    this.#found = kernels.alloc(16);
    this.#hold = Math.max(1, options.hold ?? 64);
  }

  /** Takes a batch (which may be reused afterwards) and yields those whose delays are known. Each is valid until the next is requested. */
  *push(batch: PacketBatch, originNs: bigint): Generator<OwnedBatch> {
    if (batch.count === 0) return;
    if (this.#axisNs === null) {
      this.#axisNs = originNs;
      this.#kernels.call.referenceFinderOrigin(this.#finder, originNs);
    }
    const copy = this.#take(batch.capacity);
    copyBatch(batch, copy);
    const shift = Number(originNs - this.#axisNs);
    if (shift !== 0) {
      const { timeNs } = copy;
      for (let i = 0; i < copy.count; i++) timeNs[i]! += shift;
    }
    const newest: Held = { batch: copy, originNs: this.#axisNs, row: 0, errors: noDelayErrors() };
    this.#held.push(newest);
    this.#scan(newest);
    copy.header.fill(0, 0, copy.count);
    copy.captured.fill(0, 0, copy.count);
    for (let [first] = this.#held; first; [first] = this.#held) {
      if (first.row < first.batch.count) {
        if (this.#held.length <= this.#hold) return;
        this.#fillByLast(first);
      }
      yield this.#give(first);
    }
  }

  /** Ends the stream: waiting packets get the last reference's delay. */
  *finish(): Generator<OwnedBatch> {
    for (let [first] = this.#held; first; [first] = this.#held) {
      this.#fillByLast(first);
      yield this.#give(first);
    }
  }

  counts(): ReferenceDelayCounts {
    const at = (this.#kernels.call.referenceFinderCounters(this.#finder) >>> 0) >>> 2;
    const [references = 0, lost = 0, duplicate = 0, reordered = 0, forged = 0] = this.#kernels.u32.slice(
      at,
      at + 5,
    );
    return {
      filled: this.#filled,
      oneSided: this.#oneSided,
      unanswered: this.#rows - this.#own - this.#filled,
      ...{ references, lost, duplicate, reordered, forged },
    };
  }

  free(): void {
    for (const batch of [...this.#idle, ...this.#held.map((h) => h.batch)]) batch.free();
    this.#out?.free();
    this.#out = null;
    this.#held.length = 0;
    this.#idle.length = 0;
    this.#kernels.free(this.#found);
    this.#kernels.call.referenceFinderFree(this.#finder);
  }

  /** Finds references in the newest batch; each one settles all rows before it. */
  #scan(newest: Held): void {
    const { batch } = newest;
    const { call } = this.#kernels;
    for (let row = 0; row < batch.count; row++) {
      row = call.referenceFind(this.#finder, batch.address, row, batch.count, this.#found, 1) >>> 0;
      if (row >= batch.count) break;
      const oneSided = this.#kernels.f64[(this.#found >>> 3) + 1] !== 0;
      let sum = 0;
      for (const held of this.#held)
        sum += this.#fill(held, held.batch === batch ? row + 1 : held.batch.count, oneSided);
      // Errors within a gap are common, whatever batches it spans.
      newest.errors.gapSquares += sum * sum;
    }
    const own = batch.column("select") + batch.capacity;
    const marks = this.#kernels.u8.subarray(own, own + batch.count);
    for (const mark of marks) this.#own += mark;
    this.#rows += batch.count;
  }

  /** Fills rows up to `end`, which are in the last gap found. Returns the sum of their errors. */
  #fill(held: Held, end: number, oneSided: boolean): number {
    const { batch, row } = held;
    if (row >= end) return 0;
    const { call } = this.#kernels;
    const sums = () => {
      const at = (call.referenceFinderSums(this.#finder) >>> 0) >>> 3;
      return this.#kernels.f64.slice(at, at + 3);
    };
    const before = sums();
    const filled = call.referenceFill(this.#finder, batch.address, row, end) >>> 0;
    this.#filled += filled;
    if (oneSided) this.#oneSided += filled;
    held.row = end;
    const [squares = 0, errors = 0, alike = 0] = sums().map((x, i) => x - (before[i] ?? 0));
    addDelayErrors(held.errors, { packets: filled, squares, gapSquares: 0, alike });
    return errors;
  }

  #fillByLast(held: Held): void {
    const end = held.batch.count;
    if (this.#kernels.call.referenceLast(this.#finder, this.#found) !== 0)
      held.errors.gapSquares += this.#fill(held, end, true) ** 2;
    else {
      this.#leaveOut(held.batch, held.row, end);
      held.row = end;
    }
  }

  /** Without a reference nearby; references keep their delay. */
  #leaveOut(batch: PacketBatch, from: number, to: number): void {
    const own = batch.column("select") + batch.capacity;
    const { delayNs } = batch;
    for (let i = from; i < to; i++) if (this.#kernels.u8[own + i] === 0) delayNs[i] = Number.NaN;
  }

  #take(rows: number): PacketBatch {
    const at = this.#idle.findIndex((b) => b.capacity >= rows);
    const [idle] = at < 0 ? [] : this.#idle.splice(at, 1);
    return idle ?? new PacketBatch(this.#kernels, rows);
  }

  /** Removes and returns the first held batch. */
  #give({ batch, originNs, errors }: Held): OwnedBatch {
    this.#held.shift();
    if (this.#out) this.#idle.push(this.#out);
    this.#out = batch;
    return { batch, originNs, errors };
  }
}

/** Interpolates a whole stream. */
export async function* interpolateDelays(
  kernels: Kernels,
  batches: AsyncIterable<OwnedBatch> | Iterable<OwnedBatch>,
  options: ReferenceDelaysOptions = {},
): AsyncGenerator<OwnedBatch> {
  const delays = new ReferenceDelays(kernels, options);
  try {
    for await (const { batch, originNs } of batches) yield* delays.push(batch, originNs);
    yield* delays.finish();
  } finally {
    delays.free();
  }
}
