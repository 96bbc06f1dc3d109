/**
 * A network map: routers, directed links, hosts, and which routers measure (LDA/MPLANE paper, sections II and VI).
 *
 * Links are directed; a cable is two of them. Parallel links between the same routers are kept separate (each has its own queue); a link from a router to
 * itself carries no path and is dropped and counted. Weights are routing costs and must be positive, so that a shortest path has no loops. This file is
 * independent of file formats: see topology-format.ts.
 */
import { UsageError } from "../../base/errors.ts";
import { entryAt } from "../../base/lists.ts";

export interface Router {
  readonly name: string;
  readonly latitude?: number;
  readonly longitude?: number;
  /** Position on a drawing, without a unit. */
  readonly x?: number;
  readonly y?: number;
  readonly ports?: readonly string[];
}

export interface Link {
  /** Index into `routers`. */
  readonly from: number;
  readonly to: number;
  readonly weight: number;
  readonly latencyMs?: number;
  readonly capacityBps?: number;
  readonly fromPort?: string;
  readonly toPort?: string;
  readonly up: boolean;
}

export interface Host {
  readonly name: string;
  readonly router: number;
  readonly port?: string;
}

export interface Topology {
  readonly name: string;
  readonly routers: readonly Router[];
  readonly links: readonly Link[];
  readonly hosts: readonly Host[];
  /** Routers that measure already. */
  readonly mRouters: readonly number[];
  /** Routers with an m-server; `null` if the map does not state them (then: every router that is not upgraded). */
  readonly mServers: readonly number[] | null;
  /** Notes for the user: dropped self loops, missing weights, one-way links. One line each. */
  readonly notes: readonly string[];
}

export interface LinkAttributes {
  weight?: number;
  latencyMs?: number;
  capacityBps?: number;
  fromPort?: string;
  toPort?: string;
  up?: boolean;
}

/** Far above the maps of real networks; a file that joins everything with everything is refused before it fills the memory. */
const MAX_ROUTERS = 1_000_000;
const MAX_LINKS = 2_000_000;
const TOO_LARGE = "take a part of the network, or one router for each site";

/** Collects routers and links by name; `finish` returns the map. */
export class TopologyBuilder {
  readonly #routers: Router[] = [];
  readonly #index = new Map<string, number>();
  readonly #links: Link[] = [];
  readonly #hosts: Host[] = [];
  #mRouters: number[] = [];
  #mServers: number[] | null = null;
  readonly #notes: string[] = [];
  #selfLoops = 0;

  get routerCount(): number {
    return this.#routers.length;
  }

  has(name: string): boolean {
    return this.#index.has(name);
  }

  /** Returns the index of the router with this name, and adds it if it is new. */
  router(name: string, attributes: Omit<Router, "name"> = {}): number {
    const known = this.#index.get(name);
    if (known !== undefined) {
      if (Object.keys(attributes).length > 0)
        this.#routers[known] = { ...entryAt(this.#routers, known), ...attributes };
      return known;
    }
    if (this.#routers.length === MAX_ROUTERS)
      throw new UsageError(
        "bad-topology",
        `more than ${MAX_ROUTERS.toLocaleString("en-US")} routers in a map`,
        TOO_LARGE,
      );
    this.#index.set(name, this.#routers.length);
    this.#routers.push({ name, ...attributes });
    return this.#routers.length - 1;
  }

  /** Adds one directed link. The caller has checked the weight, and reports errors with the position in its file. */
  link(from: number, to: number, attributes: LinkAttributes = {}): void {
    if (from === to) {
      this.#selfLoops++;
      return;
    }
    if (this.#links.length === MAX_LINKS)
      throw new UsageError(
        "bad-topology",
        `more than ${MAX_LINKS.toLocaleString("en-US")} links in a map`,
        TOO_LARGE,
      );
    const { weight = 1, up = true, ...rest } = attributes;
    this.#links.push({ from, to, weight, up, ...definedOnly(rest) });
  }

  bothWays(a: number, b: number, attributes: LinkAttributes = {}): void {
    this.link(a, b, attributes);
    const { fromPort, toPort, ...rest } = attributes;
    if (a !== b) this.link(b, a, { ...rest, ...definedOnly({ fromPort: toPort, toPort: fromPort }) });
  }

  host(name: string, router: number, port?: string): void {
    this.#hosts.push({ name, router, ...definedOnly({ port }) });
  }

  measuring(mRouters: number[], mServers: number[] | null): void {
    this.#mRouters = mRouters;
    this.#mServers = mServers;
  }

  note(text: string): void {
    this.#notes.push(text);
  }

  finish(name: string): Topology {
    if (this.#routers.length === 0) throw new UsageError("bad-topology", `${name}: a map without routers`);
    if (this.#selfLoops > 0)
      this.#notes.push(`${this.#selfLoops} self loop${this.#selfLoops > 1 ? "s" : ""} left out`);
    return {
      name,
      routers: this.#routers,
      links: this.#links,
      hosts: this.#hosts,
      mRouters: this.#mRouters,
      mServers: this.#mServers,
      notes: this.#notes,
    };
  }
}

/** Returns the index of a router, or throws a UsageError with the closest names. */
export function routerIndex(topology: Topology, name: string): number {
  const index = topology.routers.findIndex((router) => router.name === name);
  if (index >= 0) return index;
  const wanted = name.toLowerCase();
  const near = topology.routers.map((r) => r.name).filter((n) => n.toLowerCase().includes(wanted));
  throw new UsageError(
    "bad-topology",
    `${topology.name} has no router '${name}'`,
    near.length > 0
      ? `did you mean ${near.slice(0, 3).join(" or ")}?`
      : `its routers: ${topology.routers
          .slice(0, 5)
          .map((r) => r.name)
          .join(", ")}${topology.routers.length > 5 ? ", …" : ""}`,
  );
}

/** Returns the connected parts over the links that are up (direction ignored), largest first; each a sorted list of routers. */
export function components(topology: Topology): number[][] {
  const parent = Int32Array.from(topology.routers, (_, i) => i);
  const find = (i: number): number => {
    while (parent[i] !== i) i = parent[i] = parent[parent[i]!]!;
    return i;
  };
  for (const link of topology.links) if (link.up) parent[find(link.from)] = find(link.to);
  const parts = new Map<number, number[]>();
  for (let i = 0; i < parent.length; i++) {
    const root = find(i);
    const part = parts.get(root);
    if (part) part.push(i);
    else parts.set(root, [i]);
  }
  return [...parts.values()].sort((a, b) => b.length - a.length || entryAt(a, 0) - entryAt(b, 0));
}

/** Name order by code unit: the same on every machine, whatever its locale. */
export function byName(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

export function definedOnly<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, v]) => v !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };
}
