/**
 * The localiser: from estimates per segment and epoch to "where was the time spent, and which segment is to blame".
 *
 * End-to-end delay is the sum of the segments' means, its error the root of the summed squares (segments are measured
 * independently; a clock fault at an inner point cancels in the sum). Loss adds up likewise. Epochs of different segments
 * belong together when the middle of one lies in the other. An epoch in which a segment has no answer has no end-to-end
 * value. Spikes: spikes.ts; blame: blame.ts.
 */
import { UsageError } from "../base/errors.ts";
import { type BlameOptions, blame, type SegmentSeries, type Spike } from "./blame.ts";
import {
  checkEstimate,
  epochValue,
  intervalWidth,
  type Latency,
  type LossRate,
  lossRate,
  overallLatency,
  type SegmentEstimate,
  standardError,
} from "./segment-estimate.ts";
import { type EpochValue, findSpikes, type SpikeOptions, spikeSettings } from "./spikes.ts";

export interface LocaliseOptions extends SpikeOptions {
  /** Confidence of the estimates' low and high, and of blame. Default 0.95. */
  readonly confidence?: number;
  /** A segment is blamed for a spike only when this much of the path's rise is its own. Default 0.2. */
  readonly minShare?: number;
}

export interface LocalisedSegment {
  readonly from: string;
  readonly to: string;
  readonly sent: number;
  readonly lost: number;
  readonly loss: LossRate | null;
  /** Null: no epoch has an answer. */
  readonly latency: Latency | null;
  /** Of the end-to-end mean; null where that is unknown or not positive (clock offsets). */
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
  /** Null where a segment has no answer. */
  readonly total: { readonly meanNs: number; readonly lowNs: number; readonly highNs: number } | null;
  readonly lost: number;
  readonly segments: readonly (EpochPart | null)[];
}

export interface Localisation {
  readonly format: "hoptime.localise/1";
  readonly points: readonly string[];
  readonly endToEnd: {
    readonly sent: number;
    readonly lost: number;
    readonly loss: LossRate | null;
    readonly latency: Omit<Latency, "stdevNs" | "packets"> | null;
  };
  readonly segments: readonly LocalisedSegment[];
  readonly spikes: readonly Spike[];
  readonly epochs: readonly LocalisedEpoch[];
  readonly notes: readonly string[];
}

/** `points` in path order; estimates in any order, those of other segments are ignored and counted in the notes. */
export function localise(
  points: readonly string[],
  estimates: readonly SegmentEstimate[],
  options: LocaliseOptions = {},
): Localisation {
  if (points.length < 2) throw new UsageError("bad-parameter", "a path needs two points or more");
  if (new Set(points).size !== points.length) throw new UsageError("bad-parameter", "a point is named twice");
  const settings = spikeSettings(spikeOnly(options));
  const width = intervalWidth(options.confidence ?? 0.95);
  const { rows, notes } = alignEpochs(points, estimates);
  const spans = rows.map((row) => spanOf(row));
  const series = points.slice(1).map((to, j) => {
    const values = rows.map((row, i) => valueIn(row[j], spans[i]!, width));
    const { spikes, baselines } = findSpikes(values, settings);
    return { from: points[j]!, to, values, medianNs: baselines.map((b) => b?.medianNs ?? null), spikes };
  });
  const totals = spans.map((span, i) => totalOf(series, i, span));
  const whole = findSpikes(totals, settings);
  const path = {
    from: points[0]!,
    to: points.at(-1)!,
    values: totals,
    medianNs: whole.baselines.map((b) => b?.medianNs ?? null),
    spikes: whole.spikes,
  };
  if (totals.length < settings.minEpochs)
    notes.push(`${totals.length} epochs are too few to tell a spike; ${settings.minEpochs} are needed`);
  return describe(points, rows, series, path, { notes, width, ...blameOptions(options) });
}

export function blameOptions(options: LocaliseOptions): BlameOptions {
  return { confidence: options.confidence ?? 0.95, minShare: options.minShare ?? 0.2 };
}

export function spikeOnly(options: LocaliseOptions): SpikeOptions {
  const { confidence: _confidence, minShare: _minShare, ...rest } = options;
  return rest;
}

/** One row per epoch of the path: an estimate or nothing per segment. */
export type EpochRow = (SegmentEstimate | undefined)[];

/** Writes down what is known; shared by whole files and the monitoring station. */
export function describe(
  points: readonly string[],
  rows: readonly EpochRow[],
  series: readonly SegmentSeries[],
  path: SegmentSeries,
  options: BlameOptions & { width: number; notes: string[] },
): Localisation {
  const { width, notes } = options;
  const columns = series.map((_, j) => rows.flatMap((row) => (row[j] ? [row[j]] : [])));
  const latencies = columns.map((column) => overallLatency(column, width));
  const known = latencies.filter((l) => l !== null);
  const meanNs = known.reduce((sum, l) => sum + l.meanNs, 0);
  const halfNs = Math.sqrt(known.reduce((sum, l) => sum + ((l.highNs - l.lowNs) / 2) ** 2, 0));
  const complete = known.length === latencies.length;
  const segments = series.map(({ from, to }, j) => {
    const sent = columns[j]!.reduce((sum, e) => sum + e.packets + e.lost, 0);
    const lost = columns[j]!.reduce((sum, e) => sum + e.lost, 0);
    const latency = latencies[j]!;
    const share = complete && meanNs > 0 && latency ? latency.meanNs / meanNs : null;
    return { from, to, sent, lost, loss: lossRate(sent, lost, width), latency, share };
  });
  const sent = segments[0]!.sent;
  const lost = segments.reduce((sum, s) => sum + s.lost, 0);
  return {
    format: "hoptime.localise/1",
    points,
    endToEnd: {
      sent,
      lost,
      loss: lossRate(sent, Math.min(lost, sent), width),
      latency: complete ? { meanNs, lowNs: meanNs - halfNs, highNs: meanNs + halfNs } : null,
    },
    segments,
    spikes: blame(series, path, options),
    epochs: rows.map((row, i) => {
      const total = path.values[i]!;
      return {
        startNs: total.startNs,
        endNs: total.endNs,
        total:
          total.meanNs === null
            ? null
            : {
                meanNs: total.meanNs,
                lowNs: total.meanNs - width * total.errorNs,
                highNs: total.meanNs + width * total.errorNs,
              },
        lost: row.reduce((sum, e) => sum + (e?.lost ?? 0), 0),
        segments: series.map((_, j) => partOf(row[j], width)),
      };
    }),
    notes,
  };
}

function partOf(e: SegmentEstimate | undefined, width: number): EpochPart | null {
  if (!e || e.meanNs === null) return null;
  const half = width * standardError(e, width);
  return {
    meanNs: e.meanNs,
    lowNs: e.lowNs ?? e.meanNs - half,
    highNs: e.highNs ?? e.meanNs + half,
    packets: e.packets,
    lost: e.lost,
  };
}

interface Span {
  readonly startNs: number;
  readonly endNs: number;
}

export function spanOf(row: EpochRow): Span {
  const first = row.find((e) => e !== undefined)!;
  return { startNs: first.epochStartNs, endNs: first.epochEndNs };
}

export function valueIn(e: SegmentEstimate | undefined, span: Span, width: number): EpochValue {
  return e ? epochValue(e, width) : { ...span, meanNs: null, errorNs: 0 };
}

export function totalOf(
  series: readonly { values: readonly EpochValue[] }[],
  i: number,
  span: Span,
): EpochValue {
  let meanNs = 0;
  let squares = 0;
  for (const { values } of series) {
    const value = values[i]!;
    if (value.meanNs === null) return { ...span, meanNs: null, errorNs: 0 };
    meanNs += value.meanNs;
    squares += value.errorNs ** 2;
  }
  return { ...span, meanNs, errorNs: Math.sqrt(squares) };
}

/** Epochs of the segments side by side. The epochs of the path are those of its first segment, and any beyond. */
function alignEpochs(points: readonly string[], estimates: readonly SegmentEstimate[]) {
  const column = new Map(points.slice(1).map((to, j) => [JSON.stringify([points[j], to]), j]));
  const rows: EpochRow[] = [];
  const notes: string[] = [];
  let foreign = 0;
  let repeated = 0;
  const sorted = [...estimates].sort((a, b) => a.epochStartNs - b.epochStartNs);
  const columns: SegmentEstimate[][] = points.slice(1).map(() => []);
  for (const e of sorted) {
    const j = column.get(JSON.stringify([e.fromPoint, e.toPoint]));
    if (j === undefined) foreign++;
    else {
      checkEstimate(e);
      columns[j]!.push(e);
    }
  }
  // A sweep over time: an estimate joins the row whose span holds its middle, else it opens a row of its own.
  for (const [j, list] of columns.entries()) {
    let at = 0;
    for (const e of list) {
      const middle = (e.epochStartNs + e.epochEndNs) / 2;
      while (at < rows.length && spanOf(rows[at]!).endNs <= middle) at++;
      const row = rows[at];
      if (row && spanOf(row).startNs <= middle) {
        if (row[j]) repeated++;
        else row[j] = e;
      } else {
        const fresh: EpochRow = new Array(columns.length).fill(undefined);
        fresh[j] = e;
        rows.splice(at, 0, fresh);
      }
    }
  }
  if (rows.length === 0)
    throw new UsageError("no-records", `no estimate of any segment of ${points.join(" → ")}`);
  for (const [j, list] of columns.entries())
    if (list.length === 0) notes.push(`no estimate of ${points[j]} → ${points[j + 1]}`);
  if (foreign > 0) notes.push(`${foreign} estimates of other segments were left out`);
  if (repeated > 0) notes.push(`${repeated} estimates repeat an epoch and were left out`);
  return { rows, notes };
}
