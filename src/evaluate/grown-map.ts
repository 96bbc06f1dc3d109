/** Maps that grow like networks do. Seeded. */
import { entryAt } from "../base/lists.ts";
import { Random } from "../base/random.ts";
import { type Topology, TopologyBuilder } from "../network/topology/topology.ts";

/** Routers join by preference for well connected ones, two links each. */
export function grownMap(routers: number, maxWeight: number, seed: number): Topology {
  const builder = new TopologyBuilder();
  const random = new Random(seed);
  const ends = [0];
  builder.router("r0");
  for (let i = 1; i < routers; i++) {
    const router = builder.router(`r${i}`);
    for (const other of new Set([ends[random.below(ends.length)]!, ends[random.below(ends.length)]!])) {
      builder.bothWays(router, other, { weight: 1 + random.below(maxWeight) });
      ends.push(other, router);
    }
  }
  return builder.finish(`grown-${routers}`);
}

/** Points of presence, half of them with two core routers and half with three. */
const PRESENCES = 25;
/** Costs of links between points of presence are by distance, up to about this. */
const FAR = 10;

/**
 * A map like an operator's: core routers of a point of presence know each other, points join by preference for well connected ones, and every other router hangs on two core routers of
 * its point. What is left of the links goes between points, or inside one.
 */
export function operatorMap(routers: number, links: number, seed: number): Topology {
  const random = new Random(seed).fork("operator");
  const builder = new TopologyBuilder();
  const joined = new Set<string>();
  let named = 0;
  const router = () => builder.router(`r${named++}`);
  const link = (a: number, b: number, weight: number) => {
    const name = a < b ? `${a} ${b}` : `${b} ${a}`;
    if (a === b || joined.has(name)) return;
    joined.add(name);
    builder.bothWays(a, b, { weight });
  };
  const pick = (from: readonly number[]) => from[random.below(from.length)]!;
  const points = Array.from({ length: PRESENCES }, (_, p) => {
    const core = Array.from({ length: 2 + (p % 2) }, router);
    for (const a of core) for (const b of core) if (a < b) link(a, b, 1);
    return { core, access: [] as number[], x: random.float(), y: random.float() };
  });
  // Every end of a link between points, so that a point is picked by its links; and every router, by its size.
  const ends = [0];
  const places = [...points.keys()];
  const between = (p: number, q: number) => {
    if (p === q) return;
    const [from, to] = [entryAt(points, p), entryAt(points, q)];
    const weight = 1 + Math.round(FAR * Math.hypot(from.x - to.x, from.y - to.y));
    link(pick(from.core), pick(to.core), weight);
    ends.push(p, q);
  };
  for (let p = 1; p < points.length; p++) for (const q of new Set([pick(ends), pick(ends)])) between(p, q);
  while (named < routers) {
    const p = pick(places);
    places.push(p);
    const { core, access } = entryAt(points, p);
    const own = router();
    const first = random.below(core.length);
    for (const at of [first, (first + 1) % core.length]) link(own, core[at]!, 1 + random.below(2));
    access.push(own);
  }
  while (joined.size < links) {
    if (random.bernoulli(0.5)) between(pick(ends), pick(ends));
    else {
      const { core, access } = entryAt(points, pick(places));
      if (access.length > 0) link(pick(access), pick([...core, ...access]), 1 + random.below(2));
    }
  }
  return builder.finish(`operator-${routers}`);
}
