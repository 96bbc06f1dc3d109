/** The interface between cutters and the users of an epoch's rows. */
import type { PacketBatch } from "../capture/batch.ts";
import type { EpochBounds } from "./record.ts";

/** Calls of a cutter about the current batch; between `open` and `close` or `discard` are the rows of one epoch. */
export interface EpochSink {
  /** `salt`: Tap.begin. */
  open(start: { startNs: bigint; referenceNs: bigint; salt: bigint }): void;
  rows(from: number, to: number): void;
  /** Instead of rows, if packets were counted elsewhere: a summary of those in the open epoch. */
  seen?(packets: SeenPackets): void;
  /** Whether the data of the open epoch should not grow further: it should be closed soon. */
  isFull?(): boolean;
  close(bounds: EpochBounds): void;
  /** The epoch cannot be used. It may never have been opened here. */
  discard(bounds: EpochBounds, reason: string): void;
}

/** Times in ns since 1970; null without packets. */
export interface SeenPackets {
  shorts: number;
  firstNs: bigint | null;
  lastNs: bigint | null;
}

export interface Cutter {
  /** Observation begins, if that is known to be before the first row. */
  begin?(nowNs: bigint, sink: EpochSink): void;
  cut(batch: PacketBatch, originNs: bigint, sink: EpochSink): void;
  /** Every row up to this time has been cut: epochs that ended before it are complete, with or without rows. */
  tick?(nowNs: bigint, sink: EpochSink): void;
  /** Observation ends, at `nowNs` if that is known to be after the last row. */
  finish(sink: EpochSink, nowNs?: bigint): void;
}

/** Maximum number of idle epochs that are still sealed (empty) one by one; a longer gap is left out. */
export const LONGEST_GAP = 60n;
