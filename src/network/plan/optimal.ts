/**
 * The best set of routers to upgrade, by exhaustive search with a bound: for small maps, and to show how far greedy is from it. What an upgrade removes is a
 * coverage function (see uncut-paths.ts), so the sum of the largest remaining gains is an upper bound on what further upgrades can remove. Exact or refused:
 * beyond the search limit it throws.
 */
import { UsageError } from "../../base/errors.ts";
import { entryAt } from "../../base/lists.ts";
import type { Topology } from "../topology/topology.ts";
import { compileGraph, countPaths, pathsTo, shortestPathDag } from "./shortest-paths.ts";

const MAX_PATHS = 50_000;
const MAX_SEARCH_STEPS = 3_000_000;

export class OptimalSearch {
  readonly #topology: Topology;
  /** By group of paths with the same inner routers: those routers, and the total hops of the paths. */
  readonly #inner: number[][] = [];
  readonly #hops: number[] = [];
  readonly #groupsOf: number[][];
  readonly totalHops: number;

  constructor(topology: Topology, already: ReadonlySet<number>) {
    this.#topology = topology;
    const graph = compileGraph(topology);
    const dags = Array.from({ length: graph.size }, (_, s) => shortestPathDag(graph, s));
    const paths = dags.reduce((sum, dag) => sum + countPaths(dag).reduce((a, b) => a + b, -1), 0);
    if (paths > MAX_PATHS)
      throw tooLarge(topology, `${paths} shortest paths, at most ${MAX_PATHS} are searched`);
    const groups = new Map<string, number>();
    let total = 0;
    for (const dag of dags)
      for (const target of dag.order.subarray(1))
        for (const path of pathsTo(dag, target, (r) => !already.has(r))) {
          total += path.links.length;
          if (path.links.length < 2) continue;
          const inner = path.routers.slice(1, -1).sort((a, b) => a - b);
          const key = inner.join();
          const known = groups.get(key);
          if (known !== undefined) this.#hops[known]! += path.links.length;
          else {
            groups.set(key, this.#inner.length);
            this.#inner.push(inner);
            this.#hops.push(path.links.length);
          }
        }
    this.totalHops = total;
    this.#groupsOf = topology.routers.map(() => []);
    this.#inner.forEach((inner, g) => {
      for (const r of inner) entryAt(this.#groupsOf, r).push(g);
    });
  }

  /** The best `count` routers and the remaining probe hops; `start`: a good set to beat (greedy's). */
  best(count: number, start: readonly number[]): { routers: number[]; probeHops: number } {
    let bestSet = [...start];
    let bestRemoved = this.#removedBy(start);
    const hits = new Int32Array(this.#inner.length);
    const chosen: number[] = [];
    let steps = 0;
    const search = (removed: number, candidates: readonly number[]): void => {
      if (removed > bestRemoved) {
        bestRemoved = removed;
        bestSet = [...chosen];
      }
      const left = count - chosen.length;
      if (left === 0) return;
      if (++steps > MAX_SEARCH_STEPS)
        throw tooLarge(this.#topology, `the search for ${count} routers did not end`);
      const ranked = candidates
        .map((router) => ({ router, gain: this.#gain(router, hits) }))
        .filter(({ gain }) => gain > 0)
        .sort((a, b) => b.gain - a.gain || a.router - b.router);
      for (let i = 0; i < ranked.length; i++) {
        let bound = removed;
        for (let j = i; j < Math.min(ranked.length, i + left); j++) bound += entryAt(ranked, j).gain;
        if (bound <= bestRemoved) return;
        const { router, gain } = entryAt(ranked, i);
        chosen.push(router);
        for (const g of entryAt(this.#groupsOf, router)) hits[g]!++;
        search(
          removed + gain,
          ranked.slice(i + 1).map((r) => r.router),
        );
        for (const g of entryAt(this.#groupsOf, router)) hits[g]!--;
        chosen.pop();
      }
    };
    search(
      0,
      this.#topology.routers.map((_, i) => i),
    );
    return { routers: bestSet, probeHops: this.totalHops - bestRemoved };
  }

  #gain(router: number, hits: Int32Array): number {
    let gain = 0;
    for (const g of entryAt(this.#groupsOf, router)) if (hits[g] === 0) gain += entryAt(this.#hops, g);
    return gain;
  }

  #removedBy(routers: readonly number[]): number {
    const hit = new Set(routers.flatMap((r) => entryAt(this.#groupsOf, r)));
    let removed = 0;
    for (const g of hit) removed += entryAt(this.#hops, g);
    return removed;
  }
}

function tooLarge(topology: Topology, why: string): UsageError {
  return new UsageError(
    "not-supported",
    `${topology.name} is too large for optimal-small: ${why}`,
    "use ‘strategy greedy’, which is usually close to the optimum (docs/network.md)",
  );
}
