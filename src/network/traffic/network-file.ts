/** A whole network for simulation: a map in any format that `plan` reads, who sends how much to whom, and links that are overloaded for a while. */
import { readFileSync } from "node:fs";
import { dirname, isAbsolute, join } from "node:path";
import Type, { type Static } from "typebox";
import { UsageError } from "../../base/errors.ts";
import { entryAt } from "../../base/lists.ts";
import { checkedValue } from "../../base/schema.ts";
import { compileGraph, pathsTo, shortestPathDag } from "../plan/shortest-paths.ts";
import type { Topology } from "../topology/topology.ts";
import { loadTopology, readMap } from "../topology/topology-format.ts";

const name = Type.String({ minLength: 1, maxLength: 64 });
const closed = { additionalProperties: false };
const FILE = Type.Object(
  {
    format: Type.Literal("hoptime.network/1"),
    map: Type.String({ minLength: 1 }),
    /** Packets per second of every link, unless demands give more. */
    linkPps: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1e7 })),
    demands: Type.Optional(
      Type.Array(
        Type.Object(
          { from: name, to: name, pps: Type.Number({ exclusiveMinimum: 0, maximum: 1e7 }) },
          closed,
        ),
        { minItems: 1, maxItems: 100_000 },
      ),
    ),
    incidents: Type.Optional(
      Type.Array(
        Type.Object(
          {
            from: name,
            to: name,
            startS: Type.Number({ minimum: 0 }),
            durationS: Type.Number({ exclusiveMinimum: 0 }),
            /** Load as a multiple of the link's capacity: 1.2 is a fifth too much, including its usual traffic. */
            load: Type.Number({ exclusiveMinimum: 0, maximum: 10 }),
          },
          closed,
        ),
        { maxItems: 1000 },
      ),
    ),
  },
  closed,
);

type Incident = NonNullable<Static<typeof FILE>["incidents"]>[number];

export interface NetworkLink {
  from: string;
  to: string;
  /** One-way, without queueing. */
  propagationNs: number;
  ratePps: number;
  /** Capacity of the link. */
  capacityBps: number;
  /** Not overlapping, in time order. */
  incidents: { startS: number; durationS: number; load: number }[];
}

export interface SimulatedNetwork {
  name: string;
  points: string[];
  links: NetworkLink[];
}

export const MEAN_PACKET_BYTES = 735;
const UTILISATION = 0.6;
const DEFAULT_LATENCY_MS = 1;

/** A file of this format, or only a map: then every link carries `linkPps`. */
export function readNetwork(file: string, linkPps: number): SimulatedNetwork {
  // The file must exist in either case.
  readMap(
    file,
    "give a network file (format hoptime.network/1, docs/simulate.md) or a map, such as network.graphml",
  );
  const given = networkIn(file);
  const map = loadTopology(given ? besides(file, given.map) : file);
  const loads = given?.demands ? routed(map, given.demands, file) : null;
  const incidents = incidentsByLink(given?.incidents ?? [], file);
  const names = pointNames(map.routers.map((router) => router.name));
  const links = new Map<string, NetworkLink>();
  for (const [i, link] of map.links.entries()) {
    const [from, to] = [entryAt(names, link.from), entryAt(names, link.to)];
    const own = linkKey(entryAt(map.routers, link.from).name, entryAt(map.routers, link.to).name);
    const ratePps = loads ? (loads[i] ?? 0) : (given?.linkPps ?? linkPps);
    // Parallel links are one segment: their ends have the same names.
    if (!link.up || ratePps === 0 || links.has(`${from}:${to}`)) continue;
    links.set(`${from}:${to}`, {
      ...{ from, to, ratePps, incidents: incidents.get(own) ?? [] },
      ...{ propagationNs: (link.latencyMs ?? DEFAULT_LATENCY_MS) * 1e6 },
      capacityBps: link.capacityBps ?? (ratePps * 8 * MEAN_PACKET_BYTES) / UTILISATION,
    });
    incidents.delete(own);
  }
  for (const [{ from, to }] of incidents.values() as Iterable<[Incident]>)
    throw new UsageError(
      "bad-topology",
      `${file}: incidents: no link from '${from}' to '${to}' that carries traffic`,
    );
  const list = [...links.values()];
  return { name: map.name, links: list, points: [...new Set(list.flatMap((l) => [l.from, l.to]))] };
}

function besides(file: string, map: string): string {
  return isAbsolute(map) ? map : join(dirname(file), map);
}

/** Groups incidents by link, in time order. They must not overlap: the traffic of two at once would exceed the load of either. */
function incidentsByLink(incidents: readonly Incident[], file: string): Map<string, Incident[]> {
  const byLink = new Map<string, Incident[]>();
  for (const incident of [...incidents].sort((a, b) => a.startS - b.startS)) {
    const key = linkKey(incident.from, incident.to);
    const own = byLink.get(key) ?? [];
    const last = own.at(-1);
    if (last && last.startS + last.durationS > incident.startS)
      throw new UsageError(
        "bad-topology",
        `${file}: incidents: two at once on the link from '${incident.from}' to '${incident.to}' (at ${incident.startS} s)`,
      );
    byLink.set(key, [...own, incident]);
  }
  return byLink;
}

const linkKey = (from: string, to: string) => JSON.stringify([from, to]);

/** Two of them and a colon form the name of a segment. */
const POINT_NAME_BYTES = 31;

/** Turns router names into point names: without ':', short enough that two of them fit the name of a segment, and unique. */
function pointNames(routers: readonly string[]): string[] {
  const taken = new Set<string>();
  return routers.map((router) => {
    const name = router.replaceAll(":", "-").trim();
    let point = cutTo(name, POINT_NAME_BYTES);
    for (let n = 2; taken.has(point); n++) point = `${cutTo(name, POINT_NAME_BYTES - 5)}~${n}`;
    taken.add(point);
    return point;
  });
}

function cutTo(text: string, bytes: number): string {
  const encoder = new TextEncoder();
  let characters = [...text];
  while (encoder.encode(characters.join("")).length > bytes) characters = characters.slice(0, -1);
  return characters.join("").trimEnd();
}

function networkIn(file: string): Static<typeof FILE> | null {
  let json: unknown;
  try {
    json = JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return null;
  }
  const { format } = (json ?? {}) as { format?: unknown };
  if (typeof format !== "string" || !format.startsWith("hoptime.network/")) return null;
  return checkedValue(FILE, json, { code: "bad-topology", source: file });
}

/** Packets per second of each link: demands take the first of their shortest paths. */
function routed(
  map: Topology,
  demands: NonNullable<Static<typeof FILE>["demands"]>,
  file: string,
): Float64Array {
  const graph = compileGraph(map);
  const index = new Map(map.routers.map((router, i) => [router.name, i]));
  const loads = new Float64Array(map.links.length);
  const dags = new Map<number, ReturnType<typeof shortestPathDag>>();
  for (const { from, to, pps } of demands) {
    const [source, target] = [index.get(from), index.get(to)];
    if (source === undefined || target === undefined)
      throw new UsageError(
        "bad-topology",
        `${file}: demands: no router '${source === undefined ? from : to}' on the map`,
      );
    const dag = dags.get(source) ?? shortestPathDag(graph, source);
    dags.set(source, dag);
    const [path] = pathsTo(dag, target);
    if (!path) throw new UsageError("bad-topology", `${file}: demands: no path from '${from}' to '${to}'`);
    for (const link of path.links) loads[link]! += pps;
  }
  return loads;
}
