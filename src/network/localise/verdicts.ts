/**
 * Blame in units for people: spikes of delay in nanoseconds, spikes of loss as shares with their interval, and which of them are two sides of one event (a
 * queue that fills delays packets, and drops them when it is full).
 */
import { entryAt, entryOf } from "../../base/lists.ts";
import { tailChance } from "./baseline.ts";
import {
  type Attribution,
  attribute,
  type BlameOptions,
  type Candidate,
  type SegmentSeries,
} from "./blame.ts";
import { burstyLossRate, countLoss, judgeStretches, type LossJudgement } from "./loss.ts";
import type { LocaliseEstimate, LossRate } from "./segment-estimate.ts";
import type { SeriesSpike } from "./spikes.ts";

/** A stretch of loss that ordinary loss makes along a path less often than this does not count as ordinary for those judged after it. */
const RARE = 0.05;

interface Verdict {
  readonly fromNs: number;
  readonly toNs: number;
  /** Null: undecided; `reason` says why. */
  readonly segment: { readonly from: string; readonly to: string } | null;
  /** The named segment's share of the whole path's rise. */
  readonly share: number | null;
  /** Probability that the named segment is to blame; without one, that of the most likely candidate. */
  readonly confidence: number;
  readonly reason?: string;
  /** Without a named segment: the candidates. */
  readonly candidates?: readonly Candidate[];
  /** Still going on at the last epoch. */
  readonly open?: boolean;
}

/** A spike of delay. */
export interface Spike extends Verdict {
  /** Of the named segment, else of the whole path. */
  readonly baselineNs: number;
  readonly peakNs: number;
  /** The same segment is blamed for loss at the same time. */
  readonly alsoLoss?: boolean;
}

/** A spike of loss. */
export interface LossSpike extends Verdict {
  /** Share lost before and in the worst epoch: of the named segment, else of the whole path. */
  readonly baseline: number;
  readonly peak: number;
  /** During the spike, for the named segment: sent, lost, and the share with its interval. */
  readonly sent: number | null;
  readonly lost: number | null;
  readonly loss: LossRate | null;
  /** The same segment is blamed for delay at the same time. */
  readonly alsoDelay?: boolean;
}

/** The series of a path: one per segment, and one of the whole path. */
export interface PathSeries {
  readonly segments: readonly SegmentSeries[];
  readonly whole: SegmentSeries;
}

/** One row per epoch of the path: an estimate or nothing per segment. */
export type EpochRow = readonly (LocaliseEstimate | undefined)[];

export function blame(
  rows: readonly EpochRow[],
  delay: PathSeries,
  loss: PathSeries,
  options: BlameOptions & { readonly width: number },
): { spikes: Spike[]; lossSpikes: LossSpike[] } {
  const delays = blameDelay(delay, options);
  const judged = judgeLoss(rows, loss);
  const losses = attribute(loss.segments, loss.whole, options, (spike) => entryOf(judged.noise, spike));
  const overlap = (a: Attribution, others: readonly Attribution[]) =>
    a.segment !== null &&
    others.some((b) => b.segment === a.segment && b.fromNs < a.toNs && a.fromNs < b.toNs);
  return {
    spikes: delays.map((a) => ({
      ...verdict(a, delay),
      baselineNs: a.baseline,
      peakNs: a.peak,
      ...(overlap(a, losses) ? { alsoLoss: true } : {}),
    })),
    lossSpikes: losses.map((a) => {
      const { segment } = a;
      const inside = segment === null ? [] : rows.slice(a.first, a.last + 1).map((row) => row[segment]);
      const count = countLoss(inside);
      const phi = judged.phi.get(a.spike) ?? 1;
      return {
        ...verdict(a, loss),
        baseline: a.baseline,
        peak: a.peak,
        sent: a.segment === null ? null : count.sent,
        lost: a.segment === null ? null : Math.max(0, count.lost),
        loss: a.segment === null ? null : burstyLossRate(count, phi, options.width),
        ...(overlap(a, delays) ? { alsoDelay: true } : {}),
      };
    }),
  };
}

function blameDelay({ segments, whole }: PathSeries, options: BlameOptions): Attribution[] {
  const tries = segments.length * Math.max(1, whole.values.length);
  return attribute(
    segments,
    whole,
    options,
    (spike) => tries * tailChance(spike.score, spike.baseline.epochs),
  );
}

/** How many such spikes of loss ordinary loss makes along the path, and how bursty it is there. */
function judgeLoss(rows: readonly EpochRow[], { segments, whole }: PathSeries) {
  const tries = segments.length * Math.max(1, rows.length);
  const noise = new Map<SeriesSpike, number>();
  const phi = new Map<SeriesSpike, number>();
  const judge = (column: readonly (LocaliseEstimate | undefined)[], spikes: readonly SeriesSpike[]) => {
    const keep = (spike: SeriesSpike, judgement: LossJudgement) => {
      noise.set(spike, tries * judgement.chance);
      phi.set(spike, judgement.phi);
    };
    for (const [k, judgement] of judgeStretches(column, spikes, RARE / tries).entries())
      keep(entryAt(spikes, k), judgement);
  };
  for (const [j, { spikes }] of segments.entries())
    judge(
      rows.map((row) => row[j]),
      spikes,
    );
  judge(rows.map(wholePath), whole.spikes);
  return { noise, phi };
}

/** An epoch of the path as if it were one segment, for loss only. */
function wholePath(row: EpochRow): LocaliseEstimate | undefined {
  const known = row.filter((e) => e !== undefined);
  const [first] = known;
  if (!first || known.length < row.length) return undefined;
  const sent = first.packets + first.lost;
  const lost = Math.min(
    sent,
    known.reduce((sum, e) => sum + e.lost, 0),
  );
  return {
    ...first,
    packets: sent - lost,
    lost,
    lostError: Math.hypot(...known.map((e) => e.lostError ?? 0)),
  };
}

function verdict(a: Attribution, { segments }: PathSeries): Verdict {
  const { fromNs, toNs, share, confidence, reason, candidates } = a;
  const named = a.segment === null ? null : entryAt(segments, a.segment);
  return {
    fromNs,
    toNs,
    segment: named && { from: named.from, to: named.to },
    share,
    confidence,
    ...(reason === undefined ? {} : { reason }),
    ...(candidates === undefined ? {} : { candidates }),
    ...(a.open ? { open: true } : {}),
  };
}
