// A network map: which routers to upgrade first, so that a fault is located to few hops with few probes.
import { parseTopology, planUpgrades } from "hoptime";

// from,to,weight,latencyMs; maps can also be GraphML, Rocketfuel, Repetita, FRR's OSPF database or JSON (loadTopology reads files).
const topology = parseTopology(
  `edge-a,r1,1,1
r1,r2,1,2
r2,r3,1,3
r3,r4,2,2
r4,edge-b,1,1
r1,r4,5,9`,
  "small.csv",
);
const plan = planUpgrades(topology, { upgrade: 2 });
for (const { upgraded, router, probeHops, segments } of plan.steps)
  console.log(
    `${upgraded} upgraded (${router ?? "none"}): ${probeHops} probe hops, ${segments.meanHops.toFixed(2)} hops per segment`,
  );

/* Prints:
0 upgraded (none): 70 probe hops, 2.33 hops per segment
1 upgraded (r2): 28 probe hops, 1.56 hops per segment
2 upgraded (r3): 18 probe hops, 1.29 hops per segment
*/
