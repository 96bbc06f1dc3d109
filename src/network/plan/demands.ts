/**
 * Traffic between routers, for choosing routers where packets are: read from Repetita's .demands or `from,to,volume` lines, and distributed evenly over the
 * equal-cost paths of each pair.
 *
 * A path a→b of Algorithm 1's set is weighted by the traffic that runs along it completely, as a part of its way or all of it. (Weighting by the pair's own
 * demand instead would leave the pieces of a long path without weight once it is cut.)
 */
import { FormatError } from "../../base/errors.ts";
import { looksLikeRocketfuel, splitFields } from "../topology/line-formats.ts";
import { lineError, meaningfulLines } from "../topology/text-lines.ts";
import type { Topology } from "../topology/topology.ts";
import { countPaths, type Graph, type PathDag, requireAllPairs, shortestPathDag } from "./shortest-paths.ts";

/** Volume from router s to router t at s * routers + t, in any one unit. */
export type DemandMatrix = Float64Array;

export function parseDemands(text: string, file: string, topology: Topology): DemandMatrix {
  requireAllPairs(topology);
  const size = topology.routers.length;
  const demands = new Float64Array(size * size);
  const index = new Map(topology.routers.map((router, i) => [router.name, i]));
  let repetita = false;
  let skipHeading = false;
  let found = 0;
  for (const line of meaningfulLines(text)) {
    if (/^DEMANDS\s/.test(line.text)) {
      repetita = true;
      skipHeading = true;
      continue;
    }
    if (skipHeading) {
      skipHeading = false;
      continue;
    }
    const spaced = repetita || looksLikeRocketfuel(line.text);
    const separator = ["\t", ";", ","].find((s) => line.text.includes(s)) ?? ",";
    const fields = spaced ? line.text.split(/\s+/) : splitFields(line.text, separator);
    const [from, to, amount] = repetita ? fields.slice(1) : fields;
    if (!repetita && found === 0 && !Number.isFinite(Number(amount ?? "x"))) continue;
    const s = repetita ? Number(from) : index.get(from ?? "");
    const t = repetita ? Number(to) : index.get(to ?? "");
    const known = (i: number | undefined): i is number =>
      i !== undefined && Number.isInteger(i) && i >= 0 && i < size;
    if (!known(s) || !known(t))
      throw lineError(file, text, line, `'${known(s) ? to : from}' is not a router of ${topology.name}`);
    const volume = Number(amount);
    if (amount === undefined || !(volume >= 0 && Number.isFinite(volume)))
      throw lineError(file, text, line, `volume '${amount ?? ""}' is not a number from 0`);
    demands[s * size + t]! += volume;
    found++;
  }
  if (found === 0) throw new FormatError("empty", file, 0, "this file contains no demands");
  return demands;
}

/** How traffic crosses pairs of routers, one after the other on its way; all matrices at a * size + b. */
export interface Transit {
  /** From a to b, its ends. */
  readonly ends: DemandMatrix;
  /** Begins at a, passes or ends at b. */
  readonly fromStart: Float64Array;
  /** Begins at or passes a, ends at b. */
  readonly toEnd: Float64Array;
  /** Begins at or passes a, then passes or ends at b. */
  readonly across: Float64Array;
}

export function transit(graph: Graph, demands: DemandMatrix): Transit {
  const { size } = graph;
  const sources = Array.from({ length: size }, (_, s) => {
    const dag = shortestPathDag(graph, s);
    return { dag, paths: countPaths(dag) };
  });
  const fromStart = new Float64Array(size * size);
  const across = new Float64Array(size * size);
  // Traffic to t that passes a, whoever sent it: distributing it from each source's dag, one target at a time, would be slow; instead, per source, the share of
  // paths s→t through a is (paths s→a)·(paths a→t)/(paths s→t).
  const toEnd = new Float64Array(size * size);
  const pathsBetween = new Float64Array(size * size);
  const costBetween = new Float64Array(size * size).fill(Number.POSITIVE_INFINITY);
  for (const [s, { dag, paths }] of sources.entries())
    dag.order.forEach((t, p) => {
      pathsBetween[s * size + t] = paths[p]!;
      costBetween[s * size + t] = dag.distance[p]!;
    });
  for (let t = 0; t < size; t++) flowTowards(t, graph, demands, pathsBetween, costBetween, toEnd);
  for (const { dag, paths } of sources) {
    accumulate(dag, paths, demands, fromStart, size);
    accumulate(dag, paths, toEnd, across, size);
  }
  return { ends: demands, fromStart, toEnd, across };
}

/** Traffic with end t through every router, pushed downstream from far to near. */
function flowTowards(
  t: number,
  graph: Graph,
  demands: DemandMatrix,
  pathsBetween: Float64Array,
  costBetween: Float64Array,
  toEnd: Float64Array,
): void {
  const { size, first, head, cost } = graph;
  const near: number[] = [];
  for (let a = 0; a < size; a++)
    if (a !== t && costBetween[a * size + t]! < Number.POSITIVE_INFINITY) near.push(a);
  near.sort((a, b) => costBetween[b * size + t]! - costBetween[a * size + t]!);
  const flow = new Float64Array(size);
  for (const a of near) {
    flow[a]! += demands[a * size + t]!;
    const here = flow[a]!;
    if (here === 0) continue;
    toEnd[a * size + t] = here;
    for (let e = first[a]!; e < first[a + 1]!; e++) {
      const b = head[e]!;
      if (b === t || costBetween[b * size + t]! + cost[e]! !== costBetween[a * size + t]!) continue;
      flow[b]! += (here * pathsBetween[b * size + t]!) / pathsBetween[a * size + t]!;
    }
  }
}

/** From a's dag: of the traffic a→t given by `volume`, what passes or ends at b. */
function accumulate(
  dag: PathDag,
  count: Float64Array,
  volume: Float64Array,
  out: Float64Array,
  size: number,
): void {
  // Per path from the source to p: volume that continues from there, so that shares multiply along the dag.
  const perPath = new Float64Array(count.length);
  for (let p = count.length - 1; p > 0; p--) {
    let sum = volume[dag.source * size + dag.order[p]!]! / count[p]!;
    for (let e = dag.first[p]!; e < dag.first[p + 1]!; e++) sum += perPath[dag.next[e]!]!;
    perPath[p] = sum;
    out[dag.source * size + dag.order[p]!] = sum * count[p]!;
  }
}
