/**
 * One pass over two captures: both are read in time order (pair-feed.ts) and fed to the exact matcher and the clock diagnosis. `PassPlan` supplies what a pass
 * cannot know beforehand (how many bytes of each packet both captures contain, the clock offset, which way packets go); compare.ts runs another pass if the
 * first one shows that the plan was wrong.
 */
import { UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import { formatCount } from "../base/quantity.ts";
import { formatDuration } from "../base/time.ts";
import { type CaptureOptions, type CaptureStatistics, DEFAULT_SEED } from "../capture/reader.ts";
import type { OutlierReport } from "../capture/timestamp-trust.ts";
import { ClockObserver } from "../clock/observer.ts";
import { ThinnedEnvelope } from "../clock/thinned-envelope.ts";
import type { TimestampReport } from "../clock/timestamp-quality.ts";
import type { MatchedPairs } from "../match/match-types.ts";
import { ExactMatcher } from "../match/matcher.ts";
import { PacketLog } from "../match/packet-log.ts";
import { DirectFeed, denseLeadNs, type FeedHead, type FeedPlan, type PairFeed } from "../match/pair-feed.ts";
import type { FeedThread } from "../match/parallel-feed.ts";
import { DEFAULT_EPOCH_NS, epochFor } from "./epoch-length.ts";
import { alignedOpening } from "./opening.ts";
import { correctionLine, LOOK_AHEAD, type PassPlan, splitNs } from "./plan.ts";
import { maybeBothWays, WayEvidence } from "./ways.ts";

/** Each interval with packets is reported with its quantiles, about one kilobyte of memory each. */
const MAX_INTERVALS = 250_000;
/** Intervals at least this long are never too many: 70 MB for a day. */
const LONG_EPOCH_NS = 1e9;
/** Rows of both captures after which the trial judges a plan. */
const TRIAL_ROWS = 2 * LOOK_AHEAD;

/** If this share of the pairs is of repeated packets, clocks and directions are judged by them, too. */
const LATE_SHARE = 0.3;

export interface PassOptions {
  before: string;
  after: string;
  windowNs: number;
  /** Length of intervals; "by-length": chosen from the length of the first capture. */
  epochNs: number | "by-length";
  capture: Omit<CaptureOptions, "cover">;
  /** Source text of the capture's filter, for other threads. */
  filterText?: string | undefined;
  /** Thread that reads the captures, if any; not used for a look ahead. */
  thread?: FeedThread | null;
  /** Judges the plan after the first rows of both captures: if it does not hold, the pass ends there. */
  trial?: { stands(matcher: ExactMatcher, shorts: number): boolean } | undefined;
  onProgress?: (doneBytes: number, totalBytes: number | null, packets: number) => void;
  /** Record the outcome of every packet. */
  everyPacket?: boolean | undefined;
}

export interface PassResult {
  plan: PassPlan;
  matcher: ExactMatcher;
  before: CaptureStatistics;
  after: CaptureStatistics;
  observer: ClockObserver;
  /** Evidence of the flows' directions; null if it was not gathered. */
  ways: WayEvidence | null;
  quality: Record<"before" | "after", { report(): TimestampReport }>;
  /** Timestamps far off the others. */
  outliers: Record<"before" | "after", OutlierReport>;
  epochNs: number;
  /** Start of the first interval, ns since 1970, and its place on the matcher's time axis. */
  epochStart: bigint;
  /** ns since 1970 of the matcher's time 0. */
  originNs: bigint;
  /** Both inputs can be read again. */
  rereadable: boolean;
  /** The pass ended at its limit, not at the captures' ends. */
  limited: boolean;
  /** Outcome of every packet, if requested. */
  packets: PacketLog | null;
}

/** What a pass gathers from the feed. */
interface Gathered {
  matcher: ExactMatcher;
  observer: ClockObserver;
  envelopes: readonly [ThinnedEnvelope, ThinnedEnvelope];
  /** Null: the trial has shown that nothing goes both ways. */
  ways: WayEvidence | null;
  /** Outcome of every packet, if requested. */
  packets: PacketLog | null;
}

/** Returns null if the trial rejected the plan. Throws a UsageError if intervals are so short that there would be too many. */
export async function runPass(
  kernels: Kernels,
  options: PassOptions,
  plan: PassPlan,
): Promise<PassResult | null> {
  const feed = await openFeed(kernels, options, plan);
  const epochNs = options.epochNs === "by-length" ? usualEpoch(feed.head) : options.epochNs;
  const epochLength = BigInt(Math.round(epochNs));
  const epochStart = feed.head.originNs - (feed.head.originNs % epochLength);
  const gathered = gather(kernels, options, plan, feed.head, { epochNs, epochStart });
  const { matcher, observer, envelopes } = gathered;
  const tooMany = () => epochNs < LONG_EPOCH_NS && matcher.intervalCount > MAX_INTERVALS;
  const outcome = await takeAll({ ...options, tooMany }, plan, feed, gathered);
  if (outcome !== "done") {
    const refused = outcome === "too-many" ? tooManyIntervals(epochNs, matcher, feed) : null;
    await feed.cancel();
    for (const envelope of envelopes) envelope.finish();
    matcher.free();
    if (refused) throw refused;
    return null;
  }
  matcher.finish();
  // Pairs that were deferred because of an unusual delay show what the clocks did. If most packets are in a capture twice (a mirror), they are the only
  // evidence.
  const shown = matcher.lateCount > LATE_SHARE * matcher.pairCount ? "all" : "alone";
  for (const pairs of matcher.latePairs(plan.alignNs, shown)) show(gathered, pairs);
  for (const envelope of envelopes) envelope.finish();
  progress(options, feed);
  const tail = await feed.finish();
  return {
    plan,
    matcher,
    before: tail.statistics[0],
    after: tail.statistics[1],
    observer,
    ways: gathered.ways,
    epochNs,
    outliers: { before: tail.outliers[0], after: tail.outliers[1] },
    quality: { before: { report: () => tail.quality[0] }, after: { report: () => tail.quality[1] } },
    epochStart,
    originNs: feed.head.originNs,
    rereadable: feed.head.rereadable,
    limited: tail.limited,
    packets: gathered.packets,
  };
}

async function openFeed(kernels: Kernels, options: PassOptions, plan: PassPlan): Promise<PairFeed> {
  const whole = plan.extent.kind === "whole";
  const feedPlan: FeedPlan = {
    before: options.before,
    after: options.after,
    capture: { ...options.capture, cover: plan.cover },
    alignNs: plan.alignNs,
    leadNs: plan.leadNs,
    windowNs: options.windowNs,
    wantsSpan: options.epochNs === "by-length",
    limit: plan.extent.kind === "whole" ? Number.POSITIVE_INFINITY : plan.extent.rows,
  };
  return options.thread && whole
    ? await options.thread.open(feedPlan, options.filterText)
    : await DirectFeed.open(kernels, feedPlan);
}

function gather(
  kernels: Kernels,
  options: PassOptions,
  plan: PassPlan,
  { originNs, startNs, rows }: FeedHead,
  { epochNs, epochStart }: { epochNs: number; epochStart: bigint },
): Gathered {
  const line = correctionLine(plan.correction);
  const packets = options.everyPacket && plan.extent.kind === "whole" ? new PacketLog() : null;
  const matcher = new ExactMatcher(kernels, {
    ...(packets ? { packets } : {}),
    windowNs: options.windowNs,
    epochNs,
    epochStartNs: Number(epochStart - originNs),
    thresholdNs: splitNs(plan.ways),
    // Delays are reported as captured: the alignment that was subtracted for matching is added back.
    correction: { ...line, offsetNs: line.offsetNs - plan.alignNs, pivotNs: line.pivotNs - plan.alignNs },
    pieces: line.pieces,
    expected: plan.expected && alignedOpening(plan.expected, originNs, plan.alignNs),
    startNs,
    slackNs: plan.leadNs,
    rows,
    seed: options.capture.seed ?? DEFAULT_SEED,
    nat: options.capture.nat ?? false,
  });
  if (plan.ways.kind === "known") matcher.direct(plan.ways.flows);
  const observer = new ClockObserver();
  const envelopes = [
    new ThinnedEnvelope(kernels, observer.forward, 1, rows),
    new ThinnedEnvelope(kernels, observer.reverse, -1, rows),
  ] as const;
  const ways =
    plan.ways.kind === "known" || plan.ways.kind === "one-way" ? null : new WayEvidence(kernels, matcher);
  return { matcher, observer, envelopes, ways, packets };
}

/** Feeds the matcher up to the captures' ends, or until the trial or the number of intervals stops it. */
async function takeAll(
  options: PassOptions & { tooMany: () => boolean },
  plan: PassPlan,
  feed: PairFeed,
  gathered: Gathered,
): Promise<"done" | "abandoned" | "too-many"> {
  const { matcher } = gathered;
  const { shiftNs } = feed.head;
  const shorts: [number, number] = [0, 0];
  const idle = () => matcher.flows.tidy();
  let taken = 0;
  let judged = false;
  let far = false;
  for (let ticks = 1; ; ticks++) {
    const next = feed.next(idle);
    const stride = next instanceof Promise ? await next : next;
    if (stride === null) break;
    if (stride.kind === "end") {
      matcher.end(stride.side, stride.lastNs);
      continue;
    }
    const { side, batch, runs, from, to } = stride;
    if (stride.far && !far)
      matcher.allowSlack(denseLeadNs({ leadNs: plan.leadNs, windowNs: options.windowNs }));
    far ||= stride.far;
    matcher.takeRows(side, batch, runs, from, shiftNs[side]);
    const pairs = [matcher.pairs(1, plan.alignNs), matcher.pairs(2, plan.alignNs)] as const;
    show(gathered, pairs);
    if ((ticks & 255) === 0) progress(options, feed);
    if ((ticks & 63) === 0 && options.tooMany()) return "too-many";
    shorts[side] = stride.shorts;
    taken += to - from;
    if (judged || taken < TRIAL_ROWS) continue;
    judged = true;
    if (options.trial && !options.trial.stands(matcher, shorts[0] + shorts[1])) return "abandoned";
    // Directions that change later are examined after all packets.
    if (plan.gatherWays === "to-the-end" || maybeBothWays(matcher)) gathered.ways?.release();
    else gathered.ways = null;
  }
  return options.tooMany() ? "too-many" : "done";
}

/** Adds the evidence of pairs for clocks and directions. */
function show({ envelopes, ways }: Gathered, pairs: readonly [MatchedPairs, MatchedPairs]): void {
  for (const way of [0, 1] as const)
    envelopes[way].take(pairs[way].sends, pairs[way].differences, pairs[way].count);
  ways?.take(...pairs);
}

/** Chosen from the length of the first capture, if it can be read ahead. */
function usualEpoch({ spanNs }: FeedHead): number {
  return spanNs === null ? DEFAULT_EPOCH_NS : epochFor(spanNs);
}

/** Suggests a length that suffices for what was read so far. */
function tooManyIntervals(epochNs: number, matcher: ExactMatcher, feed: PairFeed): UsageError {
  const { doneBytes } = feed.progress();
  const { totalBytes } = feed.head;
  const rest = totalBytes !== null && doneBytes > 0 ? Math.max(1, totalBytes / doneBytes) : 1;
  const times = (matcher.intervalCount * rest) / MAX_INTERVALS;
  const enoughNs = Math.min(LONG_EPOCH_NS, epochNs * 10 ** Math.ceil(Math.log10(times)));
  return new UsageError(
    "bad-parameter",
    `intervals of ${formatDuration(epochNs)} are too short for these captures: more than ${formatCount(MAX_INTERVALS)} of them contain packets`,
    `use ${formatDuration(enoughNs)} or longer, or cut the captures to the time of interest (editcap -A and -B)`,
    { parameter: "epoch", value: epochNs },
  );
}

function progress(options: PassOptions, feed: PairFeed): void {
  if (!options.onProgress) return;
  const { doneBytes, packets } = feed.progress();
  options.onProgress(doneBytes, feed.head.totalBytes, packets);
}
