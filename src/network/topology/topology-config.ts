/**
 * hoptime's own map format, `hoptime.topology/1` (JSON; page: docs/formats/topology.md): read and written.
 *
 * A link stands for both directions unless `oneWay`. Every name used must be declared: a misspelt router is an error with the position in the document, not a
 * new router; a misspelt field is refused.
 */
import {
  Array as ArrayOf,
  Object as Fields,
  Boolean as Flag,
  Literal,
  Number as NumberOf,
  Optional,
  type Static,
  String as Text,
  type TProperties,
  Union,
} from "typebox";
import { UsageError } from "../../base/errors.ts";
import { checkedValue } from "../../base/schema.ts";
import { definedOnly, type Topology, TopologyBuilder } from "./topology.ts";

const TOPOLOGY_FORMAT = "hoptime.topology/1";
const HINT = "docs/formats/topology.md describes the fields";

const closed = <P extends TProperties>(fields: P) => Fields(fields, { additionalProperties: false });
const name = Text({ minLength: 1 });
const above0 = Optional(NumberOf({ exclusiveMinimum: 0 }));
const from0 = Optional(NumberOf({ minimum: 0 }));
const place = Optional(NumberOf());
const port = Optional(Text());

const LINK = closed({
  from: name,
  to: name,
  weight: above0,
  reverseWeight: above0,
  oneWay: Optional(Flag()),
  up: Optional(Flag()),
  latencyMs: from0,
  capacityBps: from0,
  fromPort: port,
  toPort: port,
});
const TOPOLOGY = closed({
  format: Literal(TOPOLOGY_FORMAT),
  name: Optional(Text()),
  routers: ArrayOf(
    Union([
      name,
      closed({
        name,
        latitude: place,
        longitude: place,
        x: place,
        y: place,
        ports: Optional(ArrayOf(Text())),
      }),
    ]),
    { minItems: 1 },
  ),
  links: Optional(ArrayOf(LINK)),
  hosts: Optional(ArrayOf(closed({ name, router: name, port }))),
  mRouters: Optional(ArrayOf(name)),
  mServers: Optional(ArrayOf(name)),
});

export function isTopologyConfig(value: unknown): boolean {
  return typeof value === "object" && value !== null && "format" in value && value.format === TOPOLOGY_FORMAT;
}

export function parseTopologyConfig(value: unknown, file: string): Topology {
  const config = checkedValue(TOPOLOGY, value, { source: file, code: "bad-topology", hint: HINT });
  const builder = new TopologyBuilder();
  const refuse = (where: string, message: string) =>
    new UsageError("bad-topology", `${file}: ${where}: ${message}`, HINT);
  for (const [i, entry] of config.routers.entries()) {
    const { name, ...attributes } = typeof entry === "string" ? { name: entry } : entry;
    if (builder.has(name)) throw refuse(`routers[${i}]`, `router '${name}' is declared twice`);
    builder.router(name, attributes);
  }
  const declared = (name: string, where: string): number => {
    if (!builder.has(name)) throw refuse(where, `router '${name}' is not declared`);
    return builder.router(name);
  };
  const allDeclared = (names: readonly string[], where: string) => [
    ...new Set(names.map((name, i) => declared(name, `${where}[${i}]`))),
  ];
  for (const [i, link] of (config.links ?? []).entries())
    addLink(builder, link, declared(link.from, `links[${i}].from`), declared(link.to, `links[${i}].to`));
  for (const [i, host] of (config.hosts ?? []).entries())
    builder.host(host.name, declared(host.router, `hosts[${i}].router`), host.port);
  builder.measuring(
    allDeclared(config.mRouters ?? [], "mRouters"),
    config.mServers === undefined ? null : allDeclared(config.mServers, "mServers"),
  );
  return builder.finish(config.name ?? file);
}

function addLink(builder: TopologyBuilder, link: Static<typeof LINK>, from: number, to: number): void {
  const { weight = 1, reverseWeight = weight, oneWay = false, up = true, fromPort, toPort } = link;
  const common = { up, ...definedOnly({ latencyMs: link.latencyMs, capacityBps: link.capacityBps }) };
  builder.link(from, to, { weight, ...common, ...definedOnly({ fromPort, toPort }) });
  if (!oneWay && from !== to)
    builder.link(to, from, {
      weight: reverseWeight,
      ...common,
      ...definedOnly({ fromPort: toPort, toPort: fromPort }),
    });
}

/** The map as `hoptime.topology/1`; every directed link is written as one-way, so that nothing is lost. */
export function topologyConfig(topology: Topology): Record<string, unknown> {
  const name = (i: number) => topology.routers[i]?.name;
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
