/**
 * The monitoring station (MPLANE, sections II and VI): takes a map and a stream of segment estimates and keeps, for every
 * path it watches, the decomposition and the blame up to date.
 *
 * A segment shared by several paths is followed once. Estimates of one segment come in time order (late and repeated ones
 * are counted and dropped); segments may run ahead of each other: an epoch of a path is closed when every segment has
 * reported it, or when one segment is `lateEpochs` epochs ahead of it, then with holes. After a change of the map, paths
 * asked for by their ends are cut anew; series of segments that stay are kept.
 */
import { UsageError } from "../base/errors.ts";
import { blame, type SegmentSeries, type Spike } from "./blame.ts";
import { type Deployment, segmentsOf } from "./deployment.ts";
import {
  blameOptions,
  describe,
  type EpochRow,
  type Localisation,
  type LocaliseOptions,
  spanOf,
  spikeOnly,
  totalOf,
  valueIn,
} from "./localise.ts";
import { checkEstimate, epochValue, intervalWidth, type SegmentEstimate } from "./segment-estimate.ts";
import { equalCostPaths } from "./shortest-paths.ts";
import {
  type EpochValue,
  type SeriesSpike,
  type SpikeSettings,
  SpikeStream,
  spikeSettings,
} from "./spikes.ts";
import { routerIndex, type Topology } from "./topology.ts";

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

interface FollowedSegment {
  readonly stream: SpikeStream;
  readonly estimates: SegmentEstimate[];
  readonly values: EpochValue[];
  readonly medianNs: (number | null)[];
  /** How many epochs were dropped at the front, so that spike indices can be turned into current ones. */
  dropped: number;
}

interface WatchedPath {
  readonly points: readonly string[];
  readonly keys: readonly string[];
  readonly rows: EpochRow[];
  readonly totals: EpochValue[];
  readonly totalMedianNs: (number | null)[];
  stream: SpikeStream;
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
    const value = epochValue(estimate, this.#width);
    const baseline = segment.stream.push(value);
    segment.estimates.push(estimate);
    segment.values.push(value);
    segment.medianNs.push(baseline?.medianNs ?? null);
    if (segment.estimates.length > this.#history) {
      segment.estimates.shift();
      segment.values.shift();
      segment.medianNs.shift();
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
    const { series, whole } = this.#seriesOf(path);
    const options = { ...blameOptions(this.#options), width: this.#width, notes: [] as string[] };
    return describe(path.points, path.rows, series, whole, options);
  }

  /** The spikes of a watched path, without the rest of the decomposition. */
  spikes(points: readonly string[]): Spike[] {
    const path = this.#path(points);
    if (path.rows.length === 0) return [];
    const { series, whole } = this.#seriesOf(path);
    return blame(series, whole, blameOptions(this.#options));
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
          stream: new SpikeStream(this.#settings),
          estimates: [],
          values: [],
          medianNs: [],
          dropped: 0,
        });
    this.#paths.set(key, {
      points,
      keys,
      rows: [],
      totals: [],
      totalMedianNs: [],
      stream: new SpikeStream(this.#settings),
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
    const total = totalOf(
      row.map((e) => ({ values: [valueIn(e, span, this.#width)] })),
      0,
      span,
    );
    const baseline = path.stream.push(total);
    path.rows.push(row);
    path.totals.push(total);
    path.totalMedianNs.push(baseline?.medianNs ?? null);
    path.closedUntilNs = untilNs;
    if (path.rows.length > this.#history) {
      path.rows.shift();
      path.totals.shift();
      path.totalMedianNs.shift();
      path.dropped++;
    }
  }

  /** The segments' own series, laid over the epochs of the path. */
  #seriesOf(path: WatchedPath): { series: SegmentSeries[]; whole: SegmentSeries } {
    const series = path.keys.map((key, j) => {
      const segment = this.#segments.get(key)!;
      const rowOf = new Map<number, number>();
      const place = new Map(segment.estimates.map((e, i) => [e, i]));
      const values = path.rows.map((row, i) => {
        const e = row[j];
        const at = e && place.get(e);
        if (at !== undefined) rowOf.set(at + segment.dropped, i);
        return valueIn(e, spanOf(row), this.#width);
      });
      const medianNs = path.rows.map((row) => {
        const at = row[j] && place.get(row[j]);
        return at === undefined ? null : segment.medianNs[at]!;
      });
      const spikes = segment.stream.spikes.flatMap((spike) => {
        const inside: number[] = [];
        for (let i = spike.first; i <= spike.last; i++) {
          const row = rowOf.get(i);
          if (row !== undefined) inside.push(row);
        }
        return inside.length > 0 ? [{ ...spike, first: inside[0]!, last: inside.at(-1)! }] : [];
      });
      return { from: path.points[j]!, to: path.points[j + 1]!, values, medianNs, spikes };
    });
    const spikes: SeriesSpike[] = path.stream.spikes.flatMap((spike) =>
      spike.last < path.dropped
        ? []
        : [{ ...spike, first: Math.max(0, spike.first - path.dropped), last: spike.last - path.dropped }],
    );
    const whole = {
      from: path.points[0]!,
      to: path.points.at(-1)!,
      values: path.totals,
      medianNs: path.totalMedianNs,
      spikes,
    };
    return { series, whole };
  }
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
