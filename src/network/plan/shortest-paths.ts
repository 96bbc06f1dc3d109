/**
 * Shortest paths with all equal-cost alternatives: one directed acyclic graph per source, path counts by dynamic programming, and single paths on demand.
 *
 * The number of equal-cost paths grows exponentially with a map's diameter, so nothing here lists paths unless asked, and listing is lazy. Costs are compared
 * as integers (weights scaled by a power of ten, six decimals at most), because 0.1 + 0.2 is not 0.3 and an equal-cost path must not be missed for that. Counts
 * are exact below 2^53.
 */

import { UsageError } from "../../base/errors.ts";
import { entryAt } from "../../base/lists.ts";
import { byName, type Topology } from "../topology/topology.ts";

/** The links that are up, as rows per router, sorted by the name of the far end: enumeration is in name order. */
export interface Graph {
  readonly size: number;
  readonly first: Int32Array;
  readonly head: Int32Array;
  readonly cost: Float64Array;
  /** Index into `topology.links`. */
  readonly link: Int32Array;
}

/** All shortest paths from one source. Everything is by position in `order`, which is sorted by distance. */
export interface PathDag {
  readonly source: number;
  /** Reachable routers; the source is first. */
  readonly order: Int32Array;
  /** Scaled cost from the source, by position. */
  readonly distance: Float64Array;
  /** Successors of position p: next[first[p] .. first[p + 1]), as positions; `link`: their links. */
  readonly first: Int32Array;
  readonly next: Int32Array;
  readonly link: Int32Array;
}

export interface Path {
  readonly routers: readonly number[];
  /** Indices into `topology.links`, one fewer than routers. */
  readonly links: readonly number[];
}

const MAX_DECIMALS = 6;

export function compileGraph(topology: Topology): Graph {
  const scale = costScale(topology);
  const size = topology.routers.length;
  const up = topology.links.map((link, i) => ({ link, i })).filter(({ link }) => link.up);
  up.sort(
    (a, b) =>
      a.link.from - b.link.from ||
      byName(entryAt(topology.routers, a.link.to).name, entryAt(topology.routers, b.link.to).name) ||
      a.i - b.i,
  );
  const first = new Int32Array(size + 1);
  for (const { link } of up) first[link.from + 1]!++;
  for (let i = 0; i < size; i++) first[i + 1]! += first[i]!;
  return {
    size,
    first,
    head: Int32Array.from(up, ({ link }) => link.to),
    cost: Float64Array.from(up, ({ link }) => Math.max(1, Math.round(link.weight * scale))),
    link: Int32Array.from(up, ({ i }) => i),
  };
}

/** All-pairs paths need memory quadratic in the routers, and time of routers times links: a gigabyte and some minutes at these limits. */
const MAX_ROUTERS = 5_000;
const MAX_ROUTER_LINKS = 500_000_000;

/** Refuses maps whose all-pairs paths would exceed the memory. */
export function requireAllPairs(topology: Topology): void {
  const routers = topology.routers.length;
  const links = topology.links.length;
  if (routers <= MAX_ROUTERS && routers * links <= MAX_ROUTER_LINKS) return;
  const [has, most] =
    routers > MAX_ROUTERS
      ? [`${routers.toLocaleString("en-US")} routers`, MAX_ROUTERS]
      : [
          `${links.toLocaleString("en-US")} links of ${routers.toLocaleString("en-US")} routers`,
          Math.floor(MAX_ROUTER_LINKS / routers),
        ];
  throw new UsageError(
    "not-supported",
    `${topology.name}: ${has}; the paths of all pairs are found for at most ${most.toLocaleString("en-US")}`,
    "take a part of the network, or one router for each site",
  );
}

/** The smallest power of ten that makes every weight an integer, at most 10^6. */
function costScale(topology: Topology): number {
  let scale = 1;
  let largest = 0;
  for (const { weight } of topology.links) {
    if (!(weight > 0 && Number.isFinite(weight)))
      throw new UsageError(
        "bad-topology",
        `${topology.name}: a link has the weight ${weight}; it must be positive`,
      );
    largest = Math.max(largest, weight);
    while (scale < 10 ** MAX_DECIMALS && Math.abs(weight * scale - Math.round(weight * scale)) > 1e-9)
      scale *= 10;
  }
  if (largest * scale * topology.routers.length > Number.MAX_SAFE_INTEGER)
    throw new UsageError(
      "bad-topology",
      `${topology.name}: weights up to ${largest} are too large to add up`,
    );
  return scale;
}

/** Dijkstra with a binary heap; equal distances are ordered by router index, on which no result depends. */
export function shortestPathDag(graph: Graph, source: number): PathDag {
  const { size, first, head, cost } = graph;
  const distance = new Float64Array(size).fill(Number.POSITIVE_INFINITY);
  const position = new Int32Array(size).fill(-1);
  const order: number[] = [];
  const heap = new DistanceHeap();
  distance[source] = 0;
  heap.push(source, 0);
  for (let router = heap.pop(); router >= 0; router = heap.pop()) {
    if (position[router]! >= 0) continue;
    position[router] = order.length;
    order.push(router);
    for (let e = first[router]!; e < first[router + 1]!; e++) {
      const to = head[e]!;
      const there = distance[router]! + cost[e]!;
      if (there < distance[to]!) {
        distance[to] = there;
        heap.push(to, there);
      }
    }
  }
  const rowStart = new Int32Array(order.length + 1);
  const next: number[] = [];
  const link: number[] = [];
  for (let p = 0; p < order.length; p++) {
    const router = order[p]!;
    for (let e = first[router]!; e < first[router + 1]!; e++) {
      const to = head[e]!;
      if (distance[router]! + cost[e]! !== distance[to]!) continue;
      next.push(position[to]!);
      link.push(graph.link[e]!);
    }
    rowStart[p + 1] = next.length;
  }
  return {
    source,
    order: Int32Array.from(order),
    distance: Float64Array.from(order, (router) => distance[router]!),
    first: rowStart,
    next: Int32Array.from(next),
    link: Int32Array.from(link),
  };
}

/** Number of shortest paths from the source, by position. */
export function countPaths(dag: PathDag): Float64Array {
  const count = new Float64Array(dag.order.length);
  count[0] = 1;
  for (let p = 0; p < dag.order.length; p++)
    for (let e = dag.first[p]!; e < dag.first[p + 1]!; e++) count[dag.next[e]!]! += count[p]!;
  return count;
}

/**
 * Yields shortest paths from the dag's source to one router, in name order, one at a time. `through` marks the routers that a path may pass (ends excepted);
 * undefined: all.
 */
export function* pathsTo(
  dag: PathDag,
  target: number,
  through?: (router: number) => boolean,
): Generator<Path> {
  const goal = dag.order.indexOf(target);
  if (goal <= 0) return;
  const leads = new Uint8Array(dag.order.length);
  leads[goal] = 1;
  for (let p = goal - 1; p >= 0; p--) {
    if (p > 0 && through && !through(dag.order[p]!)) continue;
    for (let e = dag.first[p]!; e < dag.first[p + 1]!; e++) if (leads[dag.next[e]!]) leads[p] = 1;
  }
  if (!leads[0]) return;
  const routers = [dag.source];
  const links: number[] = [];
  // Explicit depth-first search: each level has the edge to try next.
  const positions = [0];
  const edges = [dag.first[0]!];
  while (positions.length > 0) {
    const depth = positions.length - 1;
    const p = positions[depth]!;
    const e = edges[depth]!;
    if (p === goal || e >= dag.first[p + 1]!) {
      if (p === goal) yield { routers: [...routers], links: [...links] };
      positions.pop();
      edges.pop();
      routers.pop();
      links.pop();
      continue;
    }
    edges[depth] = e + 1;
    const to = dag.next[e]!;
    if (!leads[to]) continue;
    positions.push(to);
    edges.push(dag.first[to]!);
    routers.push(dag.order[to]!);
    links.push(dag.link[e]!);
  }
}

/** All equal-cost paths of one ordered pair, at most `limit`: more is a UsageError that states their number. */
export function equalCostPaths(topology: Topology, from: number, to: number, limit = 1000): Path[] {
  const dag = shortestPathDag(compileGraph(topology), from);
  const goal = dag.order.indexOf(to);
  const count = goal <= 0 ? 0 : countPaths(dag)[goal]!;
  if (count > limit)
    throw new UsageError(
      "bad-topology",
      `${count} equal-cost paths from ${topology.routers[from]?.name} to ${topology.routers[to]?.name}, more than ${limit}`,
    );
  return [...pathsTo(dag, to)];
}

class DistanceHeap {
  readonly #routers: number[] = [];
  readonly #keys: number[] = [];

  push(router: number, key: number): void {
    let i = this.#keys.length;
    this.#keys.push(key);
    this.#routers.push(router);
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (!this.#less(i, parent)) break;
      this.#swap(i, parent);
      i = parent;
    }
  }

  /** Removes and returns the nearest router, -1 if none is left. */
  pop(): number {
    if (this.#keys.length === 0) return -1;
    const top = this.#routers[0]!;
    this.#swap(0, this.#keys.length - 1);
    this.#keys.pop();
    this.#routers.pop();
    for (let i = 0; ; ) {
      const left = 2 * i + 1;
      if (left >= this.#keys.length) return top;
      const child = left + 1 < this.#keys.length && this.#less(left + 1, left) ? left + 1 : left;
      if (!this.#less(child, i)) return top;
      this.#swap(i, child);
      i = child;
    }
  }

  #less(a: number, b: number): boolean {
    return (
      this.#keys[a]! < this.#keys[b]! ||
      (this.#keys[a] === this.#keys[b] && this.#routers[a]! < this.#routers[b]!)
    );
  }

  #swap(a: number, b: number): void {
    const key = this.#keys[a]!;
    this.#keys[a] = this.#keys[b]!;
    this.#keys[b] = key;
    const router = this.#routers[a]!;
    this.#routers[a] = this.#routers[b]!;
    this.#routers[b] = router;
  }
}
