/**
 * Which routers to upgrade first: MPLANE's Algorithm 1 and alternatives (LDA/MPLANE paper, section VI).
 *
 * Each step shows what a deployment costs in probes (probe hops: hops of all segments that must be probed) and what it gives (segment lengths: how closely a
 * fault is located). The paper's listing never resets count[]: without the reset a router far from any long path can win on counts of earlier rounds; here each
 * round counts anew. Ties go to the first name, so the order of the lines in a map does not matter.
 *   greedy         the router on most paths of S, as in the listing (per unit of cost if costs are given)
 *   greedy-hops    the router whose upgrade removes most probe hops, as the paper's text asks for
 *   betweenness    by betweenness on the whole map, ranked once
 *   random         any router; seeded, repeated
 *   optimal-small  the best set of each size, by search; small maps only
 * Assumes a measurement server at every router that is not upgraded, as the paper does.
 */
import { checkChoice } from "../../base/checks.ts";
import { invalidValue, UsageError } from "../../base/errors.ts";
import { entryAt, entryOf } from "../../base/lists.ts";
import { Random } from "../../base/random.ts";
import { byName, components, type Topology } from "../topology/topology.ts";
import { type DemandMatrix, type Transit, transit } from "./demands.ts";
import { internalMeasurements } from "./deployment.ts";
import { OptimalSearch } from "./optimal.ts";
import { compileGraph, countPaths, type Graph, requireAllPairs, shortestPathDag } from "./shortest-paths.ts";
import { type PathValue, type SegmentStatistics, UncutPaths } from "./uncut-paths.ts";

export const STRATEGIES = ["greedy", "greedy-hops", "betweenness", "random", "optimal-small"] as const;
export type Strategy = (typeof STRATEGIES)[number];

export interface PlanOptions {
  /** Upgrade at most this many routers; a plan ends earlier once every segment is a single hop. */
  readonly upgrade: number;
  readonly strategy?: Strategy;
  /** Traffic between routers: paths count by the traffic along them. Greedy and greedy-hops. */
  readonly demands?: DemandMatrix;
  /** Cost of upgrading a router by name, 1 for others. */
  readonly costs?: ReadonlyMap<string, number>;
  /** Spend at most this much. */
  readonly budget?: number;
  /** random: seed (default 1) and number of runs (default 10). */
  readonly seed?: number;
  readonly repeat?: number;
}

export interface PlanStep {
  readonly upgraded: number;
  /** The router upgraded in this step; null in step 0, and if the best sets of n - 1 and n differ by more. */
  readonly router: string | null;
  readonly probeHops: number;
  readonly segments: SegmentStatistics;
  /** Ingress-egress pairs inside upgraded routers: the sum of their squared degrees. */
  readonly internalMeasurements: number;
  /** Total cost so far, if costs were given. */
  readonly totalCost?: number;
  /** Mean length of the segment that a fault on a random hop of a random packet would be located to, with demands; null if none of them has a path. */
  readonly trafficMeanHops?: number | null;
  /** random: over all runs; the step itself is that of the first run. */
  readonly repeated?: {
    readonly runs: number;
    readonly meanProbeHops: number;
    readonly minProbeHops: number;
    readonly maxProbeHops: number;
    readonly meanMeanHops: number | null;
  };
  /** optimal-small: the whole best set, and how many more probe hops greedy leaves at the same number of routers. */
  readonly routers?: readonly string[];
  readonly greedyProbeHops?: number;
}

export interface Plan {
  readonly format: "hoptime.plan/1";
  readonly topology: string;
  readonly strategy: Strategy;
  readonly routers: number;
  /** Directed links that are up. */
  readonly links: number;
  /** Routers in each connected part, largest first. */
  readonly parts: readonly number[];
  /** Upgraded before the plan begins. */
  readonly already: readonly string[];
  readonly steps: readonly PlanStep[];
  /** False if path counts exceeded 2^53 and are rounded. */
  readonly exact: boolean;
  readonly notes: readonly string[];
}

export function planUpgrades(topology: Topology, options: PlanOptions): Plan {
  const strategy = options.strategy ?? "greedy";
  checkOptions(topology, options, strategy);
  const graph = compileGraph(topology);
  const flows = options.demands && transit(graph, options.demands);
  const context: Context = { topology, graph, options, flows, costs: routerCosts(topology, options) };
  const { steps, exact } = strategies[strategy](context);
  return {
    format: "hoptime.plan/1",
    topology: topology.name,
    strategy,
    routers: topology.routers.length,
    links: topology.links.filter((link) => link.up).length,
    parts: components(topology).map((part) => part.length),
    already: topology.mRouters.map((r) => entryAt(topology.routers, r).name),
    steps,
    exact,
    notes: flows ? [...topology.notes, ...withoutPath(topology, flows.ends, flows)] : topology.notes,
  };
}

interface Context {
  readonly topology: Topology;
  readonly graph: Graph;
  readonly options: PlanOptions;
  readonly flows: Transit | undefined;
  readonly costs: Float64Array;
}
interface Outcome {
  readonly steps: PlanStep[];
  readonly exact: boolean;
}

const strategies: Record<Strategy, (context: Context) => Outcome> = {
  greedy: (context) => greedy(context, "paths"),
  "greedy-hops": (context) => greedy(context, "hops"),
  betweenness: (context) => {
    const rank = betweenness(context.graph);
    return run(context, "paths", (gains) => best(context, gains, (r) => rank[r]! / context.costs[r]!));
  },
  random: randomRuns,
  "optimal-small": optimalSteps,
};

function greedy(context: Context, value: "paths" | "hops"): Outcome {
  const { flows, graph } = context;
  let counted: PathValue = value;
  if (flows)
    counted = {
      pairWeight: value === "hops" ? flows.across.map((v, i) => v * hopsOf(graph)[i]!) : flows.across,
    };
  return run(context, counted, (gains) => best(context, gains, (r) => gains[r]! / context.costs[r]!));
}

/** Mean hops of the shortest paths of every ordered pair. */
function hopsOf(graph: Graph): Float64Array {
  const known = pairHops.get(graph);
  if (known) return known;
  const all = new Float64Array(graph.size * graph.size);
  const paths = new UncutPaths(graph);
  for (let s = 0; s < graph.size; s++) all.set(paths.uncutHops(s).hops, s * graph.size);
  pairHops.set(graph, all);
  return all;
}
const pairHops = new WeakMap<Graph, Float64Array>();

/** Returns the allowed router with the highest score; the first name among equals; -1 if none changes anything. */
function best(context: Context, gains: Float64Array, score: (router: number) => number): number {
  const { routers } = context.topology;
  let winner = -1;
  for (let r = 0; r < routers.length; r++) {
    if (!(gains[r]! > 0)) continue;
    if (
      winner < 0 ||
      score(r) > score(winner) ||
      (score(r) === score(winner) && byName(entryAt(routers, r).name, entryAt(routers, winner).name) < 0)
    )
      winner = r;
  }
  return winner;
}

/** Makes one plan: `choose` picks among routers with a gain that the budget allows (others have gain 0). */
function run(context: Context, value: PathValue, choose: (gains: Float64Array) => number): Outcome {
  const { topology, options, costs } = context;
  const paths = new UncutPaths(context.graph, value);
  for (const router of topology.mRouters) paths.upgrade(router);
  const upgraded = [...topology.mRouters];
  let spent = 0;
  let exact = paths.exact;
  const steps = [stepOf(context, paths, upgraded, null, spent)];
  const budget = options.budget ?? Number.POSITIVE_INFINITY;
  while (steps.length <= options.upgrade) {
    const affordable = paths.gains().map((gain, r) => (spent + costs[r]! <= budget ? gain : 0));
    const router = choose(affordable);
    if (router < 0) break;
    paths.upgrade(router);
    upgraded.push(router);
    spent += costs[router]!;
    exact &&= paths.exact;
    steps.push(stepOf(context, paths, upgraded, router, spent));
  }
  return { steps, exact };
}

function stepOf(
  context: Context,
  paths: UncutPaths,
  upgraded: readonly number[],
  router: number | null,
  spent: number,
): PlanStep {
  const { topology, graph, flows, options } = context;
  return {
    upgraded: upgraded.length - topology.mRouters.length,
    router: router === null ? null : entryAt(topology.routers, router).name,
    probeHops: paths.probeHops,
    segments: paths.segments,
    internalMeasurements: internalMeasurements(graph, upgraded),
    ...(options.costs ? { totalCost: spent } : {}),
    ...(flows ? { trafficMeanHops: trafficMeanHops(graph, paths, flows) } : {}),
  };
}

/** Demands between parts that are not connected have no path, and no weight. */
function withoutPath({ routers }: Topology, demands: DemandMatrix, { toEnd }: Transit): string[] {
  let lost = 0;
  let first = -1;
  for (let i = 0; i < demands.length; i++) {
    if (!(demands[i]! > 0) || toEnd[i]! > 0) continue;
    if (first < 0) first = i;
    lost++;
  }
  if (lost === 0) return [];
  const [from, to] = [Math.floor(first / routers.length), first % routers.length];
  const example = `${entryAt(routers, from).name} to ${entryAt(routers, to).name}`;
  return [
    `${lost} ${lost === 1 ? "demand has" : "demands have"} no path and ${lost === 1 ? "is" : "are"} left out: ${example}${lost === 1 ? "" : ", …"}`,
  ];
}

/**
 * Segments seen by traffic are the uncut pieces between its ends and the upgraded routers. Per hop of traffic the mean length of the piece around it is (sum of
 * length²)/(sum of length), weighted by traffic.
 */
function trafficMeanHops(graph: Graph, paths: UncutPaths, flows: Transit): number | null {
  const { size } = graph;
  let hops = 0;
  let squares = 0;
  for (let a = 0; a < size; a++) {
    const share = paths.uncutShare(a);
    const length = paths.uncutHops(a);
    const middle = paths.isUpgraded(a);
    for (let b = 0; b < size; b++) {
      if (share[b] === 0) continue;
      const cut = paths.isUpgraded(b);
      const at = a * size + b;
      const volume = middle
        ? cut
          ? flows.across[at]!
          : flows.toEnd[at]!
        : cut
          ? flows.fromStart[at]!
          : flows.ends[at]!;
      hops += volume * share[b]! * length.hops[b]!;
      squares += volume * share[b]! * length.squares[b]!;
    }
  }
  return hops > 0 ? squares / hops : null;
}

/** Betweenness: over ordered pairs, the share of their equal-cost paths that pass a router. */
function betweenness(graph: Graph): Float64Array {
  const total = new Float64Array(graph.size);
  for (let s = 0; s < graph.size; s++) {
    const dag = shortestPathDag(graph, s);
    const count = countPaths(dag);
    const perPath = new Float64Array(count.length);
    for (let p = count.length - 1; p > 0; p--) {
      for (let e = dag.first[p]!; e < dag.first[p + 1]!; e++)
        perPath[p]! += perPath[dag.next[e]!]! + 1 / count[dag.next[e]!]!;
      total[dag.order[p]!]! += perPath[p]! * count[p]!;
    }
  }
  return total;
}

function randomRuns(context: Context): Outcome {
  const { options, topology } = context;
  const runs = options.repeat ?? 10;
  const outcomes: Outcome[] = [];
  for (let i = 0; i < runs; i++) {
    const random = new Random((options.seed ?? 1) + i);
    const left = topology.routers.map((_, r) => r).filter((r) => !topology.mRouters.includes(r));
    outcomes.push(
      run(context, "paths", (gains) => {
        // A random choice ignores gains, but ends like the others when nothing is left to gain.
        if (!gains.some((g) => g > 0) || left.length === 0) return -1;
        return entryAt(left.splice(random.below(left.length), 1), 0);
      }),
    );
  }
  const steps = entryAt(outcomes, 0).steps.map((step, n) => {
    // A run that ended earlier had nothing left to gain: use its last step.
    const all = outcomes.map(({ steps }) => entryAt(steps, Math.min(n, steps.length - 1)));
    const hops = all.map((s) => s.probeHops);
    return {
      ...step,
      repeated: {
        runs,
        meanProbeHops: hops.reduce((a, b) => a + b, 0) / runs,
        minProbeHops: Math.min(...hops),
        maxProbeHops: Math.max(...hops),
        // Upgrades do not change whether there are paths.
        meanMeanHops:
          step.segments.meanHops === null
            ? null
            : all.reduce((a, s) => a + (s.segments.meanHops ?? 0), 0) / runs,
      },
    };
  });
  return { steps, exact: outcomes.every((o) => o.exact) };
}

function optimalSteps(context: Context): Outcome {
  const { topology, graph, options } = context;
  const literal = greedy(context, "paths");
  const byHops = greedy(context, "hops");
  const search = new OptimalSearch(topology, new Set(topology.mRouters));
  const index = new Map(topology.routers.map((router, i) => [router.name, i]));
  const steps: PlanStep[] = [];
  let before: number[] = [];
  for (let n = 0; n <= options.upgrade && n < Math.max(literal.steps.length, byHops.steps.length); n++) {
    const start = byHops.steps.slice(1, n + 1).map((step) => entryOf(index, step.router ?? ""));
    const { routers } = search.best(n, start);
    const paths = new UncutPaths(graph);
    const upgraded = [...topology.mRouters, ...routers];
    for (const router of upgraded) paths.upgrade(router);
    const added = routers.filter((r) => !before.includes(r));
    const nested = added.length === 1 && routers.length === before.length + 1;
    steps.push({
      ...stepOf(context, paths, upgraded, nested ? entryAt(added, 0) : null, 0),
      upgraded: n,
      routers: routers.map((r) => entryAt(topology.routers, r).name).sort(byName),
      greedyProbeHops: entryAt(literal.steps, Math.min(n, literal.steps.length - 1)).probeHops,
    });
    before = routers;
  }
  return { steps, exact: true };
}

function routerCosts(topology: Topology, options: PlanOptions): Float64Array {
  const costs = new Float64Array(topology.routers.length).fill(1);
  const index = new Map(topology.routers.map((router, i) => [router.name, i]));
  for (const [name, cost] of options.costs ?? []) {
    const router = index.get(name);
    if (router === undefined)
      throw new UsageError("bad-topology", `a cost is given for '${name}', which is not in ${topology.name}`);
    if (!(cost > 0 && Number.isFinite(cost)))
      throw new UsageError("bad-parameter", `the cost of ${name} must be positive, not ${cost}`);
    costs[router] = cost;
  }
  return costs;
}

const outOfRange = (parameter: string, value: number, expected: string) =>
  invalidValue(parameter, value, expected, { code: "bad-parameter" });

function checkOptions(topology: Topology, options: PlanOptions, strategy: Strategy): void {
  checkChoice("strategy", strategy, STRATEGIES);
  requireAllPairs(topology);
  if (!Number.isSafeInteger(options.upgrade) || options.upgrade < 0)
    throw outOfRange("upgrade", options.upgrade, "a whole number of routers from 0");
  if (options.repeat !== undefined && !(Number.isSafeInteger(options.repeat) && options.repeat > 0))
    throw outOfRange("repeat", options.repeat, "a whole number from 1");
  if (options.budget !== undefined && !(options.budget >= 0))
    throw outOfRange("budget", options.budget, "a number from 0");
  if (options.demands && options.demands.length !== topology.routers.length ** 2)
    throw new UsageError("bad-parameter", "the demand matrix does not fit the map");
  if (options.demands && strategy !== "greedy" && strategy !== "greedy-hops")
    throw new UsageError("bad-parameter", `traffic is weighed by greedy and greedy-hops, not by ${strategy}`);
  if (strategy === "optimal-small" && (options.costs || options.budget !== undefined))
    throw new UsageError("bad-parameter", "optimal-small counts routers; costs are not supported");
}
