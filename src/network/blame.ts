/**
 * Which segment is to blame for a spike of a path.
 *
 * Every segment's spikes and those of the path as a whole are taken together. A segment is blamed for its own spike when
 *   - its rise over its baseline is at least `minShare` of the rise of the whole path in those epochs, and
 *   - its error bars leave no doubt of that: confidence = P(rise > that share) x P(not ordinary noise) >= `confidence`.
 * Several segments may pass at once: each is blamed. A spike, of the path or of a segment, during which nobody passes is
 * reported without a segment and with the reason: cannot tell.
 */
import { normalCdf } from "../base/special.ts";
import { tailChance } from "./baseline.ts";
import type { EpochValue, SeriesSpike } from "./spikes.ts";

export interface Spike {
  readonly fromNs: number;
  readonly toNs: number;
  /** Null: cannot tell; `reason` says why. */
  readonly segment: { readonly from: string; readonly to: string } | null;
  /** Of the segment where it is named, else of the whole path. */
  readonly baselineNs: number;
  readonly peakNs: number;
  /** Of the segment's share in the rise of the whole path, where it is named. */
  readonly share: number | null;
  readonly confidence: number;
  readonly reason?: string;
  /** Still going on at the last epoch. */
  readonly open?: boolean;
}

export interface SegmentSeries {
  readonly from: string;
  readonly to: string;
  /** By epoch of the path. */
  readonly values: readonly EpochValue[];
  /** Baseline median by epoch of the path, null where there is none. */
  readonly medianNs: readonly (number | null)[];
  /** Indices are epochs of the path. */
  readonly spikes: readonly SeriesSpike[];
}

export interface BlameOptions {
  readonly confidence: number;
  readonly minShare: number;
}

interface Rise {
  readonly ns: number;
  readonly errorNs: number;
  readonly missing: boolean;
}

export function blame(
  segments: readonly SegmentSeries[],
  path: SegmentSeries,
  options: BlameOptions,
): Spike[] {
  const found: Spike[] = [];
  const doubtful: { spike: SeriesSpike; reason: string; confidence: number }[] = [];
  const tries = segments.length * Math.max(1, path.values.length);
  for (const [j, segment] of segments.entries())
    for (const spike of segment.spikes) {
      const rises = segments.map((s) => riseOf(s, spike));
      const own = rises[j]!;
      // Segments that fell at the same time must not make the rest look larger than the whole.
      const whole = rises.reduce((sum, rise) => sum + Math.max(0, rise.ns), 0);
      const share = whole > 0 ? own.ns / whole : 0;
      if (share < options.minShare) continue;
      const sure = certainty(own.ns - options.minShare * whole, own.errorNs);
      const confidence = sure * (1 - tailChance(spike.score)) ** tries;
      if (confidence < options.confidence) {
        doubtful.push({ spike, confidence, reason: doubt(segments, rises) });
        continue;
      }
      found.push({
        fromNs: spike.startNs,
        toNs: spike.endNs,
        segment: { from: segment.from, to: segment.to },
        baselineNs: spike.baseline.medianNs,
        peakNs: spike.peakNs,
        share: Math.min(1, share),
        confidence,
        ...(spike.closed ? {} : { open: true }),
      });
    }
  for (const spike of path.spikes)
    doubtful.push({
      spike,
      confidence: 0,
      reason: doubt(
        segments,
        segments.map((s) => riseOf(s, spike)),
      ),
    });
  return [...found, ...unexplained(doubtful, found, path)].sort((a, b) => a.fromNs - b.fromNs);
}

/** Doubtful spikes that no blamed one overlaps, merged where they overlap each other; told as spikes of the path. */
function unexplained(
  doubtful: readonly { spike: SeriesSpike; reason: string; confidence: number }[],
  found: readonly Spike[],
  path: SegmentSeries,
): Spike[] {
  const left = doubtful
    .filter(({ spike }) => !found.some((f) => f.fromNs < spike.endNs && spike.startNs < f.toNs))
    .sort((a, b) => a.spike.first - b.spike.first);
  const merged: { first: number; last: number; reason: string; confidence: number; open: boolean }[] = [];
  for (const { spike, reason, confidence } of left) {
    const before = merged.at(-1);
    if (before && spike.first <= before.last) {
      before.last = Math.max(before.last, spike.last);
      before.confidence = Math.max(before.confidence, confidence);
      before.open ||= !spike.closed;
    } else merged.push({ first: spike.first, last: spike.last, reason, confidence, open: !spike.closed });
  }
  return merged.map(({ first, last, reason, confidence, open }) => {
    const inside = path.values.slice(first, last + 1);
    const known = inside.flatMap((v) => (v.meanNs === null ? [] : [v.meanNs]));
    const medians = path.medianNs.slice(first, last + 1).filter((m) => m !== null);
    const baselineNs = medians[0] ?? 0;
    return {
      fromNs: inside[0]!.startNs,
      toNs: inside.at(-1)!.endNs,
      segment: null,
      baselineNs,
      peakNs: known.length > 0 ? Math.max(...known) : baselineNs,
      share: null,
      confidence,
      reason,
      ...(open ? { open } : {}),
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
    const median = segment.medianNs[i];
    if (!value || value.meanNs === null || median === null || median === undefined) continue;
    sum += value.meanNs - median;
    errors += value.errorNs ** 2;
    count++;
  }
  if (count === 0) return { ns: 0, errorNs: 0, missing: true };
  return {
    ns: sum / count,
    errorNs: Math.sqrt(errors) / count,
    missing: count < (spike.last - spike.first + 1) / 2,
  };
}

function certainty(excessNs: number, errorNs: number): number {
  return errorNs > 0 ? normalCdf(excessNs / errorNs) : excessNs > 0 ? 1 : 0;
}

function doubt(segments: readonly SegmentSeries[], rises: readonly Rise[]): string {
  const silent = segments.filter((_, j) => rises[j]!.missing);
  if (silent.length > 0)
    return `no answer from ${silent.map((s) => `${s.from} → ${s.to}`).join(", ")} in these epochs`;
  const ranked = rises
    .map((rise, j) => ({ rise, segment: segments[j]! }))
    .sort((a, b) => b.rise.ns - a.rise.ns);
  const [first, second] = ranked;
  if (first && first.rise.errorNs > 0.25 * Math.abs(first.rise.ns) && second)
    return `error bars overlap: ${first.segment.from} → ${first.segment.to} or ${second.segment.from} → ${second.segment.to}`;
  return "spread over several segments, none beyond its own noise";
}
