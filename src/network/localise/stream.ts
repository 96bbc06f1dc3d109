/**
 * The localiser for estimates as they arrive, for days: the decomposition and the blame of every watched path are up to date after each estimate.
 *
 * A segment shared by several paths is followed once. Estimates of one segment come in time order (late and repeated ones are counted and dropped); segments
 * may run ahead of each other: an epoch of a path is closed when every segment has reported it, or, with gaps, when one segment is `lateEpochs` epochs ahead of
 * it. State: `historyEpochs` epochs for each segment and path, and the spikes that extend into them.
 */
import { UsageError } from "../../base/errors.ts";
import type { SegmentSeries } from "./blame.ts";
import {
  addDelays,
  blameOptions,
  describe,
  type Localisation,
  type LocaliseOptions,
  spanOf,
  spikeOnly,
  totalOf,
  valueIn,
} from "./localise.ts";
import { lossSettings, lossValue, pathLoss } from "./loss.ts";
import { checkEstimate, epochValue, intervalWidth, type LocaliseEstimate } from "./segment-estimate.ts";
import {
  type EpochValue,
  type SeriesSpike,
  type SpikeSettings,
  SpikeStream,
  spikeSettings,
} from "./spikes.ts";
import { blame, type EpochRow, type LossSpike, type PathSeries, type Spike } from "./verdicts.ts";

export interface StreamOptions extends LocaliseOptions {
  /** Epochs kept per segment and path. Default 1,000. */
  readonly historyEpochs?: number;
  /** How far one segment may run ahead before missing estimates count as missing. Default 3. */
  readonly lateEpochs?: number;
}

export interface StreamCounters {
  estimates: number;
  late: number;
  repeated: number;
  /** Of segments that no watched path crosses. */
  unwatched: number;
}

/** One quantity (delay or loss) as it arrives: its values, the baseline at that time, its spikes. */
class Followed {
  readonly #history: number;
  readonly #stream: SpikeStream;
  readonly values: EpochValue[] = [];
  readonly median: (number | null)[] = [];
  /** Number of epochs dropped at the front: the first remaining one has this number in `spikes`. */
  dropped = 0;

  constructor(settings: SpikeSettings, history: number) {
    this.#stream = new SpikeStream(settings);
    this.#history = history;
  }

  get spikes(): readonly SeriesSpike[] {
    return this.#stream.spikes;
  }

  push(value: EpochValue): void {
    this.median.push(this.#stream.push(value)?.median ?? null);
    this.values.push(value);
    if (this.values.length <= this.#history) return;
    this.values.shift();
    this.median.shift();
    this.dropped++;
    this.#stream.forget(this.dropped);
  }
}

interface FollowedSegment {
  readonly delay: Followed;
  readonly loss: Followed;
  readonly estimates: LocaliseEstimate[];
}

interface WatchedPath {
  readonly points: readonly string[];
  readonly segments: readonly FollowedSegment[];
  /** By segment: the number of its first estimate that is in no closed epoch. */
  readonly next: number[];
  readonly rows: EpochRow[];
  readonly delay: Followed;
  readonly loss: Followed;
  /** Start of the next epoch to close: everything before is complete. */
  closedUntilNs: number;
}

export class LocaliseStream {
  readonly #options: StreamOptions;
  readonly #settings: SpikeSettings;
  readonly #width: number;
  readonly #history: number;
  readonly #lateEpochs: number;
  readonly #segments = new Map<string, FollowedSegment>();
  readonly #paths = new Map<string, WatchedPath>();
  readonly counters: StreamCounters = { estimates: 0, late: 0, repeated: 0, unwatched: 0 };

  constructor(options: StreamOptions = {}) {
    const { historyEpochs = 1000, lateEpochs = 3, ...rest } = options;
    if (!(historyEpochs >= 1 && lateEpochs >= 1 && historyEpochs > lateEpochs))
      throw new UsageError("bad-parameter", "historyEpochs must be above lateEpochs, and both at least 1");
    this.#options = options;
    this.#settings = spikeSettings(spikeOnly(rest));
    this.#width = intervalWidth(options.confidence ?? 0.95);
    this.#history = historyEpochs;
    this.#lateEpochs = lateEpochs;
  }

  /** Watches a path, given by its points in order. A path that is watched already continues as it is. */
  watch(points: readonly string[]): void {
    if (points.length < 2) throw new UsageError("bad-parameter", "a path needs two points or more");
    const key = JSON.stringify(points);
    if (this.#paths.has(key)) return;
    const segments = pairsOf(points).map(([from, to]) => this.#follow(segmentKey(from, to)));
    this.#paths.set(key, {
      points,
      segments,
      next: segments.map(() => 0),
      rows: [],
      ...this.#followed(),
      closedUntilNs: Number.NEGATIVE_INFINITY,
    });
  }

  /** Watches exactly these paths: remaining ones, and segments shared with new ones, keep their history. */
  watchOnly(paths: Iterable<readonly string[]>): void {
    const wanted = new Map([...paths].map((points) => [JSON.stringify(points), points]));
    for (const key of [...this.#paths.keys()]) if (!wanted.has(key)) this.#paths.delete(key);
    for (const points of wanted.values()) this.watch(points);
    const used = new Set([...this.#paths.values()].flatMap((path) => path.segments));
    for (const [key, segment] of [...this.#segments]) if (!used.has(segment)) this.#segments.delete(key);
  }

  /** The paths watched now, by their points. */
  get paths(): (readonly string[])[] {
    return [...this.#paths.values()].map((path) => path.points);
  }

  /** The current state: epochs of segments and paths, and spikes. Bounded by the options, however long the stream. */
  get held(): { epochs: number; spikes: number } {
    const all = [...this.#segments.values(), ...this.#paths.values()];
    const count = (of: (one: { delay: Followed; loss: Followed }) => number) =>
      all.reduce((sum, one) => sum + of(one), 0);
    return {
      epochs: count(({ delay }) => delay.values.length),
      spikes: count(({ delay, loss }) => delay.spikes.length + loss.spikes.length),
    };
  }

  /** Adds an estimate; returns the paths with newly closed epochs. */
  add(estimate: LocaliseEstimate): (readonly string[])[] {
    checkEstimate(estimate);
    this.counters.estimates++;
    const segment = this.#segments.get(segmentKey(estimate.fromPoint, estimate.toPoint));
    if (!segment) {
      this.counters.unwatched++;
      return [];
    }
    const last = segment.estimates.at(-1);
    if (last && estimate.epochStartNs <= last.epochStartNs) {
      if (estimate.epochStartNs === last.epochStartNs) this.counters.repeated++;
      else this.counters.late++;
      return [];
    }
    segment.delay.push(epochValue(estimate, this.#width));
    segment.loss.push(lossValue(estimate));
    segment.estimates.push(estimate);
    if (segment.estimates.length > this.#history) segment.estimates.shift();
    return this.#advanceAll((path) => path.segments.includes(segment), false);
  }

  /** Closes every epoch that has any estimate: at the end of a stream. */
  flush(): (readonly string[])[] {
    return this.#advanceAll(() => true, true);
  }

  /** Returns the current result for a watched path; null before its first closed epoch. */
  localisation(points: readonly string[]): Localisation | null {
    const path = this.#path(points);
    if (path.rows.length === 0) return null;
    const { delay, loss } = this.#seriesOf(path);
    return describe(path.points, path.rows, delay, loss, { ...this.#blameOptions, notes: [] });
  }

  /** Returns the spikes of a watched path, of delay and of loss, without the rest of the decomposition. */
  verdicts(points: readonly string[]): { spikes: Spike[]; lossSpikes: LossSpike[] } {
    const path = this.#path(points);
    if (path.rows.length === 0) return { spikes: [], lossSpikes: [] };
    const { delay, loss } = this.#seriesOf(path);
    return blame(path.rows, delay, loss, this.#blameOptions);
  }

  /**
   * Returns whether a spike of the path, or of one of its segments, of at least this length extends beyond a time: otherwise verdicts on such spikes have not
   * changed.
   */
  isActiveAfter(points: readonly string[], ns: number, lastingNs = 0): boolean {
    const path = this.#path(points);
    const reaches = ({ delay, loss }: { delay: Followed; loss: Followed }) =>
      [...delay.spikes, ...loss.spikes].some(
        (spike) => spike.endNs > ns && spike.endNs - spike.startNs >= lastingNs,
      );
    return reaches(path) || path.segments.some(reaches);
  }

  /** Returns the last closed epoch of a watched path; null before the first. */
  lastEpoch(points: readonly string[]): { startNs: number; endNs: number; row: EpochRow } | null {
    const row = this.#path(points).rows.at(-1);
    return row ? { ...spanOf(row), row } : null;
  }

  /** Returns the last of the most recent epochs for which every segment has an answer; the last one if there is none. */
  lastWholeEpoch(
    points: readonly string[],
    most: number,
  ): { startNs: number; endNs: number; row: EpochRow } | null {
    const rows = this.lastEpochs(points, most);
    const row = rows.findLast((r) => r.every((e) => e !== undefined && e.meanNs !== null)) ?? rows.at(-1);
    return row ? { ...spanOf(row), row } : null;
  }

  /** Returns the most recent closed epochs. */
  lastEpochs(points: readonly string[], most: number): EpochRow[] {
    return this.#path(points).rows.slice(-most);
  }

  get #blameOptions() {
    return { ...blameOptions(this.#options), width: this.#width };
  }

  #followed(): { delay: Followed; loss: Followed } {
    return {
      delay: new Followed(this.#settings, this.#history),
      loss: new Followed(lossSettings(this.#settings), this.#history),
    };
  }

  #follow(key: string): FollowedSegment {
    const known = this.#segments.get(key);
    if (known) return known;
    const fresh = { ...this.#followed(), estimates: [] };
    this.#segments.set(key, fresh);
    return fresh;
  }

  #path(points: readonly string[]): WatchedPath {
    const path = this.#paths.get(JSON.stringify(points));
    if (!path) throw new UsageError("bad-parameter", `${points.join(" → ")} is not watched`);
    return path;
  }

  #advanceAll(which: (path: WatchedPath) => boolean, all: boolean): (readonly string[])[] {
    const moved: (readonly string[])[] = [];
    for (const path of this.#paths.values())
      if (which(path) && this.#advance(path, all)) moved.push(path.points);
    return moved;
  }

  /** Closes the epochs of a path that are complete, or overdue; returns false if there are none. */
  #advance(path: WatchedPath, all: boolean): boolean {
    for (let moved = false; ; moved = true) {
      const heads = path.segments.map((segment, j) => headOf(path, segment, j));
      const earliest = heads.reduce<LocaliseEstimate | undefined>(
        (best, e) => (e && (!best || e.epochStartNs < best.epochStartNs) ? e : best),
        undefined,
      );
      if (!earliest) return moved;
      const row: EpochRow = heads.map((e) => (e && middleOf(e) < earliest.epochEndNs ? e : undefined));
      // A head beyond this epoch proves that its segment will not report it any more; a missing head may only be slow.
      const pending = heads.includes(undefined);
      const ahead = path.segments.some((segment, j) => waiting(path, segment, j) > this.#lateEpochs);
      if (pending && !ahead && !all) return moved;
      this.#close(path, row, earliest.epochEndNs);
    }
  }

  #close(path: WatchedPath, row: EpochRow, untilNs: number): void {
    const span = spanOf(row);
    const delays = row.map((e) => valueIn(e, span, (known) => epochValue(known, this.#width)));
    const losses = row.map((e) => valueIn(e, span, lossValue));
    path.delay.push(totalOf(delays, span, addDelays));
    path.loss.push(totalOf(losses, span, pathLoss));
    path.rows.push(row);
    path.closedUntilNs = untilNs;
    if (path.rows.length > this.#history) path.rows.shift();
  }

  /** The segments' own series, mapped to the epochs of the path. */
  #seriesOf(path: WatchedPath): { delay: PathSeries; loss: PathSeries } {
    const laid = pairsOf(path.points).map(([from, to], j) => {
      const segment = path.segments[j] as FollowedSegment;
      const place = new Map(segment.estimates.map((e, i) => [e, i]));
      // By epoch of the path: its index in the segment's own series.
      const at = path.rows.map((row) => row[j] && place.get(row[j]));
      const rowOf = new Map(at.flatMap((i, row) => (i === undefined ? [] : [[i, row]])));
      const lay = (followed: Followed, value: (e: LocaliseEstimate) => EpochValue): SegmentSeries => ({
        ...{ from, to },
        values: path.rows.map((row) => valueIn(row[j], spanOf(row), value)),
        median: at.map((i) => (i === undefined ? null : (followed.median[i] ?? null))),
        spikes: followed.spikes.flatMap((spike) => placed(spike, followed.dropped, rowOf)),
      });
      return {
        delay: lay(segment.delay, (e) => epochValue(e, this.#width)),
        loss: lay(segment.loss, lossValue),
      };
    });
    return {
      delay: { segments: laid.map((l) => l.delay), whole: wholeSeries(path, path.delay) },
      loss: { segments: laid.map((l) => l.loss), whole: wholeSeries(path, path.loss) },
    };
  }
}

function wholeSeries({ points }: WatchedPath, { values, median, spikes, dropped }: Followed): SegmentSeries {
  return {
    from: points[0] ?? "",
    to: points.at(-1) ?? "",
    values,
    median,
    spikes: spikes.flatMap((spike) =>
      spike.last < dropped
        ? []
        : [{ ...spike, first: Math.max(0, spike.first - dropped), last: spike.last - dropped }],
    ),
  };
}

/** Returns how many estimates of the segment are in no closed epoch of the path. */
function waiting(path: WatchedPath, { delay, estimates }: FollowedSegment, j: number): number {
  return delay.dropped + estimates.length - (path.next[j] ?? 0);
}

/** Returns the first estimate of a segment that belongs to no closed epoch of the path. */
function headOf(path: WatchedPath, segment: FollowedSegment, j: number): LocaliseEstimate | undefined {
  const { dropped } = segment.delay;
  let next = Math.max(path.next[j] ?? 0, dropped);
  let head = segment.estimates[next - dropped];
  while (head && middleOf(head) < path.closedUntilNs) head = segment.estimates[++next - dropped];
  path.next[j] = next;
  return head;
}

/** Maps a spike of a segment to the epochs of the path; empty if none of its epochs is left there. */
function placed(spike: SeriesSpike, dropped: number, rowOf: ReadonlyMap<number, number>): SeriesSpike[] {
  let [first, last] = [-1, -1];
  for (let i = Math.max(0, spike.first - dropped); i <= spike.last - dropped; i++) {
    const row = rowOf.get(i);
    if (row === undefined) continue;
    if (first < 0) first = row;
    last = row;
  }
  return first < 0 ? [] : [{ ...spike, first, last }];
}

function pairsOf(points: readonly string[]): (readonly [string, string])[] {
  return points.slice(1).map((to, j) => [points[j] ?? "", to] as const);
}

function segmentKey(from: string, to: string): string {
  return JSON.stringify([from, to]);
}

function middleOf(e: LocaliseEstimate): number {
  return (e.epochStartNs + e.epochEndNs) / 2;
}
