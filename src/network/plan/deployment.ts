/**
 * Which nodes measure: m-routers and m-servers (MPLANE, section VI), and the segments into which a path is divided (section II, figure 1).
 *
 * A path is cut at the ports of every m-router that it passes: a segment inside the router between ingress and egress port, and a segment from its egress port
 * to the next node that measures: a link, or a virtual link over routers that are not upgraded. The ends of a path always measure (a host, an m-server, or an
 * m-router itself).
 */
import { UsageError } from "../../base/errors.ts";
import { entryAt } from "../../base/lists.ts";
import { routerIndex, type Topology } from "../topology/topology.ts";
import {
  compileGraph,
  countPaths,
  type Graph,
  type Path,
  requireAllPairs,
  shortestPathDag,
} from "./shortest-paths.ts";
import { UncutPaths } from "./uncut-paths.ts";

export interface Deployment {
  readonly mRouters: ReadonlySet<number>;
  /** Routers with an m-server. A server at an m-router is removed (step one of section VI). */
  readonly mServers: ReadonlySet<number>;
}

/** From names; without servers, there is one at every router that is not upgraded. */
export function deployment(
  topology: Topology,
  mRouters: readonly string[] = topology.mRouters.map((r) => entryAt(topology.routers, r).name),
  mServers: readonly string[] | null = topology.mServers?.map((r) => entryAt(topology.routers, r).name) ??
    null,
): Deployment {
  const upgraded = new Set(mRouters.map((name) => routerIndex(topology, name)));
  const servers = mServers?.map((name) => routerIndex(topology, name)) ?? topology.routers.map((_, i) => i);
  return { mRouters: upgraded, mServers: new Set(servers.filter((r) => !upgraded.has(r))) };
}

export interface Segment {
  readonly kind: "router" | "link" | "virtual-link";
  readonly from: string;
  readonly to: string;
  /** Names of the routers on it, ends included; a router segment has one. */
  readonly routers: readonly string[];
  readonly hops: number;
}

/** One stop of a path through the network: a host, an m-server or a router with the ports used. */
interface Stop {
  readonly name: string;
  readonly router: boolean;
  readonly measures: boolean;
  readonly inPort: string;
  readonly outPort: string;
}

/**
 * Returns the segments of a path. With hosts, the path begins and ends at them (section II, figure 1); without, at the m-server of the end router, or at the
 * port of an upgraded end router.
 */
export function segmentsOf(
  topology: Topology,
  deployed: Deployment,
  path: Path,
  ends: { fromHost?: string; toHost?: string } = {},
): Segment[] {
  const ports = path.links.map((link) => portNames(topology, link));
  const last = path.routers.length - 1;
  const stops: Stop[] = path.routers.map((router, i) => ({
    name: entryAt(topology.routers, router).name,
    router: true,
    measures: deployed.mRouters.has(router),
    inPort: i > 0 ? entryAt(ports, i - 1).toPort : (ends.fromHost ?? ""),
    outPort: i < last ? entryAt(ports, i).fromPort : (ends.toHost ?? ""),
  }));
  if (ends.fromHost !== undefined) stops.unshift(hostStop(ends.fromHost));
  if (ends.toHost !== undefined) stops.push(hostStop(ends.toHost));
  const segments: Segment[] = [];
  let from = "";
  let over: string[] = [];
  for (const [i, stop] of stops.entries()) {
    const isFirst = i === 0;
    const isLast = i === stops.length - 1;
    over.push(stop.name);
    if (!isFirst && (stop.measures || isLast)) {
      const to = stop.router && stop.measures ? portPoint(stop.name, stop.inPort) : stop.name;
      const hops = over.length - 1;
      segments.push({ kind: hops === 1 ? "link" : "virtual-link", from, to, routers: over, hops });
      if (stop.router && stop.measures && !isLast)
        segments.push({
          kind: "router",
          from: to,
          to: portPoint(stop.name, stop.outPort),
          routers: [stop.name],
          hops: 0,
        });
    }
    if (isFirst || stop.measures) {
      from = stop.router && stop.measures ? portPoint(stop.name, stop.outPort) : stop.name;
      over = [stop.name];
    }
  }
  return segments;
}

function hostStop(name: string): Stop {
  return { name, router: false, measures: true, inPort: "", outPort: "" };
}

function portPoint(router: string, port: string): string {
  return `${router}[${port}]`;
}

/** Port names of a link: from the map, else by neighbour, numbered if links are parallel. */
export function portNames(topology: Topology, linkIndex: number): { fromPort: string; toPort: string } {
  const link = entryAt(topology.links, linkIndex);
  let rank = 1;
  let parallel = 0;
  for (const [i, other] of topology.links.entries())
    if (other.from === link.from && other.to === link.to) {
      parallel++;
      if (i < linkIndex) rank++;
    }
  const suffix = parallel > 1 ? `#${rank}` : "";
  return {
    fromPort: link.fromPort ?? `to ${entryAt(topology.routers, link.to).name}${suffix}`,
    toPort: link.toPort ?? `from ${entryAt(topology.routers, link.from).name}${suffix}`,
  };
}

export interface MeasurementCost {
  /** Ingress-egress pairs inside m-routers: the sum of squared degrees. */
  readonly internal: number;
  /** Links and virtual links to probe, with equal-cost ones counted separately. */
  readonly segments: number;
  readonly probeHops: number;
}

/** What a deployment has to measure: uncut shortest paths between measuring nodes. */
export function measurementCost(topology: Topology, deployed: Deployment): MeasurementCost {
  requireAllPairs(topology);
  const graph = compileGraph(topology);
  const internal = internalMeasurements(graph, deployed.mRouters);
  const everyone = deployed.mRouters.size + deployed.mServers.size === topology.routers.length;
  const paths = new UncutPaths(graph);
  for (const router of deployed.mRouters) paths.upgrade(router);
  if (everyone) return { internal, segments: paths.segments.count, probeHops: paths.probeHops };
  const ends = [...deployed.mRouters, ...deployed.mServers];
  if (ends.length === 0) throw new UsageError("bad-topology", `${topology.name}: nobody measures`);
  let segments = 0;
  let probeHops = 0;
  for (const a of ends) {
    const dag = shortestPathDag(graph, a);
    const count = countPaths(dag);
    const share = paths.uncutShare(a);
    const { hops } = paths.uncutHops(a);
    for (const [p, b] of dag.order.entries()) {
      if (p === 0 || !(deployed.mRouters.has(b) || deployed.mServers.has(b))) continue;
      segments += share[b]! * count[p]!;
      probeHops += share[b]! * count[p]! * hops[b]!;
    }
  }
  return { internal, segments, probeHops };
}

/** Section II: an LDA-like primitive per ingress-egress pair, the sum of squared degrees. */
export function internalMeasurements(graph: Graph, routers: Iterable<number>): number {
  let sum = 0;
  for (const router of routers) sum += (graph.first[router + 1]! - graph.first[router]!) ** 2;
  return sum;
}
