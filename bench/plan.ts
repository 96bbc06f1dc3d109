/**
 * Measures how long a plan of 1,000 routers takes, and how far the greedy plan is from the optimum on small maps.
 *
 *   node scripts/bench.mjs plan [MAP ...]     with maps: the gap on these; maps that are too large are listed
 */

import { grownMap } from "../src/evaluate/grown-map.ts";
import { planGaps, summariseGaps } from "../src/evaluate/plan-gaps.ts";
import { planUpgrades } from "../src/network/plan/plan.ts";
import type { Topology } from "../src/network/topology/topology.ts";
import { loadTopology } from "../src/network/topology/topology-format.ts";

const MAXIMUM = 5;

function summary(gaps: readonly number[]): string {
  const { mean, worst, optimal, count } = summariseGaps(gaps);
  return `mean ${(100 * mean).toFixed(2)} %, worst ${(100 * worst).toFixed(1)} %, optimal in ${optimal} of ${count}`;
}

function report(title: string, maps: Iterable<Topology>): void {
  const all = { greedy: [] as number[], hops: [] as number[] };
  let count = 0;
  for (const map of maps) {
    try {
      const { greedy, hops } = planGaps(map, MAXIMUM);
      all.greedy.push(...greedy);
      all.hops.push(...hops);
      count++;
    } catch (error) {
      process.stdout.write(`left out: ${(error as Error).message}\n`);
    }
  }
  process.stdout.write(
    `${title}, ${count} maps, 1 to ${MAXIMUM} upgrades: probe hops above the minimum\n` +
      `  greedy       ${summary(all.greedy)}\n  greedy-hops  ${summary(all.hops)}\n`,
  );
}

const files = process.argv.slice(2);
if (files.length > 0) {
  report(
    "given maps",
    files.map((file) => loadTopology(file)),
  );
} else {
  for (const weights of [1, 10]) {
    const map = grownMap(1000, weights, 1);
    for (const upgrade of [50, 1000]) {
      const start = performance.now();
      const { steps } = planUpgrades(map, { upgrade });
      const seconds = ((performance.now() - start) / 1000).toFixed(1);
      process.stdout.write(
        `1,000 routers, ${map.links.length} links, weights 1..${weights}: ${steps.length - 1} upgrades in ${seconds} s\n`,
      );
    }
  }
  report(
    "grown maps of 20 routers",
    Array.from({ length: 40 }, (_, i) => grownMap(20, 5, i + 1)),
  );
}
