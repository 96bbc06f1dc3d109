import { routerIndex, type Topology } from "../../src/network/topology/topology.ts";

/** Returns the same map with all links between the two routers (both directions) down or up. */
export function withLink(topology: Topology, a: string, b: string, state: "up" | "down"): Topology {
  const from = routerIndex(topology, a);
  const to = routerIndex(topology, b);
  let touched = 0;
  const links = topology.links.map((link) => {
    const between = (link.from === from && link.to === to) || (link.from === to && link.to === from);
    if (between) touched++;
    return between ? { ...link, up: state === "up" } : link;
  });
  if (touched === 0) throw new Error(`${topology.name} has no link between ${a} and ${b}`);
  return { ...topology, links };
}
