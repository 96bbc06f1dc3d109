/** What cutters and those who keep the rows of an epoch say to each other. */
import type { PacketBatch } from "../capture/batch.ts";
import type { EpochBounds } from "./record.ts";

/** What a cutter says about the batch at hand; between `open` and `close` or `discard` lie the rows of one epoch. */
export interface EpochSink {
  /** `salt`: Tap.begin. */
  open(start: { startNs: bigint; referenceNs: bigint; salt: bigint }): void;
  rows(from: number, to: number): void;
  /** Instead of rows, where packets were folded in elsewhere: what is known of those of the open epoch. */
  seen?(packets: SeenPackets): void;
  /** What is kept of the open epoch should not grow: it is to be closed soon. */
  isFull?(): boolean;
  close(bounds: EpochBounds): void;
  /** The epoch cannot be used. It may never have been opened here. */
  discard(bounds: EpochBounds, reason: string): void;
}

/** Times in ns since 1970; null where there was no packet. */
export interface SeenPackets {
  shorts: number;
  firstNs: bigint | null;
  lastNs: bigint | null;
}

export interface Cutter {
  /** Observation begins, where that is known to be before the first row. */
  begin?(nowNs: bigint, sink: EpochSink): void;
  cut(batch: PacketBatch, originNs: bigint, sink: EpochSink): void;
  /** Every row up to this time has been cut: epochs that ended before it are over, rows or none. */
  tick?(nowNs: bigint, sink: EpochSink): void;
  /** Observation ends, at `nowNs` where that is known to be after the last row. */
  finish(sink: EpochSink, nowNs?: bigint): void;
}

/** Idle epochs that are still sealed (empty) one by one; beyond, the gap is left out. */
export const LONGEST_GAP = 60n;
