/**
 * Sources of each packet's delay, for estimators that need it: exact match with the sender's capture, reference packets in the stream, or a source that knows
 * it (a simulation, a kernel datapath). A batch goes in as captured and comes out, possibly later but in order, with its delay column filled.
 */
import type { Kernels } from "../base/kernels.ts";
import type { PacketBatch } from "../capture/batch.ts";
import type { LiveDelayCounts } from "./live-sender.ts";
import { type PacketTimeCounts, PacketTimes, type PacketTimesOptions } from "./packet-times.ts";
import {
  type OwnedBatch,
  type ReferenceDelayCounts,
  ReferenceDelays,
  type ReferenceDelaysOptions,
} from "./reference-delays.ts";
import { type DelayCounts, SenderDelays, type SenderDelaysOptions } from "./sender-delays.ts";

export type DelaySourceCounts =
  | ({ from: "sender" } & DelayCounts)
  | ({ from: "references" } & ReferenceDelayCounts)
  | ({ from: "packets" } & PacketTimeCounts)
  | ({ from: "live" } & LiveDelayCounts)
  | { from: "source" };

export interface DelaySource {
  /** Takes a batch, which may be reused once all output was read. Each output batch is valid until the next is requested. */
  push(batch: PacketBatch, originNs: bigint): AsyncIterable<OwnedBatch> | Iterable<OwnedBatch>;
  /** Every packet up to this time was pushed: batches that have waited too long come out with the delays known so far. */
  tick(nowNs: bigint): Iterable<OwnedBatch>;
  /** Ends the stream: all waiting batches come out. */
  finish(): Iterable<OwnedBatch>;
  /** Time of the oldest waiting packet; null if none waits. Epochs that end after it are not complete yet. */
  waitingSinceNs(): bigint | null;
  counts(): DelaySourceCounts;
  free(): void;
}

/** By exact match with the sender's captures. */
export function delaysFromSender(kernels: Kernels, options: SenderDelaysOptions): DelaySource {
  const delays = new SenderDelays(kernels, options);
  return {
    async *push(batch, originNs) {
      await delays.fill(batch, originNs);
      yield { batch, originNs };
    },
    tick: () => [],
    finish: () => [],
    waitingSinceNs: () => null,
    counts: () => ({ from: "sender", ...delays.counts() }),
    free: () => delays.free(),
  };
}

/** From timestamps that the packets contain. */
export function delaysFromPackets(kernels: Kernels, options: PacketTimesOptions): DelaySource {
  const times = new PacketTimes(kernels, options);
  return {
    push(batch, originNs) {
      times.fill(batch, originNs);
      return [{ batch, originNs }];
    },
    tick: () => [],
    finish: () => [],
    waitingSinceNs: () => null,
    counts: () => ({ from: "packets", ...times.counts() }),
    free: () => times.free(),
  };
}

/** The source fills the column itself. */
export function delaysFromSource(): DelaySource {
  return {
    push: (batch, originNs) => [{ batch, originNs }],
    tick: () => [],
    finish: () => [],
    waitingSinceNs: () => null,
    counts: () => ({ from: "source" }),
    free: () => {},
  };
}

/** A packet without a following reference for this long gets its delay from earlier ones. */
const LONGEST_WAIT_NS = 10_000_000_000n;

/** Interpolated between reference packets in the stream (RLI). */
export function delaysFromReferences(kernels: Kernels, options: ReferenceDelaysOptions = {}): DelaySource {
  const delays = new ReferenceDelays(kernels, options);
  /** Times of the waiting batches: batches come out in the order they went in. */
  const waiting: bigint[] = [];
  const give = function* (batches: Iterable<OwnedBatch>) {
    for (const batch of batches) {
      waiting.shift();
      yield batch;
    }
  };
  return {
    *push(batch, originNs) {
      if (batch.count === 0) return;
      waiting.push(originNs + BigInt(Math.floor(batch.timeNs[0] ?? 0)));
      yield* give(delays.push(batch, originNs));
    },
    *tick(nowNs) {
      const [oldest] = waiting;
      if (oldest !== undefined && nowNs - oldest > LONGEST_WAIT_NS) yield* give(delays.finish());
    },
    finish: () => give(delays.finish()),
    waitingSinceNs: () => waiting[0] ?? null,
    counts: () => ({ from: "references", ...delays.counts() }),
    free: () => delays.free(),
  };
}
