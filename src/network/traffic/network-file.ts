/** A whole network to be simulated: a map in any format that `plan` reads, who sends how much to whom, and links that carry more than they can for a while. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
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
    /** Packets per second of every link, where no demand says more. */
    linkPps: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1e7 })),
    demands: Type.Optional(
      Type.Array(
        Type.Object(
          { from: name, to: name, pps: Type.Number({ exclusiveMinimum: 0, maximum: 1e7 }) },
          closed,
        ),
        { maxItems: 100_000 },
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
            /** Of what the link can carry: 1.2 is a fifth too much, with what it has anyway. */
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

export interface NetworkLink {
  from: string;
  to: string;
  /** One way, without queueing. */
  propagationNs: number;
  ratePps: number;
  /** What the link can carry. */
  capacityBps: number;
  incident: { startS: number; durationS: number; load: number } | null;
}

export interface SimulatedNetwork {
  name: string;
  points: string[];
  links: NetworkLink[];
}

export const MEAN_PACKET_BYTES = 735;
const UTILISATION = 0.6;
const DEFAULT_LATENCY_MS = 1;

/** A file of this format, or a map alone: then every link carries `linkPps`. */
export function readNetwork(file: string, linkPps: number): SimulatedNetwork {
  // Whatever it is, it has to be there.
  readMap(
    file,
    "give a network file (format hoptime.network/1, docs/simulate.md) or a map, such as network.graphml",
  );
  const given = networkIn(file);
  const map = given ? loadTopology(join(dirname(file), given.map)) : loadTopology(file);
  const loads = given?.demands ? routed(map, given.demands, file) : null;
  const incidents = given?.incidents ?? [];
  const nameOf = (router: number) => entryAt(map.routers, router).name;
  const links = new Map<string, NetworkLink>();
  for (const [i, link] of map.links.entries()) {
    const [from, to] = [nameOf(link.from), nameOf(link.to)];
    const ratePps = loads ? (loads[i] ?? 0) : (given?.linkPps ?? linkPps);
    // Parallel links are one segment: their ends have the same names.
    if (!link.up || ratePps === 0 || links.has(`${from}:${to}`)) continue;
    const incident = incidents.find((it) => it.from === from && it.to === to) ?? null;
    links.set(`${from}:${to}`, {
      ...{ from, to, ratePps, incident, propagationNs: (link.latencyMs ?? DEFAULT_LATENCY_MS) * 1e6 },
      capacityBps: link.capacityBps ?? (ratePps * 8 * MEAN_PACKET_BYTES) / UTILISATION,
    });
  }
  for (const { from, to } of incidents)
    if (!links.has(`${from}:${to}`))
      throw new UsageError(
        "bad-topology",
        `${file}: incidents: no link from '${from}' to '${to}' that carries traffic`,
      );
  const list = [...links.values()];
  return { name: map.name, links: list, points: [...new Set(list.flatMap((l) => [l.from, l.to]))] };
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
    if (!path) throw new UsageError("bad-topology", `${file}: demands: no way from '${from}' to '${to}'`);
    for (const link of path.links) loads[link]! += pps;
  }
  return loads;
}
