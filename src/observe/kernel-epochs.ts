/**
 * Seals epochs of sketches kept in the kernel (src/capture/ebpf/kernel-sketch.ts) and keeps their counts. The cutters (kernel-cutter.ts,
 * kernel-delimited-cutter.ts) decide when.
 */
import type { KernelPart } from "../capture/ebpf/kernel-plan.ts";
import type { KernelSketch, SetCounts } from "../capture/ebpf/kernel-sketch.ts";
import type { CaptureTotals } from "../capture/source/source.ts";
import type { EpochSink } from "../epoch/epoch-sink.ts";
import type { EpochBounds } from "../epoch/record.ts";
import type { Tap } from "../estimators/estimator.ts";

/** Time after the end of an epoch until no program is still processing one of its packets. */
export const GRACE_NS = 10_000_000n;

export class KernelEpochs {
  readonly sketch: KernelSketch;
  /** Assigns the flows' places in a set, for the epoch with this salt. */
  readonly place: (set: number, salt: bigint) => void;
  #sealing: number | null = null;
  #skipped: Record<string, number> = {};
  #frames = 0;
  #filtered = 0;
  /** Totals over all sets read. */
  readonly sums = { packets: 0, bytes: 0, merged: 0, lost: 0, missedDelimiters: 0 };
  firstNs: bigint | null = null;
  lastNs: bigint | null = null;

  constructor(sketch: KernelSketch, place: (set: number, salt: bigint) => void) {
    this.sketch = sketch;
    this.place = place;
  }

  get filtered(): number {
    return this.#filtered;
  }

  totals(): CaptureTotals {
    this.sums.lost += this.sketch.takeLost();
    const skipped = { ...this.#skipped, ...(this.#filtered > 0 ? { filtered: this.#filtered } : {}) };
    return { frames: this.#frames, skipped, dropped: this.sums.lost };
  }

  /** Wraps a tap so that it is sealed with what the kernel kept for `part`. */
  tap(inner: Tap, part: KernelPart): Tap {
    return {
      memoryBytes: inner.memoryBytes,
      begin: (...args) => inner.begin(...args),
      update: () => {
        throw new Error("packets are folded in by the kernel");
      },
      seal: () => {
        if (this.#sealing !== null) inner.take?.(this.sketch.kept(this.#sealing, part));
        return inner.seal();
      },
      free: () => inner.free(),
    };
  }

  /** Seals the open epoch from a set, and clears the set. Null: the epoch had no packets. */
  close(set: number | null, bounds: EpochBounds, sink: EpochSink): void {
    if (set !== null) {
      const counts = this.sketch.counts(set);
      this.#add(counts);
      sink.seen?.(counts);
    }
    this.#sealing = set;
    sink.close(bounds);
    this.#sealing = null;
    if (set !== null) this.sketch.clear(set);
  }

  #add(counts: SetCounts): void {
    for (const [reason, n] of Object.entries(counts.skipped))
      this.#skipped[reason] = (this.#skipped[reason] ?? 0) + n;
    this.#frames += counts.frames;
    this.#filtered += counts.filtered;
    for (const name of ["packets", "bytes", "merged", "missedDelimiters"] as const)
      this.sums[name] += counts[name];
    this.firstNs ??= counts.firstNs;
    this.lastNs = counts.lastNs ?? this.lastNs;
  }
}
