/**
 * The monitoring station (MPLANE, sections II and VI): takes a map and a stream of segment estimates and keeps the decomposition and the blame of every watched
 * path up to date. After a change of the map, paths requested by their ends are cut again; remaining segments keep their series.
 */
import type { Localisation } from "../localise/localise.ts";
import type { LocaliseEstimate } from "../localise/segment-estimate.ts";
import { LocaliseStream, type StreamCounters, type StreamOptions } from "../localise/stream.ts";
import type { LossSpike, Spike } from "../localise/verdicts.ts";
import { type Deployment, segmentsOf } from "../plan/deployment.ts";
import { equalCostPaths } from "../plan/shortest-paths.ts";
import { routerIndex, type Topology } from "../topology/topology.ts";

export interface StationOptions extends StreamOptions {
  /** Maximum number of equal-cost paths watched for one pair. Default 16. */
  readonly pathLimit?: number;
}

const PATH_LIMIT = 16;

export class MonitoringStation {
  #topology: Topology;
  #deployed: Deployment;
  readonly #pathLimit: number;
  readonly #stream: LocaliseStream;
  readonly #pairs: { from: string; to: string }[] = [];
  readonly #chains: (readonly string[])[] = [];

  constructor(topology: Topology, deployed: Deployment, options: StationOptions = {}) {
    const { pathLimit = PATH_LIMIT, ...rest } = options;
    this.#topology = topology;
    this.#deployed = deployed;
    this.#pathLimit = pathLimit;
    this.#stream = new LocaliseStream(rest);
  }

  get counters(): Readonly<StreamCounters> {
    return this.#stream.counters;
  }

  /** Watches all equal-cost paths between two routers; returns their points, one list per path. */
  watch(from: string, to: string): (readonly string[])[] {
    const chains = this.#chainsOf(from, to);
    this.#pairs.push({ from, to });
    for (const points of chains) this.#stream.watch(points);
    return chains;
  }

  /** Watches a path given by its points, whatever the map contains. */
  watchPoints(points: readonly string[]): void {
    this.#stream.watch(points);
    this.#chains.push(points);
  }

  /** The paths watched now, by their points. */
  get paths(): (readonly string[])[] {
    return this.#stream.paths;
  }

  /** Sets a new map or deployment: pairs are cut again, remaining paths keep their history. */
  change(topology: Topology, deployed: Deployment): void {
    this.#topology = topology;
    this.#deployed = deployed;
    this.#stream.watchOnly([
      ...this.#chains,
      ...this.#pairs.flatMap(({ from, to }) => this.#chainsOf(from, to)),
    ]);
  }

  /** Adds an estimate; returns the paths with new results. */
  add(estimate: LocaliseEstimate): (readonly string[])[] {
    return this.#stream.add(estimate);
  }

  /** Closes every epoch that has any estimate: at the end of a stream. */
  flush(): void {
    this.#stream.flush();
  }

  /** Returns the current result for a watched path; null before its first closed epoch. */
  localisation(points: readonly string[]): Localisation | null {
    return this.#stream.localisation(points);
  }

  /** Returns the spikes of delay of a watched path, without the rest of the decomposition. */
  spikes(points: readonly string[]): Spike[] {
    return this.#stream.verdicts(points).spikes;
  }

  /** Returns the spikes of loss of a watched path. */
  lossSpikes(points: readonly string[]): LossSpike[] {
    return this.#stream.verdicts(points).lossSpikes;
  }

  #chainsOf(from: string, to: string): (readonly string[])[] {
    return pathsBetween(this.#topology, this.#deployed, from, to, this.#pathLimit);
  }
}

/** The points of all equal-cost paths between two routers, cut at the m-routers. */
export function pathsBetween(
  topology: Topology,
  deployed: Deployment,
  from: string,
  to: string,
  limit = PATH_LIMIT,
): string[][] {
  const ends = [routerIndex(topology, from), routerIndex(topology, to)] as const;
  return equalCostPaths(topology, ...ends, limit).map((path) => {
    const segments = segmentsOf(topology, deployed, path);
    return [...segments.slice(0, 1).map((s) => s.from), ...segments.map((s) => s.to)];
  });
}
