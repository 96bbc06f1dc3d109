/**
 * What a deployment has to measure, and how (MPLANE, sections II and VI): the segments of the m-sets and of the paths between the networks behind the routers.
 * Taps measure between ports of m-routers; a link or virtual link without an m-router at an end must be probed.
 *
 * A tap must know which packets cross a segment: all that leave over a link, but only some of those that enter a router, or continue over routers that are not
 * upgraded. Hosts of the map that are networks (`10.2.0.0/16`) show it: packets between two of them take the only shortest path. Pairs with several equal-cost
 * paths are left out, and counted. Without networks taps measure only whole links.
 */
import { UsageError } from "../../base/errors.ts";
import { entryAt } from "../../base/lists.ts";
import { parseAddress } from "../../capture/address.ts";
import { type Deployment, type Segment, segmentsOf } from "../plan/deployment.ts";
import { type MSet, mSets } from "../plan/m-sets.ts";
import { equalCostPaths } from "../plan/shortest-paths.ts";
import { byName, type Host, type Topology } from "../topology/topology.ts";

export interface NeededSegment {
  kind: Segment["kind"];
  from: string;
  to: string;
  routers: readonly string[];
  /** How it is measured; `none`: not measurable, for `reason`. */
  by: "taps" | "probes" | "none";
  /** Packets that cross it; null: all. */
  filter: string | null;
  reason: string | null;
}

export interface Needs {
  mSets: readonly MSet[];
  segments: NeededSegment[];
  /** Pairs of networks whose packets may take several paths. */
  ambiguousPairs: number;
}

/** Maximum number of networks whose paths are examined; and of listed members of m-sets, and pairs of ports. */
const MAX_NETWORKS = 64;
const MAX_MEMBERS = 20_000;
/** Maximum length of a filter in a plan, and of a label. */
export const MAX_FILTER = 4000;
const MAX_LABEL_BYTES = 64;

export function neededSegments(topology: Topology, deployed: Deployment): Needs {
  const sets = mSets(topology, deployed, { pairs: "twice", limit: MAX_MEMBERS });
  const members = sets.reduce((n, set) => n + set.members.length, 0);
  if (members > MAX_MEMBERS)
    throw new UsageError(
      "bad-topology",
      `${topology.name}: ${members.toLocaleString("en-US")} links and virtual links to measure (expected at most ${MAX_MEMBERS.toLocaleString("en-US")})`,
      "name the m-servers of the map, or take a part of the network",
    );
  const upgraded = new Set([...deployed.mRouters].map((r) => entryAt(topology.routers, r).name));
  const { ways, ambiguousPairs, networks } = waysBetweenNetworks(topology, deployed);
  const found = new Map<string, NeededSegment>();
  const add = (segment: Segment) => {
    const { kind, from, to, routers } = segment;
    const key = segmentKey({ from, to });
    if (!found.has(key))
      found.set(key, { kind, from, to, routers, ...measuredHow(segment, upgraded, ways.get(key), networks) });
  };
  for (const { node, members: own } of sets)
    for (const { path, links } of own) {
      const routers = path.map((name) => topology.routers.findIndex((r) => r.name === name));
      for (const segment of segmentsOf(topology, deployed, { routers, links })) add(segment);
      if (path[0] !== node) throw new Error(`the m-set of ${node} has a path from ${path[0]}`);
    }
  for (const { segment } of ways.values()) add(segment);
  const segments = [...found.values()].sort((a, b) => byName(segmentKey(a), segmentKey(b)));
  return { mSets: sets, segments, ambiguousPairs };
}

export function segmentKey({ from, to }: { from: string; to: string }): string {
  return JSON.stringify([from, to]);
}

interface Way {
  segment: Segment;
  /** Sources by destination. */
  pairs: Map<string, string[]>;
}

function waysBetweenNetworks(topology: Topology, deployed: Deployment) {
  const networks = topology.hosts.filter((h) => isNetwork(h.name)).slice(0, MAX_NETWORKS);
  const ways = new Map<string, Way>();
  let ambiguousPairs = 0;
  for (const source of networks)
    for (const target of networks) {
      if (source.router === target.router) continue;
      const paths = equalCostPaths(topology, source.router, target.router, 1_000_000);
      const [path, ...others] = paths;
      if (!path) continue;
      if (others.length > 0) {
        ambiguousPairs++;
        continue;
      }
      const ends = { fromHost: source.name, toHost: target.name };
      for (const segment of segmentsOf(topology, deployed, path, ends)) {
        // A host has no tap.
        if (segment.from === source.name || segment.to === target.name) continue;
        const named = withHostPorts(topology, segment, [source, target]);
        const key = segmentKey(named);
        const way = ways.get(key) ?? { segment: named, pairs: new Map<string, string[]>() };
        ways.set(key, way);
        way.pairs.set(target.name, [...(way.pairs.get(target.name) ?? []), source.name]);
      }
    }
  return { ways, ambiguousPairs, networks: networks.length };
}

/** The port to which a network is connected, if the map names it. */
function withHostPorts(topology: Topology, segment: Segment, hosts: readonly Host[]): Segment {
  let { from, to } = segment;
  for (const { name, router, port } of hosts) {
    if (port === undefined) continue;
    const at = `${entryAt(topology.routers, router).name}[${name}]`;
    const named = `${entryAt(topology.routers, router).name}[${port}]`;
    if (from === at) from = named;
    if (to === at) to = named;
  }
  return { ...segment, from, to };
}

function measuredHow(
  { kind, from, to, routers }: Segment,
  upgraded: ReadonlySet<string>,
  way: Way | undefined,
  networks: number,
): Pick<NeededSegment, "by" | "filter" | "reason"> {
  const none = (reason: string) => ({ by: "none" as const, filter: null, reason });
  if (!upgraded.has(routers[0] ?? "") || !upgraded.has(routers.at(-1) ?? ""))
    return { by: "probes", filter: null, reason: null };
  if (/[:=]/.test(from + to)) return none("a name with ':' or '=' cannot be part of a label");
  if (Buffer.byteLength(`${from}:${to}`) > MAX_LABEL_BYTES)
    return none(`its name has more than ${MAX_LABEL_BYTES} bytes: give its ports short names in the map`);
  if (networks === 0) {
    if (kind === "link") return { by: "taps", filter: null, reason: null };
    return none("which packets cross it is not known: the map has no networks (hosts such as 10.2.0.0/16)");
  }
  if (!way) return none("no network of the map sends over it");
  const filter = filterOf(way.pairs);
  if (filter.length > MAX_FILTER) return none(`its filter has more than ${MAX_FILTER} characters`);
  return { by: "taps", filter, reason: null };
}

function filterOf(pairs: ReadonlyMap<string, readonly string[]>): string {
  // Destinations with the same sources are combined.
  const bySources = new Map<string, string[]>();
  for (const [target, sources] of pairs) {
    const key = [...sources].sort().join(" ");
    bySources.set(key, [...(bySources.get(key) ?? []), target]);
  }
  const any = (way: "src" | "dst", list: readonly string[]) => {
    const text = list.map((name) => `${way} ${name.includes("/") ? "net" : "host"} ${name}`).join(" or ");
    return list.length > 1 ? `(${text})` : text;
  };
  const parts = [...bySources].map(
    ([sources, targets]) => `${any("src", sources.split(" "))} and ${any("dst", targets)}`,
  );
  return parts.length > 1 ? parts.map((p) => `(${p})`).join(" or ") : (parts[0] ?? "");
}

function isNetwork(name: string): boolean {
  const [address = "", bits, more] = name.split("/");
  return (
    more === undefined && parseAddress(address) !== null && (bits === undefined || /^\d{1,3}$/.test(bits))
  );
}
