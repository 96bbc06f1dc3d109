/**
 * m-sets: which nodes each m-router and m-server probes (MPLANE, section VI, figure 8).
 *
 * From its own shortest-path tree, with all equal-cost branches, a node takes every path up to the first m-router on it; an m-server is the end of a path,
 * never a cut, because traffic does not pass it. Two equal-cost paths to the same target are two members, distinguished by rank (the paper's D_2 is the
 * second).
 *
 * A probe session between two m-routers measures both directions, so by default their (virtual) link is listed once, at the end whose name comes first, as in
 * figure 8, where C lists F and F does not list C. `pairs: "twice"` lists it at both. A path whose reverse is not a shortest path is always listed.
 */
import { UsageError } from "../../base/errors.ts";
import { entryAt, entryOf } from "../../base/lists.ts";
import { byName, type Topology } from "../topology/topology.ts";
import type { Deployment } from "./deployment.ts";
import {
  compileGraph,
  countPaths,
  type Path,
  pathsTo,
  requireAllPairs,
  shortestPathDag,
} from "./shortest-paths.ts";

export interface MSetMember {
  readonly target: string;
  readonly kind: "m-router" | "m-server";
  /** 1 for the first of the equal-cost paths to the target in name order; `of` is their number. */
  readonly rank: number;
  readonly of: number;
  /** Router names, ends included. */
  readonly path: readonly string[];
  /** Indices of the links; distinguishes parallel links. */
  readonly links: readonly number[];
}

export interface MSet {
  readonly node: string;
  readonly kind: "m-router" | "m-server";
  readonly members: readonly MSetMember[];
}

export interface MSetOptions {
  readonly pairs?: "once" | "twice";
  /** Maximum number of members of one m-set: more is a UsageError, because a node cannot run so many sessions. */
  readonly limit?: number;
}

export function mSets(topology: Topology, deployed: Deployment, options: MSetOptions = {}): MSet[] {
  const { pairs = "once", limit = 100_000 } = options;
  requireAllPairs(topology);
  const graph = compileGraph(topology);
  const name = (router: number) => entryAt(topology.routers, router).name;
  const measures = (router: number) => deployed.mRouters.has(router) || deployed.mServers.has(router);
  const nodes = topology.routers.map((_, i) => i).filter(measures);
  const raw = new Map<number, { path: Path; member: MSetMember }[]>();
  for (const node of nodes) {
    const dag = shortestPathDag(graph, node);
    const counts = countPaths(dag);
    const members: { path: Path; member: MSetMember }[] = [];
    for (const [p, target] of dag.order.entries()) {
      if (p === 0 || !measures(target)) continue;
      if (counts[p]! > limit)
        throw new UsageError(
          "bad-topology",
          `${counts[p]} equal-cost paths from ${name(node)} to ${name(target)}, more than ${limit}`,
        );
      let rank = 0;
      // All equal-cost paths are walked, not only the uncut ones, so that a rank means the same before and after an upgrade.
      for (const path of pathsTo(dag, target)) {
        rank++;
        if (path.routers.slice(1, -1).some((r) => deployed.mRouters.has(r))) continue;
        if (members.length >= limit)
          throw new UsageError("bad-topology", `the m-set of ${name(node)} has more than ${limit} members`);
        members.push({
          path,
          member: {
            target: name(target),
            kind: deployed.mRouters.has(target) ? "m-router" : "m-server",
            rank,
            of: counts[p]!,
            path: path.routers.map(name),
            links: path.links,
          },
        });
      }
    }
    members.sort((a, b) => byName(a.member.target, b.member.target) || a.member.rank - b.member.rank);
    raw.set(node, members);
  }
  const listed = new Set<string>();
  for (const members of raw.values()) for (const { path } of members) listed.add(path.routers.join());
  return nodes.map((node) => ({
    node: name(node),
    kind: deployed.mRouters.has(node) ? "m-router" : "m-server",
    members: entryOf(raw, node)
      .filter(({ path, member }) => {
        if (pairs === "twice" || member.kind !== "m-router" || !deployed.mRouters.has(node)) return true;
        const reverse = [...path.routers].reverse().join();
        return byName(name(node), member.target) < 0 || !listed.has(reverse);
      })
      .map(({ member }) => member),
  }));
}

/** "D" or, for an equal-cost path that is not the first, "D_2": the paper's notation. */
export function memberLabel(member: MSetMember): string {
  return member.rank > 1 ? `${member.target}_${member.rank}` : member.target;
}
