/**
 * The localiser: from estimates per segment and epoch to "where was the time spent, and which segment is to blame".
 *
 * End-to-end delay is the sum of the segments' means, its error the root of the summed squares (segments are measured independently; a clock error at an inner
 * point cancels in the sum). The share delivered is the product of the segments' shares. Epochs of different segments belong together if the middle of one is
 * within the other. An epoch in which a segment has no answer has no end-to-end value. Spikes: spikes.ts; loss: loss.ts; blame: blame.ts and verdicts.ts.
 */

import { UsageError } from "../../base/errors.ts";
import { entryAt } from "../../base/lists.ts";
import { countOf } from "../../base/quantity.ts";
import type { BlameOptions } from "./blame.ts";
import { type EndToEnd, endToEnd } from "./end-to-end.ts";
import { burstiness, burstyLossRate, countLoss, lossSettings, lossValue, pathLoss } from "./loss.ts";
import {
  checkEstimate,
  epochValue,
  intervalWidth,
  type LocaliseEstimate,
  type LossRate,
  overallLatency,
  type SegmentLatency,
  standardError,
} from "./segment-estimate.ts";
import {
  type EpochValue,
  findSpikes,
  type SpikeOptions,
  type SpikeSettings,
  spikeSettings,
} from "./spikes.ts";
import { blame, type EpochRow, type LossSpike, type PathSeries, type Spike } from "./verdicts.ts";

export interface LocaliseOptions extends SpikeOptions {
  /** Confidence of the estimates' low and high, and of blame. Default 0.95. */
  readonly confidence?: number;
  /** A segment is blamed for a spike only if at least this share of the path's rise is its own. Default 0.2. */
  readonly minShare?: number;
}

export interface LocalisedSegment {
  readonly from: string;
  readonly to: string;
  readonly sent: number;
  readonly lost: number;
  readonly loss: LossRate | null;
  /** Null: no epoch has an answer. */
  readonly latency: SegmentLatency | null;
  /** Share of the end-to-end mean; null if that is unknown or not positive (clock offsets). */
  readonly share: number | null;
}

export interface EpochPart {
  readonly meanNs: number;
  readonly lowNs: number;
  readonly highNs: number;
  readonly packets: number;
  readonly lost: number;
}

export interface LocalisedEpoch {
  readonly startNs: number;
  readonly endNs: number;
  /** Null if a segment has no answer. */
  readonly total: { readonly meanNs: number; readonly lowNs: number; readonly highNs: number } | null;
  readonly lost: number;
  readonly segments: readonly (EpochPart | null)[];
  /** Share lost in each segment, also without a delay (all lost); null if nothing was sent. */
  readonly loss: readonly (LossRate | null)[];
}

export interface Localisation {
  readonly format: "hoptime.localise/1";
  readonly points: readonly string[];
  readonly endToEnd: EndToEnd;
  readonly segments: readonly LocalisedSegment[];
  readonly spikes: readonly Spike[];
  readonly lossSpikes: readonly LossSpike[];
  readonly epochs: readonly LocalisedEpoch[];
  readonly notes: readonly string[];
}

/** `points` in path order; estimates in any order; those of other segments are ignored and counted in the notes. */
export function localise(
  points: readonly string[],
  estimates: readonly LocaliseEstimate[],
  options: LocaliseOptions = {},
): Localisation {
  if (points.length < 2) throw new UsageError("bad-parameter", "a path needs two points or more");
  if (new Set(points).size !== points.length) throw new UsageError("bad-parameter", "a point is named twice");
  const settings = spikeSettings(spikeOnly(options));
  const width = intervalWidth(options.confidence ?? 0.95);
  const { rows, notes } = alignEpochs(points, estimates);
  const delay = seriesOf(points, rows, settings, (e) => epochValue(e, width), addDelays);
  const loss = seriesOf(points, rows, lossSettings(settings), lossValue, pathLoss);
  if (rows.length < settings.minEpochs)
    notes.push(`${plural(rows.length)} too few to find spikes; ${settings.minEpochs} are needed`);
  return describe(points, rows, delay, loss, { notes, width, ...blameOptions(options) });
}

const plural = (epochs: number) => (epochs === 1 ? "1 epoch is" : `${epochs} epochs are`);

/** Returns the series of every segment and of the path, in the unit that `value` reads. */
function seriesOf(
  points: readonly string[],
  rows: readonly EpochRow[],
  settings: SpikeSettings,
  value: (e: LocaliseEstimate) => EpochValue,
  add: (parts: readonly EpochValue[]) => { value: number; error: number } | null,
): PathSeries {
  const named = (from: string, to: string, values: readonly EpochValue[]) => {
    const { spikes, baselines } = findSpikes(values, settings);
    return { from, to, values, median: baselines.map((b) => b?.median ?? null), spikes };
  };
  const columns = points.slice(1).map((_, j) => rows.map((row) => valueIn(row[j], spanOf(row), value)));
  const totals = rows.map((row, i) =>
    totalOf(
      columns.map((column) => entryAt(column, i)),
      spanOf(row),
      add,
    ),
  );
  return {
    segments: columns.map((values, j) => named(entryAt(points, j), entryAt(points, j + 1), values)),
    whole: named(entryAt(points, 0), entryAt(points, -1), totals),
  };
}

export function blameOptions(options: LocaliseOptions): BlameOptions {
  return { confidence: options.confidence ?? 0.95, minShare: options.minShare ?? 0.2 };
}

export function spikeOnly(options: LocaliseOptions): SpikeOptions {
  const { confidence: _confidence, minShare: _minShare, ...rest } = options;
  return rest;
}

/** Builds the result; shared by whole files and the monitoring station. */
export function describe(
  points: readonly string[],
  rows: readonly EpochRow[],
  delay: PathSeries,
  loss: PathSeries,
  options: BlameOptions & { width: number; notes: readonly string[] },
): Localisation {
  const { width } = options;
  const columns = points.slice(1).map((_, j) => rows.flatMap((row) => (row[j] ? [row[j]] : [])));
  const latencies = columns.map((column) => overallLatency(column, width));
  // A negative mean shows a clock offset: parts of such a sum are not shares.
  const sum = latencies.reduce((total, l) => total + Math.max(0, l?.meanNs ?? 0), 0);
  const shared = sum > 0 && latencies.every((l) => l !== null && l.meanNs >= 0);
  const segments = columns.map((column, j) => {
    const count = countLoss(column);
    const latency = latencies[j] ?? null;
    return {
      from: entryAt(points, j),
      to: entryAt(points, j + 1),
      sent: count.sent,
      lost: Math.max(0, count.lost),
      loss: burstyLossRate(count, burstiness(column), width),
      latency,
      share: shared && latency ? latency.meanNs / sum : null,
    };
  });
  const end = endToEnd(rows, segments.length, width);
  return {
    format: "hoptime.localise/1",
    points,
    endToEnd: end.total,
    segments,
    ...blame(rows, delay, loss, options),
    epochs: rows.map((row, i) => {
      const { value, error, ...span } = entryAt(delay.whole.values, i);
      return {
        ...span,
        total:
          value === null
            ? null
            : { meanNs: value, lowNs: value - width * error, highNs: value + width * error },
        lost: row.reduce((total, e) => total + Math.max(0, e?.lost ?? 0), 0),
        segments: points.slice(1).map((_, j) => partOf(row[j], width)),
        loss: points.slice(1).map((_, j) => lossIn(row[j], width)),
      };
    }),
    notes: [...options.notes, ...end.notes],
  };
}

function lossIn(e: LocaliseEstimate | undefined, width: number): LossRate | null {
  return e ? burstyLossRate(countLoss([e]), 1, width) : null;
}

function partOf(e: LocaliseEstimate | undefined, width: number): EpochPart | null {
  if (!e || e.meanNs === null) return null;
  const half = width * standardError(e, width);
  return {
    meanNs: e.meanNs,
    lowNs: e.lowNs ?? e.meanNs - half,
    highNs: e.highNs ?? e.meanNs + half,
    packets: e.packets,
    lost: Math.max(0, e.lost),
  };
}

interface Span {
  readonly startNs: number;
  readonly endNs: number;
}

export function spanOf(row: EpochRow): Span {
  const first = entryAt(
    row.filter((e) => e !== undefined),
    0,
  );
  return { startNs: first.epochStartNs, endNs: first.epochEndNs };
}

export function valueIn(
  e: LocaliseEstimate | undefined,
  span: Span,
  value: (e: LocaliseEstimate) => EpochValue,
): EpochValue {
  return e ? value(e) : { ...span, value: null, error: 0 };
}

export function totalOf(
  parts: readonly EpochValue[],
  span: Span,
  add: (parts: readonly EpochValue[]) => { value: number; error: number } | null,
): EpochValue {
  return { startNs: span.startNs, endNs: span.endNs, ...(add(parts) ?? { value: null, error: 0 }) };
}

/** Sums the delays of the segments in one epoch; null if one has no answer. */
export function addDelays(parts: readonly EpochValue[]): { value: number; error: number } | null {
  let sum = 0;
  let squares = 0;
  for (const { value, error } of parts) {
    if (value === null) return null;
    sum += value;
    squares += error ** 2;
  }
  return { value: sum, error: Math.sqrt(squares) };
}

/** Puts the epochs of the segments side by side. The epochs of the path are those of its first segment, and any beyond. */
function alignEpochs(points: readonly string[], estimates: readonly LocaliseEstimate[]) {
  const column = new Map(points.slice(1).map((to, j) => [JSON.stringify([points[j], to]), j]));
  const rows: (LocaliseEstimate | undefined)[][] = [];
  const notes: string[] = [];
  let foreign = 0;
  let repeated = 0;
  const sorted = [...estimates].sort((a, b) => a.epochStartNs - b.epochStartNs);
  const columns: LocaliseEstimate[][] = points.slice(1).map(() => []);
  for (const e of sorted) {
    const j = column.get(JSON.stringify([e.fromPoint, e.toPoint]));
    if (j === undefined) foreign++;
    else {
      checkEstimate(e);
      entryAt(columns, j).push(e);
    }
  }
  // A sweep over time: an estimate joins the row whose span contains its middle, else it opens a new row.
  for (const [j, list] of columns.entries()) {
    let at = 0;
    for (const e of list) {
      const middle = (e.epochStartNs + e.epochEndNs) / 2;
      while (at < rows.length && spanOf(entryAt(rows, at)).endNs <= middle) at++;
      const row = rows[at];
      if (row && spanOf(row).startNs <= middle) {
        if (row[j]) repeated++;
        else row[j] = e;
      } else {
        const fresh: (LocaliseEstimate | undefined)[] = new Array(columns.length).fill(undefined);
        fresh[j] = e;
        rows.splice(at, 0, fresh);
      }
    }
  }
  if (rows.length === 0)
    throw new UsageError("no-records", `no estimate of any segment of ${points.join(" → ")}`);
  for (const [j, list] of columns.entries())
    if (list.length === 0) notes.push(`no estimate of ${points[j]} → ${points[j + 1]}`);
  if (foreign > 0) notes.push(`${countOf(foreign, "estimate")} of other segments left out`);
  if (repeated > 0) notes.push(`${countOf(repeated, "estimate")} left out: their epoch was given before`);
  return { rows, notes };
}
