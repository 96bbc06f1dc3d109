/**
 * Finds the segment to blame for a spike of a path, of its delay or of its loss.
 *
 * The spikes of every segment and of the whole path are considered together. The confidence in a segment is the probability that
 * - its rise is real: posterior odds against the ordinary noise that makes such a rise somewhere along the path, and
 * - at least `minShare` of the path's rise is its own, given the errors of all segments' rises.
 *
 * If it reaches `confidence` the segment is blamed; several may be at once. A spike, of the path or of a segment, without a blamed segment is reported without
 * one, with the reason and the candidates: undecided.
 */
import { entryAt } from "../../base/lists.ts";
import { normalCdf } from "../../base/math/special.ts";
import type { EpochValue, SeriesSpike } from "./spikes.ts";

export interface SegmentSeries {
  readonly from: string;
  readonly to: string;
  /** By epoch of the path. */
  readonly values: readonly EpochValue[];
  /** Median of the baseline by epoch of the path, null if there is none. */
  readonly median: readonly (number | null)[];
  /** Indices are epochs of the path. */
  readonly spikes: readonly SeriesSpike[];
}

export interface BlameOptions {
  readonly confidence: number;
  readonly minShare: number;
}

/** A segment that may be to blame, with the probability. */
export interface Candidate {
  readonly from: string;
  readonly to: string;
  readonly confidence: number;
}

/** A spike with its blame, in the unit of the series. */
export interface Attribution {
  /** Epochs of the path. */
  readonly first: number;
  readonly last: number;
  readonly fromNs: number;
  readonly toNs: number;
  /** Null: undecided; `reason` says why. */
  readonly segment: number | null;
  /** Of the named segment, else of the whole path. */
  readonly baseline: number;
  readonly peak: number;
  /** The named segment's share of the whole path's rise. */
  readonly share: number | null;
  readonly confidence: number;
  readonly reason?: string;
  readonly candidates?: readonly Candidate[];
  readonly open: boolean;
  /** The spike of the series; the first if several were merged. */
  readonly spike: SeriesSpike;
}

interface Rise {
  readonly size: number;
  readonly error: number;
  readonly missing: boolean;
}

interface Doubt {
  readonly spike: SeriesSpike;
  readonly segment: number | null;
  readonly reason: string;
  /** Probability that the rise is not ordinary noise, and that it is the segment's. */
  readonly real: number;
  readonly confidence: number;
}

/**
 * Of paths like those of the bench half have a spike, of any size: the probability of being noise is spread evenly over tens of powers of e, so this many real
 * spikes fall on each, compared with the expected number by noise. (Bayes' rule; the bench shows how well it holds.)
 */
const REAL_SPIKES = 0.015;
/** A spike that is more likely ordinary noise is not reported. */
const LIKELIER_REAL = 0.5;
/** A spike of the whole path that no segment shows is reported only if it is almost certainly real: it contains the mixed noise of different segments. */
const SURELY_REAL = 0.95;

/** `noise(spike)`: how many rises like this ordinary noise makes along the whole path. */
export function attribute(
  segments: readonly SegmentSeries[],
  path: SegmentSeries,
  options: BlameOptions,
  noise: (spike: SeriesSpike) => number,
): Attribution[] {
  const found: Attribution[] = [];
  const doubtful: Doubt[] = [];
  for (const [j, segment] of segments.entries())
    for (const spike of segment.spikes) {
      const rises = segments.map((s) => riseOf(s, spike));
      const { share, sure } = partOf(rises, j, options.minShare);
      const real = realness(noise(spike));
      const confidence = sure * real;
      if (share < options.minShare) continue;
      if (confidence < options.confidence) {
        const reason =
          sure >= options.confidence
            ? `the rise of ${segment.from} → ${segment.to} may be ordinary for it`
            : doubt(segments, rises);
        doubtful.push({ spike, segment: j, real, confidence, reason });
        continue;
      }
      found.push({
        first: spike.first,
        last: spike.last,
        fromNs: spike.startNs,
        toNs: spike.endNs,
        segment: j,
        baseline: spike.baseline.median,
        peak: spike.peak,
        share: Math.min(1, share),
        confidence,
        open: !spike.closed,
        spike,
      });
    }
  for (const spike of path.spikes) {
    const rises = segments.map((s) => riseOf(s, spike));
    const real = realness(noise(spike));
    doubtful.push({ spike, segment: null, real, confidence: 0, reason: doubt(segments, rises) });
  }
  return [...found, ...unexplained(doubtful, found, segments, path)].sort((a, b) => a.fromNs - b.fromNs);
}

/** Probability that a rise is real, if ordinary noise makes `noise` such rises along a path. */
function realness(noise: number): number {
  return REAL_SPIKES / (REAL_SPIKES + noise);
}

/** Share of segment j in the path's rise, and the probability that it is at least `minShare`. */
function partOf(rises: readonly Rise[], j: number, minShare: number): { share: number; sure: number } {
  const own = entryAt(rises, j);
  // Segments that fell at the same time must not make the sum of the others exceed the whole.
  const whole = rises.reduce((sum, rise) => sum + Math.max(0, rise.size), 0);
  const share = whole > 0 ? own.size / whole : 0;
  const excess = own.size - minShare * whole;
  const squares = rises.reduce((sum, r, i) => sum + ((i === j ? 1 - minShare : minShare) * r.error) ** 2, 0);
  return { share, sure: squares > 0 ? normalCdf(excess / Math.sqrt(squares)) : excess > 0 ? 1 : 0 };
}

/** Doubtful spikes that no blamed one overlaps, merged if they overlap each other; reported as spikes of the path. */
function unexplained(
  doubtful: readonly Doubt[],
  found: readonly Attribution[],
  segments: readonly SegmentSeries[],
  path: SegmentSeries,
): Attribution[] {
  const left = doubtful
    .filter(
      ({ spike, segment, real }) =>
        real >= (segment === null ? SURELY_REAL : LIKELIER_REAL) &&
        !found.some((f) => f.fromNs < spike.endNs && spike.startNs < f.toNs),
    )
    .sort((a, b) => a.spike.first - b.spike.first);
  const groups: { first: number; last: number; members: Doubt[] }[] = [];
  for (const one of left) {
    const before = groups.at(-1);
    if (before && one.spike.first <= before.last) {
      before.last = Math.max(before.last, one.spike.last);
      before.members.push(one);
    } else groups.push({ first: one.spike.first, last: one.spike.last, members: [one] });
  }
  return groups.map(({ first, last, members }) => {
    const inside = path.values.slice(first, last + 1);
    const known = inside.flatMap((v) => (v.value === null ? [] : [v.value]));
    const medians = path.median.slice(first, last + 1).filter((m) => m !== null);
    const baseline = medians[0] ?? 0;
    const candidates = members
      .flatMap(({ segment, confidence }) => {
        if (segment === null) return [];
        const { from, to } = entryAt(segments, segment);
        return [{ from, to, confidence }];
      })
      .sort((a, b) => b.confidence - a.confidence);
    return {
      first,
      last,
      fromNs: entryAt(inside, 0).startNs,
      toNs: entryAt(inside, -1).endNs,
      segment: null,
      baseline,
      peak: known.length > 0 ? Math.max(...known) : baseline,
      share: null,
      confidence: candidates[0]?.confidence ?? 0,
      reason: entryAt(members, 0).reason,
      candidates,
      open: members.some((m) => !m.spike.closed),
      spike: entryAt(members, 0).spike,
    };
  });
}

/** Mean rise of a segment over its baseline in the epochs of a spike. */
function riseOf(segment: SegmentSeries, spike: { first: number; last: number }): Rise {
  let sum = 0;
  let errors = 0;
  let count = 0;
  for (let i = spike.first; i <= spike.last; i++) {
    const value = segment.values[i];
    const median = segment.median[i];
    if (!value || value.value === null || median === null || median === undefined) continue;
    sum += value.value - median;
    errors += value.error ** 2;
    count++;
  }
  if (count === 0) return { size: 0, error: 0, missing: true };
  return {
    size: sum / count,
    error: Math.sqrt(errors) / count,
    missing: count < (spike.last - spike.first + 1) / 2,
  };
}

function doubt(segments: readonly SegmentSeries[], rises: readonly Rise[]): string {
  const silent = segments.filter((_, j) => entryAt(rises, j).missing);
  if (silent.length > 0)
    return `no answer from ${silent.map((s) => `${s.from} → ${s.to}`).join(", ")} in these epochs`;
  const ranked = rises
    .map((rise, j) => ({ rise, segment: entryAt(segments, j) }))
    .sort((a, b) => b.rise.size - a.rise.size);
  const [first, second] = ranked;
  if (first && first.rise.error > 0.25 * Math.abs(first.rise.size) && second)
    return `error bars overlap: ${first.segment.from} → ${first.segment.to} or ${second.segment.from} → ${second.segment.to}`;
  return "spread over several segments, none beyond its own noise";
}
