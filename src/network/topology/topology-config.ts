/**
 * Our own map, `hoptime.topology/1` (JSON; page: docs/formats/topology.md): read and written.
 *
 * A link stands for both directions unless `oneWay`. Every name that is used must be declared: a misspelt router is an
 * error with the place in the document, not a new router.
 */
import { UsageError } from "../../base/errors.ts";
import { definedOnly, type Topology, TopologyBuilder } from "./topology.ts";

export const TOPOLOGY_FORMAT = "hoptime.topology/1";

type Json = Record<string, unknown>;

export function isTopologyConfig(value: unknown): boolean {
  return typeof value === "object" && value !== null && "format" in value && value.format === TOPOLOGY_FORMAT;
}

export function parseTopologyConfig(value: unknown, file: string): Topology {
  const top = value as Json;
  const fail = (where: string, message: string): never => {
    throw new UsageError("bad-topology", `${file}: ${where}: ${message}`, "see docs/formats/topology.md");
  };
  const known = new Set(["format", "name", "routers", "links", "hosts", "mRouters", "mServers"]);
  for (const key of Object.keys(top)) if (!known.has(key)) fail(key, "not a field of hoptime.topology/1");
  const list = (key: string): unknown[] => {
    const found = top[key] ?? [];
    return Array.isArray(found) ? found : fail(key, "must be a list");
  };
  const builder = new TopologyBuilder();
  for (const [i, entry] of list("routers").entries()) {
    const where = `routers[${i}]`;
    const router = (typeof entry === "string" ? { name: entry } : entry) as Json | null;
    const name = router?.["name"];
    if (typeof name !== "string" || name === "") return fail(where, "a router needs a name");
    if (builder.has(name)) fail(where, `router '${name}' is declared twice`);
    const ports = router!["ports"];
    if (ports !== undefined && !(Array.isArray(ports) && ports.every((p) => typeof p === "string")))
      fail(where, "ports must be a list of names");
    builder.router(
      name,
      definedOnly({
        latitude: optionalNumber(router!, "latitude", where, fail),
        longitude: optionalNumber(router!, "longitude", where, fail),
        x: optionalNumber(router!, "x", where, fail),
        y: optionalNumber(router!, "y", where, fail),
        ports: ports as string[] | undefined,
      }),
    );
  }
  if (builder.routerCount === 0) fail("routers", "a map needs at least one router");
  const declared = (name: unknown, where: string): number => {
    if (name === undefined) return fail(where, "is missing");
    if (typeof name !== "string" || !builder.has(name))
      return fail(where, `router '${name}' is not declared`);
    return builder.router(name);
  };
  for (const [i, entry] of list("links").entries()) {
    const where = `links[${i}]`;
    const link = (
      typeof entry === "object" && entry !== null ? entry : fail(where, "must be an object")
    ) as Json;
    const from = declared(link["from"], `${where}.from`);
    const to = declared(link["to"], `${where}.to`);
    const weight = optionalNumber(link, "weight", where, fail) ?? 1;
    const back = optionalNumber(link, "reverseWeight", where, fail) ?? weight;
    if (weight <= 0 || back <= 0) fail(where, "a weight must be positive");
    const common = definedOnly({
      latencyMs: optionalNumber(link, "latencyMs", where, fail),
      capacityBps: optionalNumber(link, "capacityBps", where, fail),
    });
    const fromPort = optionalText(link, "fromPort", where, fail);
    const toPort = optionalText(link, "toPort", where, fail);
    const up = link["up"] !== false;
    builder.link(from, to, { weight, up, ...common, ...definedOnly({ fromPort, toPort }) });
    if (link["oneWay"] !== true && from !== to)
      builder.link(to, from, {
        weight: back,
        up,
        ...common,
        ...definedOnly({ fromPort: toPort, toPort: fromPort }),
      });
  }
  for (const [i, entry] of list("hosts").entries()) {
    const where = `hosts[${i}]`;
    const host = entry as Json | null;
    if (typeof host?.["name"] !== "string") return fail(where, "a host needs a name");
    builder.host(
      host["name"],
      declared(host["router"], `${where}.router`),
      optionalText(host, "port", where, fail),
    );
  }
  const mRouters = list("mRouters").map((name, i) => declared(name, `mRouters[${i}]`));
  const mServers =
    top["mServers"] === undefined
      ? null
      : list("mServers").map((name, i) => declared(name, `mServers[${i}]`));
  builder.measuring([...new Set(mRouters)], mServers && [...new Set(mServers)]);
  return builder.finish(typeof top["name"] === "string" ? top["name"] : file);
}

/** The map as `hoptime.topology/1`; every directed link is written as one-way, so that nothing is lost. */
export function topologyConfig(topology: Topology): Json {
  const name = (i: number) => topology.routers[i]!.name;
  return {
    format: TOPOLOGY_FORMAT,
    name: topology.name,
    routers: topology.routers,
    links: topology.links.map(({ from, to, up, ...rest }) => ({
      from: name(from),
      to: name(to),
      oneWay: true,
      ...rest,
      ...(up ? {} : { up }),
    })),
    hosts: topology.hosts.map(({ router, ...rest }) => ({ ...rest, router: name(router) })),
    mRouters: topology.mRouters.map(name),
    ...(topology.mServers ? { mServers: topology.mServers.map(name) } : {}),
  };
}

type Fail = (where: string, message: string) => never;

function optionalNumber(object: Json, key: string, where: string, fail: Fail): number | undefined {
  const value = object[key];
  if (value === undefined) return undefined;
  if (typeof value !== "number" || !Number.isFinite(value))
    return fail(`${where}.${key}`, "must be a number");
  return value;
}

function optionalText(object: Json, key: string, where: string, fail: Fail): string | undefined {
  const value = object[key];
  if (value === undefined) return undefined;
  return typeof value === "string" ? value : fail(`${where}.${key}`, "must be text");
}
