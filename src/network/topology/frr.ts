/**
 * FRR's OSPF database as JSON: `show ip ospf database router json` and `show ip ospf mpls-te database json`.
 *
 * Router LSAs: a point-to-point link counts if both ends list it (OSPF's own two-way check); routers on one transit network are joined pairwise at the cost of
 * the sender's interface, which follows from OSPF's zero cost out of a network. Stub networks are not links. A missing metric (trimmed output) counts as 1,
 * with a note. TE database: metric, delay in microseconds (RFC 7471), bandwidth in bytes per second (RFC 3630).
 */

import { FormatError } from "../../base/errors.ts";
import { countOf } from "../../base/quantity.ts";
import { definedOnly, type LinkAttributes, type Topology, TopologyBuilder } from "./topology.ts";

type Json = Record<string, unknown>;

export function isFrrRouterDatabase(value: unknown): boolean {
  return routerDatabases(value).length > 0;
}

export function isFrrTeDatabase(value: unknown): boolean {
  return asObject(asObject(value)?.["ted"])?.["vertices"] !== undefined;
}

/** The database, alone or once per VRF. */
function routerDatabases(value: unknown): Json[] {
  const top = asObject(value);
  if (!top) return [];
  const found: Json[] = [];
  for (const candidate of [top, ...Object.values(top)]) {
    const states = asObject(candidate)?.["routerLinkStates"] ?? asObject(candidate)?.["Router Link States"];
    const object = asObject(states);
    if (object) found.push(asObject(object["areas"]) ?? object);
  }
  return found;
}

export function parseFrrRouterDatabase(value: unknown, file: string): Topology {
  const database = new RouterDatabase(file);
  for (const areas of routerDatabases(value))
    for (const [area, content] of Object.entries(areas))
      for (const lsa of Array.isArray(content) ? content : Object.values(asObject(content) ?? {}))
        database.addLsa(area, asObject(lsa));
  return database.finish();
}

interface Interface {
  readonly router: string;
  readonly weight: number;
  readonly port: string | undefined;
}

/** The routers' own lists, until all have been read. */
class RouterDatabase {
  readonly #file: string;
  readonly #builder = new TopologyBuilder();
  readonly #pointToPoint: (Interface & { readonly to: string })[] = [];
  readonly #networks = new Map<string, Interface[]>();
  #withoutMetric = 0;

  constructor(file: string) {
    this.#file = file;
  }

  addLsa(area: string, lsa: Json | undefined): void {
    const router = text(lsa?.["linkStateId"]) ?? text(lsa?.["advertisingRouter"]);
    if (!lsa || router === undefined)
      throw new FormatError("bad-record", this.#file, 0, `area ${area}: an LSA without linkStateId`);
    this.#builder.router(router);
    for (const item of Object.values(asObject(lsa["routerLinks"]) ?? {})) {
      const link = asObject(item);
      if (link && !/stub/i.test(text(link["linkType"]) ?? "")) this.#addLink(area, router, link);
    }
  }

  #addLink(area: string, router: string, link: Json): void {
    const metric = link["tos0Metric"] ?? link["metric"];
    if (metric === undefined) this.#withoutMetric++;
    // A metric of 0 is legal on the wire; a cost must be positive here so that paths have no loops.
    const end = { router, weight: positive(metric) ?? 1, port: text(link["routerInterfaceAddress"]) };
    const neighbour = text(link["neighborRouterId"]);
    const network = text(link["designatedRouterAddress"]);
    if (neighbour !== undefined) this.#pointToPoint.push({ ...end, to: neighbour });
    else if (network !== undefined) {
      const key = `${area} ${network}`;
      const members = this.#networks.get(key);
      if (members) members.push(end);
      else this.#networks.set(key, [end]);
    }
  }

  finish(): Topology {
    const builder = this.#builder;
    if (builder.routerCount === 0)
      throw new FormatError("empty", this.#file, 0, "the OSPF database contains no router");
    const heard = new Set(this.#pointToPoint.map((l) => `${l.router} ${l.to}`));
    let oneSided = 0;
    for (const { router, to, weight, port } of this.#pointToPoint)
      if (heard.has(`${to} ${router}`) && builder.has(to))
        builder.link(builder.router(router), builder.router(to), {
          weight,
          ...definedOnly({ fromPort: port }),
        });
      else oneSided++;
    for (const members of this.#networks.values()) this.#joinPairwise(members);
    if (this.#withoutMetric > 0)
      builder.note(`${countOf(this.#withoutMetric, "link")} without a metric: 1 assumed`);
    if (oneSided > 0) builder.note(`${countOf(oneSided, "link")} listed by one end only left out`);
    return builder.finish(this.#file);
  }

  #joinPairwise(members: readonly Interface[]): void {
    const builder = this.#builder;
    for (const a of members)
      for (const b of members)
        if (a.router !== b.router)
          builder.link(builder.router(a.router), builder.router(b.router), {
            weight: a.weight,
            ...definedOnly({ fromPort: a.port, toPort: b.port }),
          });
  }
}

export function parseFrrTeDatabase(value: unknown, file: string): Topology {
  const ted = asObject(asObject(value)?.["ted"]) ?? {};
  const builder = new TopologyBuilder();
  const index = new Map<unknown, number>();
  for (const entry of Array.isArray(ted["vertices"]) ? ted["vertices"] : []) {
    const vertex = asObject(entry);
    const name = text(vertex?.["router-id"]) ?? text(vertex?.["vertex-id"]);
    if (!vertex || name === undefined)
      throw new FormatError("bad-record", file, 0, "a vertex without router-id");
    index.set(vertex["vertex-id"], builder.router(name));
  }
  if (builder.routerCount === 0)
    throw new FormatError("empty", file, 0, "the TE database contains no vertex");
  const directed = new Set<string>();
  let dangling = 0;
  for (const entry of Array.isArray(ted["edges"]) ? ted["edges"] : []) {
    const edge = asObject(entry) ?? {};
    const from = index.get(edge["local-vertex-id"]);
    const to = index.get(edge["remote-vertex-id"]);
    if (from === undefined || to === undefined) {
      dangling++;
      continue;
    }
    builder.link(from, to, edgeAttributes(edge));
    directed.add(`${from} ${to}`);
  }
  const oneWay = [...directed].filter((key) => !directed.has(key.split(" ").reverse().join(" "))).length;
  if (oneWay > 0) builder.note(`${countOf(oneWay, "link")} without the reverse direction`);
  if (dangling > 0) builder.note(`${countOf(dangling, "edge")} to routers outside the database left out`);
  return builder.finish(file);
}

function edgeAttributes(edge: Json): LinkAttributes {
  const attributes = asObject(edge["edge-attributes"]) ?? {};
  const delayUs = number(attributes["delay"]);
  const bytesPerSecond = number(attributes["max-link-bandwidth"]);
  return {
    weight: positive(edge["metric"]) ?? positive(attributes["te-metric"]) ?? 1,
    ...definedOnly({
      latencyMs: delayUs === undefined ? undefined : delayUs / 1000,
      capacityBps: bytesPerSecond === undefined ? undefined : bytesPerSecond * 8,
      fromPort: text(attributes["local-address"]),
      toPort: text(attributes["remote-address"]),
    }),
  };
}

function asObject(value: unknown): Json | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== ""
    ? value
    : typeof value === "number"
      ? String(value)
      : undefined;
}

function number(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined;
}

function positive(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value > 0 ? value : undefined;
}
