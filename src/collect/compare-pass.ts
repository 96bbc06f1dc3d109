/**
 * One pass over two captures: both are read in time order (BEFORE leads a little, so that a packet's partner is there when it
 * arrives) and fed to the exact matcher and the clock doctor. What a pass cannot know beforehand (how much both captures
 * see of a packet, how far their clocks are apart, which way the packets go) is given by `PassPlan`; compare.ts runs
 * another pass where the first one shows that the plan was wrong.
 */
import type { Kernels } from "../base/kernels.ts";
import type { PacketBatch } from "../capture/batch.ts";
import {
  type CaptureOptions,
  CaptureReader,
  type CaptureStatistics,
  DEFAULT_SEED,
} from "../capture/reader.ts";
import { ClockObserver } from "../clock/observer.ts";
import { TimestampQuality } from "../clock/timestamp-quality.ts";
import { ExactMatcher } from "../estimators/exact/matcher.ts";

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
  /** Watches every batch of either side (estimators' taps beside the exact match). */
  onBatch?: (side: 0 | 1, batch: PacketBatch, originNs: bigint) => void;
  onProgress?: (doneBytes: number, totalBytes: number | null, packets: number) => void;
}

export interface PassResult {
  plan: PassPlan;
  matcher: ExactMatcher;
  before: CaptureStatistics;
  after: CaptureStatistics;
  observer: ClockObserver;
  quality: { before: TimestampQuality | undefined; after: TimestampQuality | undefined };
  /** Start of the first interval, ns since 1970, and its place on the matcher's time axis. */
  epochStart: bigint;
  /** ns since 1970 of the matcher's time 0. */
  originNs: bigint;
  /** Both inputs can be read again. */
  rereadable: boolean;
  /** The pass ended at its limit, not at the captures' ends. */
  limited: boolean;
}

/** One capture being read: the batch at hand and the next row of it. */
class Side {
  readonly side: 0 | 1;
  readonly reader: CaptureReader;
  readonly quality: TimestampQuality;
  row = 0;
  done = false;
  shiftNs = 0;
  packets = 0;

  constructor(side: 0 | 1, reader: CaptureReader, quality: TimestampQuality) {
    this.side = side;
    this.reader = reader;
    this.quality = quality;
  }

  get headNs(): number {
    return this.done ? Number.POSITIVE_INFINITY : this.reader.batch.timeNs[this.row]! + this.shiftNs;
  }
}

export async function runPass(kernels: Kernels, options: PassOptions, plan: PassPlan): Promise<PassResult> {
  const capture = { ...options.capture, cover: plan.cover };
  const readers = [
    await CaptureReader.open(kernels, options.before, capture),
    await CaptureReader.open(kernels, options.after, capture),
  ] as const;
  const first = [await readers[0].next(), await readers[1].next()] as const;
  const origins = readers.map((r) => r.originNs);
  const originNs = origins[0] ?? origins[1] ?? 0n;
  const [before, after] = readers.map((reader, i) => {
    const origin = origins[i] ?? originNs;
    const side = new Side(i as 0 | 1, reader, new TimestampQuality({ originNs: origin }));
    side.done = !first[i];
    side.shiftNs = Number(origin - originNs) - (i === 1 ? plan.alignNs : 0);
    return side;
  }) as [Side, Side];

  const epochLength = BigInt(Math.round(options.epochNs));
  const epochStart = originNs - (originNs % epochLength);
  const start = Math.min(before.headNs, after.headNs);
  const { leadNs } = plan;
  const matcher = new ExactMatcher(kernels, {
    windowNs: options.windowNs,
    epochNs: options.epochNs,
    epochStartNs: Number(epochStart - originNs),
    thresholdNs: plan.thresholdNs,
    // Delays are reported as stamped: what was removed to make packets meet is added back.
    correction: { ...plan.correction, offsetNs: plan.correction.offsetNs - plan.alignNs },
    startNs: Number.isFinite(start) ? start : 0,
    slackNs: leadNs,
    rows: readers[0].batch.capacity,
    seed: options.capture.seed ?? DEFAULT_SEED,
  });
  const observer = new ClockObserver();
  for (const side of [before, after]) beginBatch(side, matcher, options);

  let ticks = 0;
  while (!before.done || !after.done) {
    const beforeHead = before.headNs;
    const afterHead = after.headNs;
    // BEFORE leads by a quarter of leadNs at least and by all of it at most, so that both go on in long strides.
    const turn = !before.done && beforeHead <= afterHead + leadNs / 4 ? before : after;
    const until = turn === before ? afterHead + leadNs : beforeHead - leadNs / 4;
    turn.row = matcher.take(turn.side, turn.reader.batch, turn.row, until, turn.shiftNs);
    observe(observer, matcher, plan.alignNs);
    if (turn.row < turn.reader.batch.count) continue;
    turn.row = 0;
    const more = turn.packets < plan.limit && (await turn.reader.next());
    if (!more) {
      turn.done = true;
      matcher.end(turn.side);
      continue;
    }
    beginBatch(turn, matcher, options);
    if ((++ticks & 255) === 0) progress(options, readers, before.packets + after.packets);
  }
  matcher.finish();
  progress(options, readers, before.packets + after.packets);
  const statistics = readers.map((r) => r.statistics());
  for (const reader of readers) {
    reader.close();
    reader.free();
  }
  return {
    plan,
    matcher,
    before: statistics[0]!,
    after: statistics[1]!,
    observer,
    quality: { before: before.quality, after: after.quality },
    epochStart,
    originNs,
    rereadable: readers[0].source.rereadable && readers[1].source.rereadable,
    limited: before.packets >= plan.limit || after.packets >= plan.limit,
  };
}

function beginBatch(side: Side, matcher: ExactMatcher, options: PassOptions): void {
  if (side.done) {
    matcher.end(side.side);
    return;
  }
  const { batch } = side.reader;
  side.packets += batch.count;
  matcher.assign(side.side, batch);
  side.quality.observe(batch.timeNs, batch.count);
  options.onBatch?.(side.side, batch, side.reader.originNs!);
}

/** The doctor sees differences as stamped. */
function observe(observer: ClockObserver, matcher: ExactMatcher, alignNs: number): void {
  for (const direction of [1, 2] as const) {
    const pairs = matcher.pairs(direction);
    if (pairs.count === 0) continue;
    if (alignNs !== 0) for (let i = 0; i < pairs.count; i++) pairs.diffNs[i]! += alignNs;
    if (direction === 1) observer.observe(pairs.sendNs, pairs.diffNs, pairs.count);
    else observer.observeReverse(pairs.sendNs, pairs.diffNs, pairs.count);
  }
}

function progress(options: PassOptions, readers: readonly CaptureReader[], packets: number): void {
  if (!options.onProgress) return;
  let done = 0;
  let total: number | null = 0;
  for (const { source } of readers) {
    done += source.consumed();
    total = total === null || source.size === null ? null : total + source.size;
  }
  options.onProgress(done, total, packets);
}
