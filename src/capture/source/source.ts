/**
 * Where a point's packets come from: files, standard input, growing or rotating files, a simulation, an interface, or eBPF. A source is created with everything
 * it needs, including the AbortSignal that ends it, and does nothing before the first `next`.
 */
import { checkMethods } from "../../base/checks.ts";
import { UsageError } from "../../base/errors.ts";
import type { Kernels } from "../../base/kernels.ts";
import type { PacketBatch } from "../batch.ts";
import type { CaptureStatistics } from "../reader.ts";
import type { ClockState } from "./clock-state.ts";

export interface SourceBatch {
  /** At least one row. The caller may key and filter it until the next batch is asked for. */
  batch: PacketBatch;
  /** ns since 1970 at time 0 of the batch. */
  originNs: bigint;
}

/** What a source has counted so far, apart from its rows. */
export interface CaptureTotals {
  frames: number;
  /** Frames not used, by reason. */
  skipped: Readonly<Record<string, number>>;
  /** Packets that the capturing side reports as dropped; null if it does not report any. */
  dropped: number | null;
}

export interface Source {
  /** Name for messages. */
  readonly name: string;
  /** Packets are returned as they are captured: `nowNs` advances even while none come. */
  readonly live: boolean;
  /** The batches' delay column is filled. */
  readonly knowsDelays?: boolean;
  /** Returns the next batch; null at the end, or soon after the signal has aborted. One call at a time. */
  next(): Promise<SourceBatch | null>;
  /** Returns the next batch if it is available right away; null if `next` must be awaited. Saves time at thousands of batches per second. */
  ready?(): SourceBatch | null;
  /** Every packet up to this time has been returned, as far as a clock shows; null if only packets show the time. */
  nowNs(): bigint | null;
  /** Time from which on the source captures, whether packets come or not. Null or undefined: not known before its first packet. */
  beganNs?(): bigint | null;
  /** Current state of the clock that timestamps packets; null or undefined if unknown. */
  clock?(): ClockState | null;
  /** Returns the counts up to and including the last batch. Computed on each call, so call it once per epoch, not per batch. */
  totals(): CaptureTotals;
  /** Returns the statistics of every capture read so far, including the current one. */
  statistics(): CaptureStatistics[];
  /** Returns the bytes read, and the size of the current file if known. */
  progress(): { doneBytes: number; totalBytes: number | null };
  /** Closes the source and frees its kernel memory. The counts stay available. */
  close(): void;
}

/** Checks that an object has the methods of a source, for callers without TypeScript. */
export function checkIsSource(parameter: string, source: unknown): void {
  checkMethods(parameter, source, ["next", "nowNs", "totals", "statistics", "progress", "close"]);
}

/** Checks that a batch belongs to these kernels: its addresses would be wrong in another memory. */
export function checkMemory(parameter: string, batch: PacketBatch, kernels: Kernels): void {
  if (batch.kernels !== kernels)
    throw new UsageError("bad-option", "its batches are of other kernels", "make it with the same Kernels", {
      parameter,
    });
}

/** Returns a source that handles batches on their way; everything else is delegated to the inner source. */
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
/** Limit of summed counters, so that they stay exact integers: a file may claim any number of drops. */
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
