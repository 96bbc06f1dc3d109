/** Maps that grow like networks do: routers join by preference for well connected ones, two links each. Seeded. */
import { Random } from "../base/random.ts";
import { type Topology, TopologyBuilder } from "../network/topology/topology.ts";

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
