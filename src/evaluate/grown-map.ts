/** Seeded generators of maps that grow like real networks. */
import { entryAt } from "../base/lists.ts";
import { Random } from "../base/random.ts";
import { type Topology, TopologyBuilder } from "../network/topology/topology.ts";

/** Adds routers one by one with two links each, preferably to well connected routers. */
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

/** Number of points of presence; half of them have two core routers, the others three. */
const PRESENCES = 25;
/** Link costs between points of presence depend on their distance, up to about this value. */
const FAR = 10;

/**
 * Generates a map like an operator's. The core routers of a point of presence are fully meshed. Points of presence connect preferably to well connected ones.
 * Every other router has links to two core routers of its point. The remaining links connect points, or routers inside one.
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
  // `ends` contains each end of each link between points, so that a draw picks points by their number of links; `places` contains a point once per router, so
  // that a draw picks points by their size.
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
