/**
 * The monitoring station (MPLANE, sections II and VI): takes a map and a stream of segment estimates and keeps, for every
 * path it watches, the decomposition and the blame up to date.
 *
 * A segment shared by several paths is followed once. Estimates of one segment come in time order (late and repeated ones
 * are counted and dropped); segments may run ahead of each other: an epoch of a path is closed when every segment has
 * reported it, or when one segment is `lateEpochs` epochs ahead of it, then with holes. After a change of the map, paths
 * asked for by their ends are cut anew; series of segments that stay are kept.
 */
import { UsageError } from "../../base/errors.ts";
import type { SegmentSeries } from "../localise/blame.ts";
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
} from "../localise/localise.ts";
import { lossSettings, lossValue, pathLoss } from "../localise/loss.ts";
import {
  checkEstimate,
  epochValue,
  intervalWidth,
  type SegmentEstimate,
} from "../localise/segment-estimate.ts";
import {
  type EpochValue,
  type SeriesSpike,
  type SpikeSettings,
  SpikeStream,
  spikeSettings,
} from "../localise/spikes.ts";
import { blame, type EpochRow, type LossSpike, type PathSeries, type Spike } from "../localise/verdicts.ts";
import { type Deployment, segmentsOf } from "../plan/deployment.ts";
import { equalCostPaths } from "../plan/shortest-paths.ts";
import { routerIndex, type Topology } from "../topology/topology.ts";

export interface StationOptions extends LocaliseOptions {
  /** Epochs kept per segment and path. Default 1,000. */
  readonly historyEpochs?: number;
  /** How far one segment may run ahead before missing estimates count as missing. Default 3. */
  readonly lateEpochs?: number;
  /** Most equal-cost paths watched for one pair. Default 16. */
  readonly pathLimit?: number;
}

export interface StationCounters {
  estimates: number;
  late: number;
  repeated: number;
  /** Of segments that no watched path crosses. */
  unwatched: number;
}

/** One quantity (delay or loss) as it comes: its values, what was ordinary then, its spikes. */
class Followed {
  readonly stream: SpikeStream;
  readonly values: EpochValue[] = [];
  readonly median: (number | null)[] = [];

  constructor(settings: SpikeSettings) {
    this.stream = new SpikeStream(settings);
  }

  push(value: EpochValue, history: number): void {
    this.median.push(this.stream.push(value)?.median ?? null);
    this.values.push(value);
    if (this.values.length <= history) return;
    this.values.shift();
    this.median.shift();
  }
}

interface FollowedSegment {
  readonly delay: Followed;
  readonly loss: Followed;
  readonly estimates: SegmentEstimate[];
  /** How many epochs were dropped at the front, so that spike indices can be turned into current ones. */
  dropped: number;
}

interface WatchedPath {
  readonly points: readonly string[];
  readonly keys: readonly string[];
  readonly rows: EpochRow[];
  readonly delay: Followed;
  readonly loss: Followed;
  /** Start of the next epoch to close: everything before is done. */
  closedUntilNs: number;
  dropped: number;
}

export class MonitoringStation {
  #topology: Topology;
  #deployed: Deployment;
  readonly #options: StationOptions;
  readonly #settings: SpikeSettings;
  readonly #width: number;
  readonly #segments = new Map<string, FollowedSegment>();
  readonly #paths = new Map<string, WatchedPath>();
  readonly #pairs: { from: string; to: string }[] = [];
  readonly #chains: (readonly string[])[] = [];
  readonly counters: StationCounters = { estimates: 0, late: 0, repeated: 0, unwatched: 0 };

  constructor(topology: Topology, deployed: Deployment, options: StationOptions = {}) {
    this.#topology = topology;
    this.#deployed = deployed;
    this.#options = options;
    this.#settings = spikeSettings(stationSpikes(options));
    this.#width = intervalWidth(options.confidence ?? 0.95);
  }

  /** Watch all equal-cost paths between two routers; answers their points, one list per path. */
  watch(from: string, to: string): (readonly string[])[] {
    const chains = this.#chainsOf(from, to);
    this.#pairs.push({ from, to });
    for (const points of chains) this.#open(points);
    return chains;
  }

  /** Watch a path given by its points, whatever the map says. */
  watchPoints(points: readonly string[]): void {
    if (points.length < 2) throw new UsageError("bad-parameter", "a path needs two points or more");
    this.#chains.push(points);
    this.#open(points);
  }

  /** The paths watched now, by their points. */
  get paths(): (readonly string[])[] {
    return [...this.#paths.values()].map((path) => path.points);
  }

  /** A new map or deployment: pairs are cut anew, paths that stay keep their history. */
  change(topology: Topology, deployed: Deployment): void {
    this.#topology = topology;
    this.#deployed = deployed;
    const wanted = new Map<string, readonly string[]>();
    for (const points of this.#chains) wanted.set(JSON.stringify(points), points);
    for (const { from, to } of this.#pairs)
      for (const points of this.#chainsOf(from, to)) wanted.set(JSON.stringify(points), points);
    for (const key of [...this.#paths.keys()]) if (!wanted.has(key)) this.#paths.delete(key);
    for (const points of wanted.values()) this.#open(points);
    const used = new Set([...this.#paths.values()].flatMap((path) => path.keys));
    for (const key of [...this.#segments.keys()]) if (!used.has(key)) this.#segments.delete(key);
  }

  add(estimate: SegmentEstimate): void {
    checkEstimate(estimate);
    this.counters.estimates++;
    const key = segmentKey(estimate.fromPoint, estimate.toPoint);
    const segment = this.#segments.get(key);
    if (!segment) {
      this.counters.unwatched++;
      return;
    }
    const last = segment.estimates.at(-1);
    if (last && estimate.epochStartNs <= last.epochStartNs) {
      if (estimate.epochStartNs === last.epochStartNs) this.counters.repeated++;
      else this.counters.late++;
      return;
    }
    segment.delay.push(epochValue(estimate, this.#width), this.#history);
    segment.loss.push(lossValue(estimate), this.#history);
    segment.estimates.push(estimate);
    if (segment.estimates.length > this.#history) {
      segment.estimates.shift();
      segment.dropped++;
    }
    for (const path of this.#paths.values()) if (path.keys.includes(key)) this.#advance(path);
  }

  /** Closes every epoch that has any estimate: at the end of a stream. */
  flush(): void {
    for (const path of this.#paths.values()) this.#advance(path, true);
  }

  /** What is known of a watched path now; null before its first closed epoch. */
  localisation(points: readonly string[]): Localisation | null {
    const path = this.#path(points);
    if (path.rows.length === 0) return null;
    const { delay, loss } = this.#seriesOf(path);
    return describe(path.points, path.rows, delay, loss, { ...this.#blameOptions, notes: [] });
  }

  /** The spikes of delay of a watched path, without the rest of the decomposition. */
  spikes(points: readonly string[]): Spike[] {
    return this.#verdicts(points).spikes;
  }

  /** The spikes of loss of a watched path. */
  lossSpikes(points: readonly string[]): LossSpike[] {
    return this.#verdicts(points).lossSpikes;
  }

  #verdicts(points: readonly string[]): { spikes: Spike[]; lossSpikes: LossSpike[] } {
    const path = this.#path(points);
    if (path.rows.length === 0) return { spikes: [], lossSpikes: [] };
    const { delay, loss } = this.#seriesOf(path);
    return blame(path.rows, delay, loss, this.#blameOptions);
  }

  get #blameOptions() {
    return { ...blameOptions(this.#options), width: this.#width };
  }

  get #history(): number {
    return this.#options.historyEpochs ?? 1000;
  }

  #path(points: readonly string[]): WatchedPath {
    const path = this.#paths.get(JSON.stringify(points));
    if (!path) throw new UsageError("bad-parameter", `${points.join(" → ")} is not watched`);
    return path;
  }

  #chainsOf(from: string, to: string): (readonly string[])[] {
    const limit = this.#options.pathLimit ?? 16;
    const paths = equalCostPaths(
      this.#topology,
      routerIndex(this.#topology, from),
      routerIndex(this.#topology, to),
      limit,
    );
    return paths.map((path) => {
      const segments = segmentsOf(this.#topology, this.#deployed, path);
      return [segments[0]!.from, ...segments.map((s) => s.to)];
    });
  }

  #open(points: readonly string[]): void {
    const key = JSON.stringify(points);
    if (this.#paths.has(key)) return;
    const keys = points.slice(1).map((to, j) => segmentKey(points[j]!, to));
    for (const segment of keys)
      if (!this.#segments.has(segment))
        this.#segments.set(segment, {
          delay: new Followed(this.#settings),
          loss: new Followed(lossSettings(this.#settings)),
          estimates: [],
          dropped: 0,
        });
    this.#paths.set(key, {
      points,
      keys,
      rows: [],
      delay: new Followed(this.#settings),
      loss: new Followed(lossSettings(this.#settings)),
      closedUntilNs: Number.NEGATIVE_INFINITY,
      dropped: 0,
    });
  }

  /** Closes the epochs of a path that are complete, or overdue. */
  #advance(path: WatchedPath, all = false): void {
    const lateEpochs = this.#options.lateEpochs ?? 3;
    for (;;) {
      const waiting = path.keys.map((key) =>
        this.#segments.get(key)!.estimates.filter((e) => middleOf(e) >= path.closedUntilNs),
      );
      const heads = waiting.map((list) => list[0]);
      const earliest = heads.reduce<SegmentEstimate | undefined>(
        (best, e) => (e && (!best || e.epochStartNs < best.epochStartNs) ? e : best),
        undefined,
      );
      if (!earliest) return;
      const row: EpochRow = heads.map((e) => (e && middleOf(e) < earliest.epochEndNs ? e : undefined));
      // A head beyond this epoch proves its segment will not report it any more; no head at all may only be slow.
      const pending = heads.some((e) => e === undefined);
      const ahead = waiting.some((list) => list.length > lateEpochs);
      if (pending && !ahead && !all) return;
      this.#close(path, row, earliest.epochEndNs);
    }
  }

  #close(path: WatchedPath, row: EpochRow, untilNs: number): void {
    const span = spanOf(row);
    const delays = row.map((e) => valueIn(e, span, (known) => epochValue(known, this.#width)));
    const losses = row.map((e) => valueIn(e, span, lossValue));
    path.delay.push(totalOf(delays, span, addDelays), this.#history);
    path.loss.push(totalOf(losses, span, pathLoss), this.#history);
    path.rows.push(row);
    path.closedUntilNs = untilNs;
    if (path.rows.length > this.#history) {
      path.rows.shift();
      path.dropped++;
    }
  }

  /** The segments' own series, laid over the epochs of the path. */
  #seriesOf(path: WatchedPath): { delay: PathSeries; loss: PathSeries } {
    const laid = path.keys.map((key, j) => {
      const segment = this.#segments.get(key)!;
      const place = new Map(segment.estimates.map((e, i) => [e, i]));
      // By epoch of the path: where the segment's own series has it.
      const at = path.rows.map((row) => row[j] && place.get(row[j]));
      const rowOf = new Map(at.flatMap((i, row) => (i === undefined ? [] : [[i + segment.dropped, row]])));
      const lay = (followed: Followed, value: (e: SegmentEstimate) => EpochValue): SegmentSeries => ({
        from: path.points[j]!,
        to: path.points[j + 1]!,
        values: path.rows.map((row) => valueIn(row[j], spanOf(row), value)),
        median: at.map((i) => (i === undefined ? null : followed.median[i]!)),
        spikes: followed.stream.spikes.flatMap((spike) => placed(spike, rowOf)),
      });
      return {
        delay: lay(segment.delay, (e) => epochValue(e, this.#width)),
        loss: lay(segment.loss, lossValue),
      };
    });
    const whole = ({ values, median, stream }: Followed): SegmentSeries => ({
      from: path.points[0]!,
      to: path.points.at(-1)!,
      values,
      median,
      spikes: stream.spikes.flatMap((spike) =>
        spike.last < path.dropped
          ? []
          : [{ ...spike, first: Math.max(0, spike.first - path.dropped), last: spike.last - path.dropped }],
      ),
    });
    return {
      delay: { segments: laid.map((l) => l.delay), whole: whole(path.delay) },
      loss: { segments: laid.map((l) => l.loss), whole: whole(path.loss) },
    };
  }
}

/** A spike of a segment in the epochs of the path; nothing where none of its epochs is left there. */
function placed(spike: SeriesSpike, rowOf: ReadonlyMap<number, number>): SeriesSpike[] {
  const inside: number[] = [];
  for (let i = spike.first; i <= spike.last; i++) {
    const row = rowOf.get(i);
    if (row !== undefined) inside.push(row);
  }
  return inside.length > 0 ? [{ ...spike, first: inside[0]!, last: inside.at(-1)! }] : [];
}

function segmentKey(from: string, to: string): string {
  return JSON.stringify([from, to]);
}

function middleOf(e: SegmentEstimate): number {
  return (e.epochStartNs + e.epochEndNs) / 2;
}

function stationSpikes(options: StationOptions) {
  const { historyEpochs: _h, lateEpochs: _l, pathLimit: _p, ...rest } = options;
  return spikeOnly(rest);
}
