/**
 * One pass over two captures: both are read in time order (pair-feed.ts) and fed to the exact matcher and the clock doctor.
 * What a pass cannot know beforehand (how much both captures see of a packet, how far their clocks are apart, which way the packets
 * go) is given by `PassPlan`; compare.ts runs another pass where the first one shows that the plan was wrong.
 */
import { UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import { formatCount } from "../base/quantity.ts";
import { formatDuration } from "../base/time.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { type CaptureOptions, type CaptureStatistics, DEFAULT_SEED } from "../capture/reader.ts";
import type { OutlierReport } from "../capture/timestamp-trust.ts";
import { ClockObserver } from "../clock/observer.ts";
import { ThinnedEnvelope } from "../clock/thinned-envelope.ts";
import type { TimestampReport } from "../clock/timestamp-quality.ts";
import { ExactMatcher } from "../match/matcher.ts";
import { PacketLog } from "../match/packet-log.ts";
import { DirectFeed, type FeedPlan, type PairFeed } from "../match/pair-feed.ts";
import type { FeedThread } from "../match/parallel-feed.ts";
import { correctionLine, type PassPlan, splitNs } from "./plan.ts";

/** Each interval that holds packets is told with its quantiles, about a kilobyte of memory. */
const MAX_INTERVALS = 250_000;
/** Intervals at least this long are never too many: 70 MB for a day. */
const LONG_EPOCH_NS = 1e9;

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
  trial?: { rows: number; stands(matcher: ExactMatcher, shorts: number): boolean } | undefined;
  onProgress?: (doneBytes: number, totalBytes: number | null, packets: number) => void;
  /** Note what became of every packet. */
  everyPacket?: boolean | undefined;
}

export interface PassResult {
  plan: PassPlan;
  matcher: ExactMatcher;
  before: CaptureStatistics;
  after: CaptureStatistics;
  observer: ClockObserver;
  quality: Record<"before" | "after", { report(): TimestampReport }>;
  /** Stamps that tell no time. */
  outliers: Record<"before" | "after", OutlierReport>;
  /** Start of the first interval, ns since 1970, and its place on the matcher's time axis. */
  epochStart: bigint;
  /** ns since 1970 of the matcher's time 0. */
  originNs: bigint;
  /** Both inputs can be read again. */
  rereadable: boolean;
  /** The pass ended at its limit, not at the captures' ends. */
  limited: boolean;
  /** What became of every packet, where that was asked for. */
  packets: PacketLog | null;
}

/** Null: the trial went against the plan. UsageError where intervals are so short that there would be too many. */
export async function runPass(
  kernels: Kernels,
  options: PassOptions,
  plan: PassPlan,
): Promise<PassResult | null> {
  const { leadNs, alignNs, extent } = plan;
  const whole = extent.kind === "whole";
  const feedPlan: FeedPlan = {
    before: options.before,
    after: options.after,
    capture: { ...options.capture, cover: plan.cover },
    alignNs,
    leadNs,
    windowNs: options.windowNs,
    limit: whole ? Number.POSITIVE_INFINITY : extent.rows,
    onBatch: options.onBatch,
  };
  const feed: PairFeed =
    options.thread && whole && !options.onBatch
      ? await options.thread.open(feedPlan, options.filterText)
      : await DirectFeed.open(kernels, feedPlan);
  const { originNs, startNs, shiftNs, rows, rereadable } = feed.head;
  const epochLength = BigInt(Math.round(options.epochNs));
  const epochStart = originNs - (originNs % epochLength);
  const line = correctionLine(plan.correction);
  const packets = options.everyPacket && whole ? new PacketLog() : null;
  const matcher = new ExactMatcher(kernels, {
    ...(packets ? { packets } : {}),
    windowNs: options.windowNs,
    epochNs: options.epochNs,
    epochStartNs: Number(epochStart - originNs),
    thresholdNs: splitNs(plan.ways),
    // Delays are reported as captured: what was removed to make packets meet is added back.
    correction: { ...line, offsetNs: line.offsetNs - alignNs },
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
      matcher.end(stride.side, stride.lastNs);
      continue;
    }
    const { side, batch, runs, from, to } = stride;
    matcher.takeRows(side, batch, runs, from, shiftNs[side]);
    for (const direction of [1, 2] as const) {
      const { sends, differences, count } = matcher.pairs(direction, alignNs);
      watch[direction - 1]!.take(sends, differences, count);
    }
    if ((ticks & 255) === 0) progress(options, feed);
    if ((ticks & 63) === 0 && tooMany(options, matcher)) break;
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
  if (tooMany(options, matcher)) {
    const refused = tooManyIntervals(options, matcher, feed);
    await feed.cancel();
    for (const envelope of watch) envelope.finish();
    matcher.free();
    throw refused;
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
    outliers: { before: tail.outliers[0], after: tail.outliers[1] },
    quality: { before: { report: () => tail.quality[0] }, after: { report: () => tail.quality[1] } },
    epochStart,
    originNs,
    rereadable,
    limited: tail.limited,
    packets,
  };
}

function tooMany({ epochNs }: PassOptions, matcher: ExactMatcher): boolean {
  return epochNs < LONG_EPOCH_NS && matcher.intervalCount > MAX_INTERVALS;
}

/** Names a length that is enough, as far as what was read tells. */
function tooManyIntervals({ epochNs }: PassOptions, matcher: ExactMatcher, feed: PairFeed): UsageError {
  const { doneBytes } = feed.progress();
  const { totalBytes } = feed.head;
  const rest = totalBytes !== null && doneBytes > 0 ? Math.max(1, totalBytes / doneBytes) : 1;
  const times = (matcher.intervalCount * rest) / MAX_INTERVALS;
  const enoughNs = Math.min(LONG_EPOCH_NS, epochNs * 10 ** Math.ceil(Math.log10(times)));
  return new UsageError(
    "bad-parameter",
    `intervals of ${formatDuration(epochNs)} are too short for these captures: more than ${formatCount(MAX_INTERVALS)} of them hold packets`,
    `use ${formatDuration(enoughNs)} or longer, or cut the captures to the time of interest (editcap -A and -B)`,
    { parameter: "epoch", value: epochNs },
  );
}

function progress(options: PassOptions, feed: PairFeed): void {
  if (!options.onProgress) return;
  const { doneBytes, packets } = feed.progress();
  options.onProgress(doneBytes, feed.head.totalBytes, packets);
}
