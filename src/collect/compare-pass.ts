/**
 * One pass over two captures: both are read in time order (pair-feed.ts) and fed to the exact matcher and the clock doctor.
 * What a pass cannot know beforehand (how much both captures see of a packet, how far their clocks are apart, which way the packets
 * go) is given by `PassPlan`; compare.ts runs another pass where the first one shows that the plan was wrong.
 */
import type { Kernels } from "../base/kernels.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { type CaptureOptions, type CaptureStatistics, DEFAULT_SEED } from "../capture/reader.ts";
import { ClockObserver } from "../clock/observer.ts";
import { ThinnedEnvelope } from "../clock/thinned-envelope.ts";
import type { TimestampReport } from "../clock/timestamp-quality.ts";
import { ExactMatcher } from "../estimators/exact/matcher.ts";
import { DirectFeed, type FeedPlan, type PairFeed } from "./pair-feed.ts";
import type { FeedThread } from "./parallel-feed.ts";

export interface PassPlan {
  /** Digest coverage that both captures can see. */
  cover: number;
  /** AFTER's clock minus BEFORE's as far as it must be removed for packets to meet in the window; added back to the delays. */
  alignNs: number;
  /** Flows whose first difference is at least this go from BEFORE to AFTER. */
  thresholdNs: number;
  correction: { offsetNs: number; slope: number; pivotNs: number };
  /** How far BEFORE is read ahead of AFTER at most: long enough for what clocks behind BEFORE's show, short enough for the cache. */
  leadNs: number;
  /** Stop after so many packets of each capture (a look ahead); Infinity for all. */
  limit: number;
}

export interface PassOptions {
  before: string;
  after: string;
  windowNs: number;
  epochNs: number;
  capture: Omit<CaptureOptions, "cover">;
  /** The text that the capture's filter was made from, for other threads. */
  filterText?: string | undefined;
  /** Reads the captures, where one is given; not with `onBatch`, and not for a look ahead. */
  thread?: FeedThread | null;
  /** Watches every batch of either side (estimators' taps beside the exact match). */
  onBatch?: (side: 0 | 1, batch: PacketBatch, originNs: bigint) => void;
  /** Judges the plan after so many rows of both sides: where it does not stand, the pass ends there. */
  trial?: { rows: number; stands: (matcher: ExactMatcher, shorts: number) => boolean } | undefined;
  onProgress?: (doneBytes: number, totalBytes: number | null, packets: number) => void;
}

export interface PassResult {
  plan: PassPlan;
  matcher: ExactMatcher;
  before: CaptureStatistics;
  after: CaptureStatistics;
  observer: ClockObserver;
  quality: Record<"before" | "after", { report(): TimestampReport }>;
  /** Start of the first interval, ns since 1970, and its place on the matcher's time axis. */
  epochStart: bigint;
  /** ns since 1970 of the matcher's time 0. */
  originNs: bigint;
  /** Both inputs can be read again. */
  rereadable: boolean;
  /** The pass ended at its limit, not at the captures' ends. */
  limited: boolean;
}

/** Null: the trial went against the plan. */
export async function runPass(
  kernels: Kernels,
  options: PassOptions,
  plan: PassPlan,
): Promise<PassResult | null> {
  const { leadNs, alignNs, limit } = plan;
  const feedPlan: FeedPlan = {
    before: options.before,
    after: options.after,
    capture: { ...options.capture, cover: plan.cover },
    alignNs,
    leadNs,
    limit,
    onBatch: options.onBatch,
  };
  const whole = limit === Number.POSITIVE_INFINITY;
  const feed: PairFeed =
    options.thread && whole && !options.onBatch
      ? await options.thread.open(feedPlan, options.filterText)
      : await DirectFeed.open(kernels, feedPlan);
  const { originNs, startNs, shiftNs, rows, rereadable } = feed.head;
  const epochLength = BigInt(Math.round(options.epochNs));
  const epochStart = originNs - (originNs % epochLength);
  const matcher = new ExactMatcher(kernels, {
    windowNs: options.windowNs,
    epochNs: options.epochNs,
    epochStartNs: Number(epochStart - originNs),
    thresholdNs: plan.thresholdNs,
    // Delays are reported as stamped: what was removed to make packets meet is added back.
    correction: { ...plan.correction, offsetNs: plan.correction.offsetNs - alignNs },
    startNs,
    slackNs: leadNs,
    rows,
    seed: options.capture.seed ?? DEFAULT_SEED,
  });
  const observer = new ClockObserver();
  const watch = [
    new ThinnedEnvelope(kernels, observer.forward, 1, rows),
    new ThinnedEnvelope(kernels, observer.reverse, -1, rows),
  ] as const;
  const shorts = [0, 0];
  let taken = 0;
  let { trial } = options;
  for (let ticks = 1; ; ticks++) {
    const next = feed.next();
    const stride = next instanceof Promise ? await next : next;
    if (stride === null) break;
    if (stride.kind === "end") {
      matcher.end(stride.side);
      continue;
    }
    const { side, batch, runs, from, to } = stride;
    matcher.takeRows(side, batch, runs, from, shiftNs[side]);
    for (const direction of [1, 2] as const) {
      const { sends, differences, count } = matcher.pairs(direction, alignNs);
      watch[direction - 1]!.take(sends, differences, count);
    }
    if ((ticks & 255) === 0) progress(options, feed);
    if (!trial) continue;
    shorts[side] = stride.shorts;
    taken += to - from;
    if (taken < trial.rows) continue;
    if (!trial.stands(matcher, shorts[0]! + shorts[1]!)) {
      await feed.cancel();
      for (const envelope of watch) envelope.finish();
      matcher.free();
      return null;
    }
    trial = undefined;
  }
  matcher.finish();
  for (const envelope of watch) envelope.finish();
  progress(options, feed);
  const tail = await feed.finish();
  return {
    plan,
    matcher,
    before: tail.statistics[0],
    after: tail.statistics[1],
    observer,
    quality: { before: { report: () => tail.quality[0] }, after: { report: () => tail.quality[1] } },
    epochStart,
    originNs,
    rereadable,
    limited: tail.limited,
  };
}

function progress(options: PassOptions, feed: PairFeed): void {
  if (!options.onProgress) return;
  const { doneBytes, packets } = feed.progress();
  options.onProgress(doneBytes, feed.head.totalBytes, packets);
}
