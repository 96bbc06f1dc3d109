/**
 * Cuts aligned epochs of sketches kept in the kernel. Each set is given a time window in advance, so a packet is counted in the right epoch to the
 * nanosecond, whenever user space looks. After its window a set is read and given the next free window. If user space is so late that packets found
 * no set, they count as dropped, and the following epoch is marked as cut at its start. Epochs without a window are left out: they were not
 * observed.
 */
import { invalidValue } from "../base/errors.ts";
import { FULL_PARTS } from "../epoch/cutter.ts";
import type { Cutter, EpochSink } from "../epoch/epoch-sink.ts";
import { floorTo } from "../epoch/instant.ts";
import { GRACE_NS, type KernelEpochs } from "./kernel-epochs.ts";

interface Armed {
  set: number;
  startNs: bigint;
  endNs: bigint;
  /** Packets before the window were not seen. */
  cutHead: boolean;
}

/** A clock this far before the epoch was set back. */
const BACK_NS = 500_000_000n;
/** Windows are changed at least this long before the change takes effect. */
const AHEAD_NS = 20_000_000n;

export class KernelCutter implements Cutter {
  readonly #epochs: KernelEpochs;
  readonly #lengthNs: bigint;
  readonly #fullAt: number;
  /** In order of time. The first is the open epoch. */
  #armed: Armed[] = [];

  /** `fullAt`: number of packets in one counter at which an epoch should end early. */
  constructor(epochs: KernelEpochs, lengthNs: bigint, fullAt: number) {
    if (lengthNs <= 0n) throw invalidValue("epoch", `${lengthNs} ns`, "a length above 0");
    this.#epochs = epochs;
    this.#lengthNs = lengthNs;
    this.#fullAt = fullAt;
  }

  /** When the open epoch can be sealed; null if none is open. */
  get dueNs(): bigint | null {
    const [first] = this.#armed;
    return first ? first.endNs + GRACE_NS : null;
  }

  begin(nowNs: bigint, sink: EpochSink): void {
    this.#arm(0, floorTo(nowNs, this.#lengthNs), true);
    for (let set = 1; set < this.#sets; set++) this.#armNext(set, nowNs);
    this.#open(sink);
  }

  cut(): void {
    throw new Error("the kernel cuts");
  }

  tick(nowNs: bigint, sink: EpochSink): void {
    const [first] = this.#armed;
    if (!first) return;
    if (this.#epochs.sketch.clockWasSet() || nowNs + BACK_NS < first.startNs) {
      this.#restart(nowNs, sink);
      return;
    }
    for (let due = this.dueNs; due !== null && due <= nowNs; due = this.dueNs) {
      const set = this.#close(false, sink);
      this.#armNext(set, nowNs);
      this.#open(sink);
    }
    this.#endSoon(nowNs);
  }

  finish(sink: EpochSink, nowNs?: bigint): void {
    while (this.#armed.length > 0) {
      const [first, second] = this.#armed as [Armed, Armed | undefined];
      const over = nowNs !== undefined && first.endNs <= nowNs;
      const more = second !== undefined && over && this.#epochs.sketch.counts(second.set).frames > 0;
      this.#close(!over, sink);
      if (!more) break;
      this.#open(sink);
    }
    this.#armed = [];
  }

  get #sets(): number {
    return this.#epochs.sketch.plan.sets;
  }

  /** The clock was set: closes the open epochs and starts over. */
  #restart(nowNs: bigint, sink: EpochSink): void {
    for (const { set } of this.#armed) this.#epochs.sketch.setWindow(set, null);
    this.#closeAll(sink);
    this.begin(nowNs, sink);
  }

  /** Closes the open epoch, and the following ones that already have packets. */
  #closeAll(sink: EpochSink): void {
    const { sketch } = this.#epochs;
    while (this.#armed.length > 0) {
      const more = this.#armed.slice(1).some(({ set }) => sketch.counts(set).frames > 0);
      this.#close(!more, sink);
      if (!more) break;
      this.#open(sink);
    }
    this.#armed = [];
  }

  #armNext(set: number, nowNs: bigint): void {
    const last = this.#armed.at(-1);
    const nextNs = last?.endNs ?? 0n;
    // Too late for the next window: packets are already lost, and this epoch's first ones too.
    const late = nextNs <= nowNs;
    this.#arm(set, late ? floorTo(nowNs, this.#lengthNs) : nextNs, late);
  }

  #arm(set: number, startNs: bigint, cutHead: boolean): void {
    const endNs = floorTo(startNs, this.#lengthNs) + this.#lengthNs;
    this.#epochs.place(set, this.#saltOf(startNs));
    this.#epochs.sketch.setWindow(set, { startNs, endNs, baseNs: startNs });
    this.#armed.push({ set, startNs, endNs, cutHead });
  }

  /** The epoch's salt. Parts of one epoch may have to be merged, so they share it. */
  #saltOf(startNs: bigint): bigint {
    return floorTo(startNs, this.#lengthNs);
  }

  #open(sink: EpochSink): void {
    const [first] = this.#armed;
    if (!first) return;
    const { startNs } = first;
    sink.open({ startNs, referenceNs: startNs, salt: this.#saltOf(startNs) });
  }

  #close(cutTail: boolean, sink: EpochSink): number {
    const first = this.#armed.shift();
    if (!first) throw new Error("no epoch is open");
    const { set, startNs, endNs, cutHead } = first;
    this.#epochs.sketch.setWindow(set, null);
    const bounds = { startNs, endNs, referenceNs: startNs, startId: 0n, endId: 0n, cutHead, cutTail };
    this.#epochs.close(set, { mode: "aligned", ...bounds }, sink);
    return set;
  }

  /**
   * Ends the open epoch early if a counter is nearly full: at the next sixteenth of the epoch's length. The rest of its time becomes another epoch.
   */
  #endSoon(nowNs: bigint): void {
    const [first, ...later] = this.#armed;
    const part = this.#lengthNs / FULL_PARTS;
    if (!first || part === 0n || this.#fullAt === Number.POSITIVE_INFINITY) return;
    if (this.#epochs.sketch.counts(first.set).fullest < this.#fullAt) return;
    const within = nowNs + AHEAD_NS - floorTo(nowNs, this.#lengthNs);
    const soon = floorTo(nowNs, this.#lengthNs) + floorTo(within, part) + part;
    if (soon >= first.endNs || soon <= first.startNs) return;
    const { sketch } = this.#epochs;
    for (const { set } of later) sketch.setWindow(set, null);
    this.#armed = [{ ...first, endNs: soon }];
    for (const { set } of later) this.#armNext(set, nowNs);
    sketch.setWindow(first.set, { ...first, endNs: soon, baseNs: first.startNs });
  }
}
