/**
 * GraphML, as written by the Internet Topology Zoo (and networkx, yEd and others, for plain nodes and edges).
 *
 * Names are labels if they are unique, else "label (id)". Weight: an edge attribute named weight, cost or metric, else 1. Latency: an attribute latency or
 * delay in milliseconds, else from coordinates, great circle at two thirds of the speed of light. Capacity: LinkSpeedRaw (bit/s). Nested graphs are flattened;
 * hyperedges are joined pairwise.
 */

import { FormatError } from "../../base/errors.ts";
import { countOf } from "../../base/quantity.ts";
import { type EdgeElement, type Element, readGraphMl } from "./graphml-elements.ts";
import { byteOffset } from "./text-lines.ts";
import { definedOnly, type LinkAttributes, type Topology, TopologyBuilder } from "./topology.ts";

/** Light in fibre covers about 200 km in a millisecond. */
const FIBRE_KM_PER_MS = 299.792458 * (2 / 3);
/** A hyperedge joins every pair of its ends: a shared medium of more routers than this is not a network map. */
const MAX_HYPEREDGE_ENDS = 500;

export function parseGraphMl(text: string, file: string): Topology {
  const { graphs, nodes, edges } = readGraphMl(text, file);
  if (graphs === 0) throw new FormatError("bad-header", file, 0, "no <graph> element: not GraphML");
  if (nodes.length === 0) throw new FormatError("empty", file, 0, "the graph has no nodes");
  const map = new MapOfGraph(text, file);
  map.addRouters(nodes);
  for (const edge of edges) map.addEdge(edge);
  return map.finish();
}

interface Place {
  readonly latitude: number;
  readonly longitude: number;
}

class MapOfGraph {
  readonly #text: string;
  readonly #file: string;
  readonly #builder = new TopologyBuilder();
  readonly #index = new Map<string, number>();
  readonly #places = new Map<number, Place>();
  #fromCoordinates = 0;

  constructor(text: string, file: string) {
    this.#text = text;
    this.#file = file;
  }

  #refusal(at: number, message: string): FormatError {
    return new FormatError("bad-record", this.#file, byteOffset(this.#text, at), message);
  }

  addRouters(nodes: readonly Element[]): void {
    const labelOf = (node: Element) => node.data.get("label")?.trim() ?? "";
    const uses = new Map<string, number>();
    for (const node of nodes) uses.set(labelOf(node), (uses.get(labelOf(node)) ?? 0) + 1);
    for (const node of nodes) {
      if (this.#index.has(node.id)) continue;
      const label = labelOf(node);
      let name = label === "" ? node.id : uses.get(label) === 1 ? label : `${label} (${node.id})`;
      while (this.#builder.has(name)) name = `${name} (${node.id})`;
      const latitude = finite(node.data.get("latitude"));
      const longitude = finite(node.data.get("longitude"));
      const drawn = { x: finite(node.data.get("x")), y: finite(node.data.get("y")) };
      const router = this.#builder.router(name, definedOnly({ latitude, longitude, ...drawn }));
      this.#index.set(node.id, router);
      if (latitude !== undefined && longitude !== undefined)
        this.#places.set(router, { latitude, longitude });
    }
  }

  addEdge(edge: EdgeElement): void {
    if (edge.ends.length > MAX_HYPEREDGE_ENDS)
      throw this.#refusal(
        edge.at,
        `a hyperedge joins ${edge.ends.length.toLocaleString("en-US")} nodes, more than the ${MAX_HYPEREDGE_ENDS} allowed: draw a node for what they share`,
      );
    const ends = edge.ends.map((id) => {
      const router = this.#index.get(id);
      if (router === undefined)
        throw this.#refusal(edge.at, `an edge names node '${id}', which is not in the graph`);
      return router;
    });
    const attributes = edgeAttributes(edge, (message) => this.#refusal(edge.at, message));
    for (const [i, a] of ends.entries())
      for (const b of ends.slice(i + 1)) {
        const own = { ...attributes, ...this.#latency(a, b, attributes.latencyMs) };
        if (edge.directed && ends.length === 2) this.#builder.link(a, b, own);
        else this.#builder.bothWays(a, b, own);
      }
  }

  /** From the coordinates of its ends, if the edge has no latency. */
  #latency(a: number, b: number, given: number | undefined): { latencyMs?: number } {
    const [from, to] = [this.#places.get(a), this.#places.get(b)];
    if (given !== undefined || !from || !to || a === b) return {};
    this.#fromCoordinates++;
    return { latencyMs: greatCircleKm(from, to) / FIBRE_KM_PER_MS };
  }

  finish(): Topology {
    if (this.#fromCoordinates > 0)
      this.#builder.note(
        `latency of ${countOf(this.#fromCoordinates, "edge")} from coordinates (light in fibre, straight line)`,
      );
    return this.#builder.finish(this.#file);
  }
}

function edgeAttributes(edge: EdgeElement, refusal: (message: string) => FormatError): LinkAttributes {
  const weightText = edge.data.get("weight") ?? edge.data.get("cost") ?? edge.data.get("metric");
  let weight: number | undefined;
  if (weightText !== undefined) {
    weight = Number(weightText);
    if (!(weight > 0 && Number.isFinite(weight)))
      throw refusal(`invalid edge weight '${weightText}' (expected a number above 0)`);
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

function greatCircleKm(a: Place, b: Place): number {
  const radians = Math.PI / 180;
  const halfLat = ((b.latitude - a.latitude) * radians) / 2;
  const halfLon = ((b.longitude - a.longitude) * radians) / 2;
  const h =
    Math.sin(halfLat) ** 2 +
    Math.cos(a.latitude * radians) * Math.cos(b.latitude * radians) * Math.sin(halfLon) ** 2;
  return 2 * 6371 * Math.asin(Math.min(1, Math.sqrt(h)));
}
