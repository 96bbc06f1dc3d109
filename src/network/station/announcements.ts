/** Checks that a measurement state packet contains only what its reporter may report. Names are checked against the map before anything is stored. */
import { portNames } from "../plan/deployment.ts";
import type { Topology } from "../topology/topology.ts";
import type { MeasurementStatePacket } from "./msp.ts";

/** Points that a router may have: itself (its m-server), and its ports. */
export class KnownPoints {
  readonly #points = new Map<string, Set<string>>();
  readonly #routerOf = new Map<string, string>();

  constructor(topology: Topology) {
    const name = (router: number) => topology.routers[router]?.name ?? "";
    const add = (router: string, point: string) => {
      this.#points.get(router)?.add(point);
      this.#routerOf.set(point, router);
    };
    for (const router of topology.routers) {
      this.#points.set(router.name, new Set());
      add(router.name, router.name);
      for (const port of router.ports ?? []) add(router.name, `${router.name}[${port}]`);
    }
    for (const [i, { from, to }] of topology.links.entries()) {
      const { fromPort, toPort } = portNames(topology, i);
      add(name(from), `${name(from)}[${fromPort}]`);
      add(name(to), `${name(to)}[${toPort}]`);
    }
    for (const host of topology.hosts) {
      add(name(host.router), `${name(host.router)}[${host.name}]`);
      if (host.port !== undefined) add(name(host.router), `${name(host.router)}[${host.port}]`);
    }
  }

  knows(router: string): boolean {
    return this.#points.has(router);
  }

  routerOf(point: string): string | undefined {
    return this.#routerOf.get(point);
  }
}

/** Null, or a claim that its reporter may not make. */
export function wrongClaim(packet: MeasurementStatePacket, points: KnownPoints): string | null {
  const { reporter, reporterKind, entries } = packet;
  for (const { kind, from, to } of entries) {
    const [a, b] = [points.routerOf(from), points.routerOf(to)];
    const name = `${from} → ${to}`;
    if (a === undefined || b === undefined) return `${name}: there is no such point on the map`;
    if (a !== reporter && b !== reporter) return `${name}: neither end is at ${reporter}`;
    if (kind === "router" && (a !== b || reporterKind !== "m-router"))
      return `${name}: a segment inside a router is reported by that m-router alone`;
    if (kind !== "router" && a === b) return `${name}: a link has two routers`;
  }
  return null;
}
