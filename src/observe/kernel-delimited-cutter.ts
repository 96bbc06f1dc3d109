/**
 * Cuts delimited epochs of sketches kept in the kernel. When the program meets a delimiter, it switches to the next set from that packet on. User
 * space reads the completed sets, and makes the cuts that src/epoch/delimited-cutter.ts makes by the clock: idle links and old epochs. Several sets
 * lie ahead. If delimiters come faster than sets are read, one is skipped, and pairing treats it as lost.
 */
import { earlier, later } from "../base/time.ts";
import { clockId, DELIMITED_GRID_NS as GRID_NS, OLD_STEPS } from "../epoch/delimited-cutter.ts";
import { type Cutter, type EpochSink, LONGEST_GAP } from "../epoch/epoch-sink.ts";
import { floorTo } from "../epoch/instant.ts";
import { GRACE_NS, type KernelEpochs } from "./kernel-epochs.ts";

interface OpenEpoch {
  startNs: bigint;
  referenceNs: bigint;
  startId: bigint;
  cutHead: boolean;
}

export class KernelDelimitedCutter implements Cutter {
  readonly #epochs: KernelEpochs;
  /** Number of the epoch to read next, as counted by the kernel. */
  #number = 0n;
  #open: OpenEpoch | null = null;
  /** Time of a cut by the clock after which no packet has come; the next packet opens an epoch there. */
  #cutNs: bigint | null = null;
  #lastNs: bigint | null = null;

  constructor(epochs: KernelEpochs) {
    this.#epochs = epochs;
  }

  begin(): void {
    // Any two neighbours may have to be merged, so all have the same salt.
    for (let set = 0; set < this.#sets; set++) this.#epochs.place(set, 0n);
  }

  cut(): void {
    throw new Error("the kernel cuts");
  }

  tick(nowNs: bigint, sink: EpochSink): void {
    const { sketch } = this.#epochs;
    // Open epochs stay on the old clock; later ones are on the new clock.
    sketch.clockWasSet();
    for (;;) {
      this.#resume(sink);
      if (this.#number >= sketch.epoch) break;
      const next = sketch.opening(Number((this.#number + 1n) % BigInt(this.#sets)));
      if (next.startNs + GRACE_NS > nowNs) return;
      this.#passTo(next, sink);
    }
    this.#cutUntil(nowNs, sink);
    sketch.cutAt(this.#dueNs());
  }

  finish(sink: EpochSink, nowNs?: bigint): void {
    // Nothing is attached any more, so no packet is in flight.
    if (nowNs !== undefined) this.tick(nowNs + GRACE_NS, sink);
    this.#resume(sink);
    if (this.#open) this.#close(this.#set, this.#lastNs ?? this.#open.startNs, 0n, true, sink);
    this.#open = null;
    this.#cutNs = null;
  }

  get #sets(): number {
    return this.#epochs.sketch.plan.sets;
  }

  get #set(): number {
    return Number(this.#number % BigInt(this.#sets));
  }

  /** Handles the kernel's switch to the next epoch: by a packet with this digest, or by the clock (id 0). */
  #passTo({ startNs, id }: { startNs: bigint; id: bigint }, sink: EpochSink): void {
    if (!this.#open) this.#begin(startNs, 0n, true, sink);
    this.#close(this.#set, startNs, id === 0n ? clockId(startNs) : id, false, sink);
    this.#advance();
    if (id === 0n) this.#cutNs = startNs;
    else this.#begin(startNs, id, false, sink);
  }

  #advance(): void {
    this.#open = null;
    this.#number++;
    this.#epochs.sketch.drainedUntil(this.#number);
  }

  /** Opens an epoch if packets have come and none is open. */
  #resume(sink: EpochSink): void {
    const { firstNs, lastNs } = this.#epochs.sketch.counts(this.#set);
    if (firstNs === null || lastNs === null) return;
    if (!this.#open) {
      const cutNs = this.#cutNs;
      const freshNs = floorTo(firstNs, GRID_NS);
      if (cutNs === null) this.#begin(firstNs, 0n, true, sink);
      else {
        if (freshNs > cutNs) {
          this.#begin(cutNs, clockId(cutNs), false, sink);
          this.#close(null, freshNs, clockId(freshNs), false, sink);
        }
        const startNs = later(freshNs, cutNs);
        this.#begin(startNs, clockId(startNs), false, sink);
      }
    }
    this.#lastNs = lastNs;
  }

  /** When the clock cuts: after a whole grid step without packets, or when the epoch is too old. */
  #dueNs(): bigint | null {
    if (!this.#open || this.#lastNs === null) return null;
    const idleNs = floorTo(this.#lastNs, GRID_NS) + 2n * GRID_NS;
    const oldNs = floorTo(this.#open.startNs, GRID_NS) + OLD_STEPS * GRID_NS;
    return earlier(idleNs, oldNs);
  }

  #cutUntil(nowNs: bigint, sink: EpochSink): void {
    const due = this.#dueNs();
    if (due !== null && due + GRACE_NS <= nowNs && this.#epochs.sketch.cutNow(this.#number)) {
      this.#close(this.#set, due, clockId(due), false, sink);
      this.#advance();
      this.#cutNs = due;
    }
    if (this.#open || this.#cutNs === null || this.#lastNs === null) return;
    const idleNs = floorTo(this.#lastNs, GRID_NS) + 2n * GRID_NS;
    const endNs = idleNs + LONGEST_GAP * GRID_NS;
    for (;;) {
      const cutNs: bigint = this.#cutNs;
      const nextNs = later(idleNs, cutNs + GRID_NS);
      if (cutNs >= endNs || nextNs + GRACE_NS > nowNs) return;
      this.#begin(cutNs, clockId(cutNs), false, sink);
      this.#close(null, nextNs, clockId(nextNs), false, sink);
      this.#open = null;
      this.#cutNs = nextNs;
    }
  }

  #begin(startNs: bigint, startId: bigint, cutHead: boolean, sink: EpochSink): void {
    const referenceNs = floorTo(startNs, GRID_NS);
    this.#open = { startNs, referenceNs, startId, cutHead };
    this.#cutNs = null;
    sink.open({ startNs, referenceNs, salt: 0n });
  }

  #close(set: number | null, endNs: bigint, endId: bigint, cutTail: boolean, sink: EpochSink): void {
    const open = this.#open;
    if (!open) throw new Error("no epoch is open");
    // Times count from the base the program used: the grid step of the first packet.
    const baseNs = set === null ? null : this.#epochs.sketch.baseOf(set);
    const bounds = { ...open, referenceNs: baseNs ?? open.referenceNs, endNs: later(endNs, open.startNs) };
    this.#epochs.close(set, { mode: "delimited", ...bounds, endId, cutTail }, sink);
  }
}
