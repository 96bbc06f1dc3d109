/**
 * GraphML, as the Internet Topology Zoo writes it (and networkx, yEd and others, for plain nodes and edges).
 *
 * Names are labels where they are unique, else "label (id)". Weight: an edge attribute named weight, cost or metric,
 * else 1. Latency: an attribute latency or delay in milliseconds, else from coordinates, great circle at two thirds of
 * the speed of light. Capacity: LinkSpeedRaw (bit/s). Nested graphs are flattened; hyperedges are joined pairwise.
 */
import { FormatError } from "../../base/errors.ts";
import { byteOffset } from "./text-lines.ts";
import { definedOnly, type LinkAttributes, type Topology, TopologyBuilder } from "./topology.ts";
import { readXml, XmlProblem } from "./xml.ts";

interface Element {
  readonly id: string;
  readonly at: number;
  readonly data: Map<string, string>;
}
interface EdgeElement extends Element {
  readonly ends: string[];
  readonly directed: boolean;
}

/** Light in fibre covers about 200 km in a millisecond. */
const FIBRE_KM_PER_MS = 299.792458 * (2 / 3);

export function parseGraphMl(text: string, file: string): Topology {
  const { graphs, nodes, edges } = readElements(text, file);
  if (graphs === 0) throw new FormatError("bad-header", file, 0, "no <graph> element: not GraphML");
  if (nodes.length === 0) throw new FormatError("empty", file, 0, "the graph has no nodes");
  const builder = new TopologyBuilder();
  const index = new Map<string, number>();
  const coordinates = new Map<number, { latitude: number; longitude: number }>();
  const labelUses = new Map<string, number>();
  for (const node of nodes) {
    const label = node.data.get("label")?.trim();
    if (label) labelUses.set(label, (labelUses.get(label) ?? 0) + 1);
  }
  for (const node of nodes) {
    if (index.has(node.id)) continue;
    const label = node.data.get("label")?.trim();
    let name = label ? (labelUses.get(label)! > 1 ? `${label} (${node.id})` : label) : node.id;
    while (builder.has(name)) name = `${name} (${node.id})`;
    const latitude = finite(node.data.get("latitude"));
    const longitude = finite(node.data.get("longitude"));
    const drawn = { x: finite(node.data.get("x")), y: finite(node.data.get("y")) };
    const router = builder.router(name, definedOnly({ latitude, longitude, ...drawn }));
    index.set(node.id, router);
    if (latitude !== undefined && longitude !== undefined) coordinates.set(router, { latitude, longitude });
  }
  let fromCoordinates = 0;
  for (const edge of edges) {
    const ends = edge.ends.map((id) => {
      const router = index.get(id);
      if (router === undefined)
        throw new FormatError(
          "bad-record",
          file,
          byteOffset(text, edge.at),
          `an edge names node '${id}', which is not in the graph`,
        );
      return router;
    });
    const attributes = edgeAttributes(edge, text, file);
    for (let i = 0; i < ends.length; i++)
      for (let j = i + 1; j < ends.length; j++) {
        const a = ends[i]!;
        const b = ends[j]!;
        const own = { ...attributes };
        const ca = coordinates.get(a);
        const cb = coordinates.get(b);
        if (own.latencyMs === undefined && ca && cb && a !== b) {
          own.latencyMs = greatCircleKm(ca, cb) / FIBRE_KM_PER_MS;
          fromCoordinates++;
        }
        if (edge.directed && ends.length === 2) builder.link(a, b, own);
        else builder.bothWays(a, b, own);
      }
  }
  if (fromCoordinates > 0)
    builder.note(`latency of ${fromCoordinates} edges from coordinates (light in fibre, straight line)`);
  return builder.finish(file);
}

function readElements(text: string, file: string) {
  const keys = new Map<string, string>();
  const nodes: Element[] = [];
  const edges: EdgeElement[] = [];
  const open: (Element | EdgeElement | null)[] = [];
  let directedByDefault = false;
  let graphs = 0;
  let unclosed = 0;
  let dataKey: string | null = null;
  try {
    for (const event of readXml(text)) {
      if (event.kind === "text") {
        const owner = open.at(-1);
        // A nested element of a drawing program may add text of its own; the first text of a key stands.
        if (dataKey !== null && owner && event.text.trim() !== "" && !owner.data.has(dataKey))
          owner.data.set(dataKey, event.text.trim());
      } else if (event.kind === "close") {
        if (event.name === "data") dataKey = null;
        else if (event.name === "graph") unclosed--;
        else if (event.name === "node" || event.name === "edge" || event.name === "hyperedge") open.pop();
      } else if (event.name === "key") {
        const id = event.attributes.get("id");
        const name = event.attributes.get("attr.name") ?? event.attributes.get("yfiles.type");
        if (id !== undefined && name !== undefined) keys.set(id, name.toLowerCase());
      } else if (event.name === "graph") {
        graphs++;
        unclosed++;
        directedByDefault = event.attributes.get("edgedefault") === "directed";
      } else if (event.name === "node") {
        const id = event.attributes.get("id");
        if (id === undefined)
          throw new FormatError("bad-record", file, byteOffset(text, event.at), "a node without an id");
        const node = { id, at: event.at, data: new Map<string, string>() };
        nodes.push(node);
        open.push(node);
      } else if (event.name === "edge" || event.name === "hyperedge") {
        const ends = [event.attributes.get("source"), event.attributes.get("target")];
        if (event.name === "edge" && (ends[0] === undefined || ends[1] === undefined))
          throw new FormatError(
            "bad-record",
            file,
            byteOffset(text, event.at),
            "an edge without source or target",
          );
        const directed = event.attributes.get("directed");
        const edge: EdgeElement = {
          id: event.attributes.get("id") ?? "",
          at: event.at,
          data: new Map(),
          ends: ends.filter((e) => e !== undefined),
          directed: directed === undefined ? directedByDefault : directed === "true",
        };
        edges.push(edge);
        open.push(edge);
      } else if (event.name === "endpoint") {
        const owner = open.at(-1);
        const node = event.attributes.get("node");
        if (owner && "ends" in owner && node !== undefined) owner.ends.push(node);
      } else if (event.name === "data") {
        const id = event.attributes.get("key") ?? "";
        dataKey = keys.get(id) ?? id.toLowerCase();
      }
    }
  } catch (problem) {
    if (!(problem instanceof XmlProblem)) throw problem;
    throw new FormatError("bad-record", file, byteOffset(text, problem.at), `XML: ${problem.message}`, {
      cause: problem,
    });
  }
  // A file that was cut off would be a smaller network without a word.
  if (unclosed > 0)
    throw new FormatError(
      "bad-record",
      file,
      byteOffset(text, text.length),
      "the file ends within <graph>: it was cut off, get it again",
    );
  return { graphs, nodes, edges };
}

function edgeAttributes(edge: EdgeElement, text: string, file: string): LinkAttributes {
  const weightText = edge.data.get("weight") ?? edge.data.get("cost") ?? edge.data.get("metric");
  let weight: number | undefined;
  if (weightText !== undefined) {
    weight = Number(weightText);
    if (!(weight > 0 && Number.isFinite(weight)))
      throw new FormatError(
        "bad-record",
        file,
        byteOffset(text, edge.at),
        `an edge has the weight '${weightText}'; a weight is a positive number`,
      );
  }
  const latencyMs = finite(edge.data.get("latency") ?? edge.data.get("delay"));
  const speed = finite(edge.data.get("linkspeedraw"));
  return definedOnly({
    weight,
    latencyMs: latencyMs !== undefined && latencyMs >= 0 ? latencyMs : undefined,
    capacityBps: speed !== undefined && speed > 0 ? speed : undefined,
  });
}

function finite(text: string | undefined): number | undefined {
  if (text === undefined || text.trim() === "") return undefined;
  const value = Number(text);
  return Number.isFinite(value) ? value : undefined;
}

function greatCircleKm(
  a: { latitude: number; longitude: number },
  b: { latitude: number; longitude: number },
): number {
  const radians = Math.PI / 180;
  const halfLat = ((b.latitude - a.latitude) * radians) / 2;
  const halfLon = ((b.longitude - a.longitude) * radians) / 2;
  const h =
    Math.sin(halfLat) ** 2 +
    Math.cos(a.latitude * radians) * Math.cos(b.latitude * radians) * Math.sin(halfLon) ** 2;
  return 2 * 6371 * Math.asin(Math.min(1, Math.sqrt(h)));
}
