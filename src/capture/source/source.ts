/**
 * Where a point's packets come from: files, standard input, files that grow or follow each other, a simulation; later an interface or the kernel.
 * A source is made with everything it needs, the AbortSignal that ends it included, and does nothing before the first `next`.
 */
import { checkMethods } from "../../base/checks.ts";
import { UsageError } from "../../base/errors.ts";
import type { Kernels } from "../../base/kernels.ts";
import type { PacketBatch } from "../batch.ts";
import type { CaptureStatistics } from "../reader.ts";
import type { ClockState } from "./clock-state.ts";

export interface SourceBatch {
  /** At least one row; the caller's to key and filter until the next batch is asked for. */
  batch: PacketBatch;
  /** ns since 1970 of the batch's time 0. */
  originNs: bigint;
}

/** What a source has counted so far, beside its rows. */
export interface CaptureTotals {
  frames: number;
  /** Frames not used, by reason. */
  skipped: Readonly<Record<string, number>>;
  /** Packets that the capturing side says it dropped; null where it does not say. */
  dropped: number | null;
}

export interface Source {
  /** For messages. */
  readonly name: string;
  /** Packets come as they are captured: time moves, by `nowNs`, while none come. */
  readonly live: boolean;
  /** The batches' delay column is filled. */
  readonly knowsDelays?: boolean;
  /** The next batch; null at the end, or soon after the signal has aborted. One call at a time. */
  next(): Promise<SourceBatch | null>;
  /** The next batch where it is at hand; null where `next` has to be waited for. Thousands of batches per second are worth the shorter way. */
  ready?(): SourceBatch | null;
  /** Every packet up to this time has been handed out, as far as a clock shows; null where only packets show the time. */
  nowNs(): bigint | null;
  /** It captures from then on, whether packets come or not; null or left out: from its first packet on, as far as anybody knows. */
  beganNs?(): bigint | null;
  /** The state of the clock that packets are timestamped by now; null or left out where nobody knows. */
  clock?(): ClockState | null;
  /** What was counted up to and with the last batch. Made when asked for: once per epoch, not per batch. */
  totals(): CaptureTotals;
  /** Of every capture read so far, the one at hand included. */
  statistics(): CaptureStatistics[];
  /** Bytes read, and how many there are of the file at hand where that is known. */
  progress(): { doneBytes: number; totalBytes: number | null };
  /** Ends it, and gives its kernel memory back. The counts stay. */
  close(): void;
}

/** What every source has, for callers without a compiler. */
export function checkIsSource(parameter: string, source: unknown): void {
  checkMethods(parameter, source, ["next", "nowNs", "totals", "statistics", "progress", "close"]);
}

/** Addresses of another memory would be read in this one. */
export function checkMemory(parameter: string, batch: PacketBatch, kernels: Kernels): void {
  if (batch.kernels !== kernels)
    throw new UsageError("bad-option", "its batches are of other kernels", "make it with the same Kernels", {
      parameter,
    });
}

/** A source whose batches are looked at on their way: all else is the inner one's. */
export function derivedSource(source: Source, own: Pick<Source, "next" | "close">): Source {
  return {
    name: source.name,
    live: source.live,
    ...(source.knowsDelays === undefined ? {} : { knowsDelays: source.knowsDelays }),
    nowNs: () => source.nowNs(),
    ...(source.beganNs ? { beganNs: () => source.beganNs?.() ?? null } : {}),
    ...(source.clock ? { clock: () => source.clock?.() ?? null } : {}),
    totals: () => source.totals(),
    statistics: () => source.statistics(),
    progress: () => source.progress(),
    ...own,
  };
}

export const NO_TOTALS: CaptureTotals = { frames: 0, skipped: {}, dropped: null };
/** Sums of counters stay exact whole numbers: a file may claim any number of drops. */
const MOST = Number.MAX_SAFE_INTEGER - 1;

export function addTotals(a: CaptureTotals, b: CaptureTotals): CaptureTotals {
  const skipped: Record<string, number> = { ...a.skipped };
  for (const [reason, n] of Object.entries(b.skipped)) skipped[reason] = (skipped[reason] ?? 0) + n;
  const known = a.dropped !== null || b.dropped !== null;
  return {
    frames: a.frames + b.frames,
    skipped,
    dropped: known ? Math.min(MOST, (a.dropped ?? 0) + (b.dropped ?? 0)) : null,
  };
}
