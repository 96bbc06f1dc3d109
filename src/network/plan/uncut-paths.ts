/**
 * The set S of Algorithm 1 (MPLANE, section VI), stored as counts instead of paths.
 *
 * S begins as all shortest paths of all ordered pairs; upgrading a router splits every path that passes it. Each half is itself a shortest path of its own
 * ends, so it is in S already, and S is a set. Hence, for upgraded routers U,
 *     S(U) = the shortest paths with no router of U strictly inside,
 * and an upgrade removes the paths that it newly hits: weighted coverage, monotone and submodular, so greedy is within 1 - 1/e of the best for what it removes.
 * For one source everything follows from two sweeps over its dag: paths that reach a router uncut (forward), paths that continue from it uncut (backward). An
 * upgrade affects only the sources with an uncut path through that router, so the work shrinks as the plan grows.
 *
 * Exact while counts stay below 2^53; beyond that rounded as doubles (see `exact`).
 */
import { entryAt } from "../../base/lists.ts";
import { countPaths, type Graph, type PathDag, shortestPathDag } from "./shortest-paths.ts";

export interface SegmentStatistics {
  /** Paths in S: segments to measure. */
  readonly count: number;
  /** Null if there is none. */
  readonly minHops: number | null;
  readonly meanHops: number | null;
  readonly maxHops: number | null;
}

/** The value of a path when a router is chosen: 1 (the paper), its hops, or a weight of its ordered pair. */
export type PathValue = "paths" | "hops" | { readonly pairWeight: Float64Array };

export class UncutPaths {
  readonly #graph: Graph;
  readonly #value: PathValue;
  readonly #dags: PathDag[] = [];
  /** pairWeight / number of equal-cost paths, by source and position; only with pair weights. */
  readonly #share: Float64Array[] = [];
  readonly #upgraded: Uint8Array;
  /** Uncut paths through a router from a source: source * size + router. */
  readonly #through: Float64Array;
  /** The same, by value; the same array if a path counts 1. */
  readonly #worth: Float64Array;
  /** Column sums of `worth`, kept up to date while they are integers that a double represents exactly. */
  readonly #total: Float64Array;
  readonly #paths: Float64Array;
  readonly #hops: Float64Array;
  readonly #min: Float64Array;
  readonly #max: Float64Array;
  #everExact = true;
  readonly #scratch: { sigma: Float64Array; hop: Float64Array; on: Float64Array; onHops: Float64Array };

  constructor(graph: Graph, value: PathValue = "paths") {
    const { size } = graph;
    this.#graph = graph;
    this.#value = value;
    this.#upgraded = new Uint8Array(size);
    this.#through = new Float64Array(size * size);
    this.#worth = value === "paths" ? this.#through : new Float64Array(size * size);
    this.#total = new Float64Array(size);
    this.#paths = new Float64Array(size);
    this.#hops = new Float64Array(size);
    this.#min = new Float64Array(size);
    this.#max = new Float64Array(size);
    this.#scratch = {
      sigma: new Float64Array(size),
      hop: new Float64Array(size),
      on: new Float64Array(size),
      onHops: new Float64Array(size),
    };
    for (let s = 0; s < size; s++) {
      const dag = shortestPathDag(graph, s);
      this.#dags.push(dag);
      if (typeof value === "object") {
        const count = countPaths(dag);
        this.#share.push(count.map((c, p) => value.pairWeight[s * size + dag.order[p]!]! / c));
      }
      this.#sweep(s);
    }
  }

  isUpgraded(router: number): boolean {
    return this.#upgraded[router] === 1;
  }

  upgrade(router: number): void {
    if (this.#upgraded[router]) return;
    this.#upgraded[router] = 1;
    const { size } = this.#graph;
    for (let s = 0; s < size; s++) if (this.#through[s * size + router]! > 0) this.#sweep(s);
  }

  /** By router: the value of the paths in S that upgrading it would cut (0 if upgraded already). */
  gains(): Float64Array {
    // Incremental sums are exact only for integers; otherwise sum again.
    if (typeof this.#value === "string" && this.#everExact) return this.#total.slice();
    const { size } = this.#graph;
    const total = new Float64Array(size);
    for (let s = 0; s < size; s++)
      for (let r = 0, at = s * size; r < size; r++, at++) total[r]! += this.#worth[at]!;
    return total;
  }

  get probeHops(): number {
    return this.#hops.reduce((a, b) => a + b, 0);
  }

  get segments(): SegmentStatistics {
    const count = this.#paths.reduce((a, b) => a + b, 0);
    if (count === 0) return { count: 0, minHops: null, meanHops: null, maxHops: null };
    return {
      count,
      minHops: this.#min.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY),
      meanHops: this.probeHops / count,
      maxHops: this.#max.reduce((a, b) => Math.max(a, b), 0),
    };
  }

  get exact(): boolean {
    return this.probeHops < Number.MAX_SAFE_INTEGER;
  }

  /** Share of the equal-cost paths of an ordered pair that is uncut, for all targets of one source. */
  uncutShare(source: number): Float64Array {
    const dag = entryAt(this.#dags, source);
    const all = countPaths(dag);
    this.#forward(dag);
    const share = new Float64Array(this.#graph.size);
    for (let p = 1; p < dag.order.length; p++) share[dag.order[p]!] = this.#scratch.sigma[p]! / all[p]!;
    return share;
  }

  /** Mean and mean square of the hops of the uncut paths to each target (equals may differ in hops). */
  uncutHops(source: number): { hops: Float64Array; squares: Float64Array } {
    const dag = entryAt(this.#dags, source);
    const { sigma } = this.#scratch;
    const m = dag.order.length;
    const sum = new Float64Array(m);
    const squareSum = new Float64Array(m);
    sigma.fill(0, 0, m);
    sigma[0] = 1;
    const hops = new Float64Array(this.#graph.size);
    const squares = new Float64Array(this.#graph.size);
    for (let p = 0; p < m; p++) {
      const router = dag.order[p]!;
      const count = sigma[p]!;
      if (count === 0) continue;
      if (p > 0) {
        hops[router] = sum[p]! / count;
        squares[router] = squareSum[p]! / count;
        if (this.#upgraded[router]) continue;
      }
      for (let e = dag.first[p]!; e < dag.first[p + 1]!; e++) {
        const q = dag.next[e]!;
        sigma[q]! += count;
        sum[q]! += sum[p]! + count;
        squareSum[q]! += squareSum[p]! + 2 * sum[p]! + count;
      }
    }
    return { hops, squares };
  }

  /** Uncut paths from the source to each position, and the sum of their hops. */
  #forward(dag: PathDag): void {
    const { sigma, hop } = this.#scratch;
    const m = dag.order.length;
    sigma.fill(0, 0, m);
    hop.fill(0, 0, m);
    sigma[0] = 1;
    for (let p = 0; p < m; p++) {
      const count = sigma[p]!;
      if (count === 0 || (p > 0 && this.#upgraded[dag.order[p]!])) continue;
      const more = hop[p]! + count;
      for (let e = dag.first[p]!; e < dag.first[p + 1]!; e++) {
        const q = dag.next[e]!;
        sigma[q]! += count;
        hop[q]! += more;
      }
    }
  }

  #sweep(s: number): void {
    const dag = entryAt(this.#dags, s);
    const { order, first, next } = dag;
    const { sigma, hop, on, onHops } = this.#scratch;
    const { size } = this.#graph;
    const m = order.length;
    this.#forward(dag);
    this.#longestAndShortest(s, dag);
    let paths = 0;
    let hops = 0;
    for (let p = 1; p < m; p++) {
      paths += sigma[p]!;
      hops += hop[p]!;
    }
    this.#paths[s] = paths;
    this.#hops[s] = hops;
    const value = this.#value;
    const share = this.#share[s];
    // Backward: uncut continuations from p to anywhere; their hops, or their value.
    for (let p = m - 1; p >= 0; p--) {
      let count = 0;
      let extra = 0;
      for (let e = first[p]!; e < first[p + 1]!; e++) {
        const q = next[e]!;
        const open = this.#upgraded[order[q]!] ? 0 : 1;
        count += 1 + open * on[q]!;
        if (share) extra += share[q]! + open * onHops[q]!;
        else extra += 1 + open * (onHops[q]! + on[q]!);
      }
      on[p] = count;
      onHops[p] = extra;
      const router = order[p]!;
      const at = s * size + router;
      const before = this.#worth[at]!;
      const inside = p > 0 && !this.#upgraded[router];
      this.#through[at] = inside ? sigma[p]! * count : 0;
      if (share) this.#worth[at] = inside ? sigma[p]! * extra : 0;
      else if (value === "hops") this.#worth[at] = inside ? hop[p]! * count + sigma[p]! * extra : 0;
      this.#total[router]! += this.#worth[at]! - before;
      if (this.#total[router]! > Number.MAX_SAFE_INTEGER) this.#everExact = false;
    }
  }

  #longestAndShortest(s: number, dag: PathDag): void {
    const { sigma, on, onHops } = this.#scratch;
    const m = dag.order.length;
    // `on` and `onHops` are free until the backward sweep: here the minimum and maximum hops to a position.
    on.fill(Number.POSITIVE_INFINITY, 0, m);
    onHops.fill(0, 0, m);
    on[0] = 0;
    let min = Number.POSITIVE_INFINITY;
    let max = 0;
    for (let p = 0; p < m; p++) {
      if (sigma[p] === 0) continue;
      if (p > 0) {
        min = Math.min(min, on[p]!);
        max = Math.max(max, onHops[p]!);
        if (this.#upgraded[dag.order[p]!]) continue;
      }
      for (let e = dag.first[p]!; e < dag.first[p + 1]!; e++) {
        const q = dag.next[e]!;
        if (on[p]! + 1 < on[q]!) on[q] = on[p]! + 1;
        if (onHops[p]! + 1 > onHops[q]!) onHops[q] = onHops[p]! + 1;
      }
    }
    this.#min[s] = min;
    this.#max[s] = max;
  }
}
