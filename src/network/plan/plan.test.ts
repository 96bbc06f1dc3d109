/**
 * Plans of upgrades: shortest paths, Algorithm 1 and other strategies, traffic, text and picture. More than 400 lines: the first quarter is shared by all
 * cases.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { shared } from "../../../tests/support/shared-maps.ts";
import { grownMap } from "../../evaluate/grown-map.ts";
import { renderPlanHtml } from "../../present/html/plan-html.ts";
import { renderPlanSvg } from "../../present/svg/plan-picture.ts";
import { formatPlan } from "../../present/text/plan-text.ts";
import { byName, type Topology, TopologyBuilder } from "../topology/topology.ts";
import { parseTopology } from "../topology/topology-format.ts";
import { type DemandMatrix, parseDemands, transit } from "./demands.ts";
import { deployment, measurementCost } from "./deployment.ts";
import { type Plan, planUpgrades, STRATEGIES } from "./plan.ts";
import { compileGraph, equalCostPaths, pathsTo, shortestPathDag } from "./shortest-paths.ts";
import { UncutPaths } from "./uncut-paths.ts";

/** Small maps with ties, parallel links, one-way links and unconnected parts. */
const smallMaps = fc
  .record({
    routers: fc.integer({ min: 2, max: 8 }),
    links: fc.array(
      fc.record({
        a: fc.nat(7),
        b: fc.nat(7),
        weight: fc.constantFrom(1, 1, 1, 2, 0.1, 0.2, 0.3),
        both: fc.boolean(),
      }),
      { maxLength: 16 },
    ),
  })
  .map(({ routers, links }) => {
    const builder = new TopologyBuilder();
    for (let i = 0; i < routers; i++) builder.router(`r${(i * 5) % 8}`);
    for (const { a, b, weight, both } of links) {
      if (both) builder.bothWays(a % routers, b % routers, { weight });
      else builder.link(a % routers, b % routers, { weight });
    }
    return builder.finish("small");
  });

/** All simple paths by brute force, with only the cheapest kept; costs in tenths so that they compare exactly. */
function slowShortestPaths(t: Topology): { routers: number[]; links: number[] }[] {
  const found: { routers: number[]; links: number[] }[] = [];
  for (let s = 0; s < t.routers.length; s++) {
    const best = new Map<number, { cost: number; paths: { routers: number[]; links: number[] }[] }>();
    const walk = (routers: number[], links: number[], cost: number) => {
      const here = routers.at(-1)!;
      if (links.length > 0) {
        const known = best.get(here);
        if (!known || cost < known.cost) best.set(here, { cost, paths: [{ routers, links }] });
        else if (cost === known.cost) known.paths.push({ routers, links });
      }
      t.links.forEach((l, i) => {
        if (l.up && l.from === here && !routers.includes(l.to))
          walk([...routers, l.to], [...links, i], cost + Math.round(l.weight * 10));
      });
    };
    walk([s], [], 0);
    for (const { paths } of best.values()) found.push(...paths);
  }
  return found;
}

/** Algorithm 1 as the paper lists it, on a set of explicit paths, with count[] reset each round. */
function slowPlan(t: Topology, upgrade: number) {
  const key = (p: { routers: number[]; links: number[] }) => `${p.routers[0]}|${p.links.join()}`;
  let set = new Map(slowShortestPaths(t).map((p) => [key(p), p]));
  const summary = () => {
    const hops = [...set.values()].map((p) => p.links.length);
    const probeHops = hops.reduce((a, b) => a + b, 0);
    return {
      probeHops,
      segments:
        hops.length === 0
          ? { count: 0, minHops: null, meanHops: null, maxHops: null }
          : {
              count: hops.length,
              minHops: Math.min(...hops),
              meanHops: probeHops / hops.length,
              maxHops: Math.max(...hops),
            },
    };
  };
  const steps = [{ router: null as string | null, ...summary() }];
  for (let n = 0; n < upgrade; n++) {
    const count = new Map<number, number>();
    for (const p of set.values())
      for (const r of p.routers.slice(1, -1)) count.set(r, (count.get(r) ?? 0) + 1);
    const ranked = [...count].sort(
      ([a, x], [b, y]) => y - x || byName(t.routers[a]!.name, t.routers[b]!.name),
    );
    if (ranked.length === 0) break;
    const chosen = ranked[0]![0];
    const next = new Map<string, { routers: number[]; links: number[] }>();
    for (const p of set.values()) {
      const at = p.routers.indexOf(chosen);
      const pieces =
        at > 0 && at < p.routers.length - 1
          ? [
              { routers: p.routers.slice(0, at + 1), links: p.links.slice(0, at) },
              { routers: p.routers.slice(at), links: p.links.slice(at) },
            ]
          : [p];
      for (const piece of pieces) next.set(key(piece), piece);
    }
    set = next;
    steps.push({ router: t.routers[chosen]!.name, ...summary() });
  }
  return steps;
}

const mentioned = (plan: Plan) =>
  plan.steps.map(({ router, probeHops, segments }) => ({ router, probeHops, segments }));

describe("shortest paths", () => {
  it("are all the equal-cost paths that brute force finds, parallel links distinguished", () => {
    fc.assert(
      fc.property(smallMaps, (t) => {
        const graph = compileGraph(t);
        const fast = t.routers.flatMap((_, s) => {
          const dag = shortestPathDag(graph, s);
          return [...dag.order.subarray(1)].flatMap((target) => [...pathsTo(dag, target)]);
        });
        const text = (paths: { routers: readonly number[]; links: readonly number[] }[]) =>
          paths.map((p) => JSON.stringify([p.routers, p.links])).sort();
        const slow = slowShortestPaths(t);
        expect(text(fast)).toEqual(text(slow));
      }),
      { numRuns: 150, seed: 11 },
    );
  });

  it("come in name order, whatever the order of the file", () => {
    const t = parseTopology("S,Z\nS,B\nZ,T\nB,T\n", "x");
    const via = equalCostPaths(t, 0, 3).map((p) => t.routers[p.routers[1]!]!.name);
    expect(via).toEqual(["B", "Z"]);
  });

  it("are counted, not listed, where there are too many", () => {
    const grid = squareGrid(12);
    expect(() => equalCostPaths(grid, 0, 143)).toThrow(
      "705432 equal-cost paths from 0,0 to 11,11, more than 1000",
    );
  });

  it("compare decimal weights exactly: 0.1 + 0.2 is 0.3", () => {
    const t = parseTopology("A,B,0.1\nB,C,0.2\nA,C,0.3\n", "x");
    expect(equalCostPaths(t, 0, 2)).toHaveLength(2);
  });
});

describe("Algorithm 1", () => {
  it("on counts equals the listing on explicit paths, step by step", () => {
    fc.assert(
      fc.property(smallMaps, (t) => {
        expect(mentioned(planUpgrades(t, { upgrade: 8 }))).toEqual(slowPlan(t, 8));
      }),
      { numRuns: 200, seed: 12 },
    );
  });

  it("counts anew in each round: a router does not win on paths that are cut already", () => {
    // A line of seven routers. 4 is on 18 paths, 3 and 5 on 16, 2 and 6 on 10. Once 4 is upgraded each of the other four is on 4 uncut paths: the first name
    // wins. Without the reset 3 would be at 16 + 4 and win over 2 at 10 + 4.
    const t = parseTopology("1,2\n2,3\n3,4\n4,5\n5,6\n6,7\n", "line");
    expect(planUpgrades(t, { upgrade: 3 }).steps.map((s) => s.router)).toEqual([null, "4", "2", "5"]);
  });

  it("ends once every segment is one hop, at the number of links that are shortest paths", () => {
    const t = parseTopology("A,B\nB,C\nC,D\n", "line");
    const plan = planUpgrades(t, { upgrade: 50 });
    expect(plan.steps.map((s) => s.router)).toEqual([null, "B", "C"]);
    expect(plan.steps.at(-1)).toMatchObject({
      probeHops: 6,
      segments: { count: 6, minHops: 1, meanHops: 1, maxHops: 1 },
      internalMeasurements: 8,
    });
  });

  it("starts from routers that are upgraded already", () => {
    const t = parseTopology("A,B\nB,C\nC,D\nD,E\n", "line");
    const plan = planUpgrades({ ...t, mRouters: [2] }, { upgrade: 1 });
    expect(plan.already).toEqual(["C"]);
    expect(plan.steps[0]!.probeHops).toBe(planUpgrades(t, { upgrade: 1 }).steps[1]!.probeHops);
  });

  it("plans every unconnected part, and a map with a single router", () => {
    const plan = planUpgrades(parseTopology("A,B\nB,C\nX,Y\nY,Z\n", "two"), { upgrade: 5 });
    expect(plan.parts).toEqual([3, 3]);
    expect(plan.steps.map((s) => s.router)).toEqual([null, "B", "Y"]);
    const lone = new TopologyBuilder();
    lone.router("A");
    expect(planUpgrades(lone.finish("one"), { upgrade: 5 }).steps).toHaveLength(1);
  });

  it("does not use links that are down", () => {
    const t = parseTopology("A,B\nB,C\nA,C\n", "ring");
    const down = { ...t, links: t.links.map((l) => (l.from + l.to === 2 ? { ...l, up: false } : l)) };
    expect(planUpgrades(down, { upgrade: 1 }).steps[1]!.router).toBe("B");
    expect(planUpgrades(t, { upgrade: 1 }).steps).toHaveLength(1);
  });
});

describe("other strategies", () => {
  it("greedy-hops never removes fewer hops in its first step than any other router would", () => {
    fc.assert(
      fc.property(smallMaps, (t) => {
        const first = planUpgrades(t, { upgrade: 1, strategy: "greedy-hops" }).steps.at(-1)!.probeHops;
        for (const [i] of t.routers.entries())
          expect(first).toBeLessThanOrEqual(
            planUpgrades({ ...t, mRouters: [i] }, { upgrade: 0 }).steps[0]!.probeHops,
          );
      }),
      { numRuns: 60, seed: 13 },
    );
  });

  it("optimal-small equals trying every set", () => {
    fc.assert(
      fc.property(smallMaps, (t) => {
        const plan = planUpgrades(t, { upgrade: 3, strategy: "optimal-small" });
        const n = t.routers.length;
        for (const step of plan.steps) {
          let best = Number.POSITIVE_INFINITY;
          for (let mask = 0; mask < 1 << n; mask++) {
            const set = Array.from({ length: n }, (_, i) => i).filter((i) => mask & (1 << i));
            if (set.length !== step.upgraded) continue;
            const paths = new UncutPaths(compileGraph(t));
            for (const router of set) paths.upgrade(router);
            best = Math.min(best, paths.probeHops);
          }
          expect(step.probeHops).toBe(best);
          expect(step.greedyProbeHops!).toBeGreaterThanOrEqual(best);
        }
      }),
      { numRuns: 40, seed: 14 },
    );
  });

  it("optimal-small refuses what it cannot search", () => {
    expect(() => planUpgrades(squareGrid(10), { upgrade: 4, strategy: "optimal-small" })).toThrow(
      "too large",
    );
  });

  it("random is repeated, seeded and the same each time", () => {
    const t = squareGrid(5);
    const plan = planUpgrades(t, { upgrade: 4, strategy: "random", seed: 3, repeat: 5 });
    expect(planUpgrades(t, { upgrade: 4, strategy: "random", seed: 3, repeat: 5 })).toEqual(plan);
    expect(plan.steps[4]!.repeated).toMatchObject({ runs: 5 });
    const { minProbeHops, meanProbeHops, maxProbeHops } = plan.steps[4]!.repeated!;
    expect(minProbeHops).toBeLessThanOrEqual(meanProbeHops);
    expect(meanProbeHops).toBeLessThanOrEqual(maxProbeHops);
  });

  it("betweenness is the share of paths through a router, summed over pairs", () => {
    // Centre of a star: on all 6 ordered pairs of leaves; leaves on none, so there is only one step.
    const plan = planUpgrades(parseTopology("C,1\nC,2\nC,3\n", "star"), {
      upgrade: 4,
      strategy: "betweenness",
    });
    expect(plan.steps.map((s) => s.router)).toEqual([null, "C"]);
  });

  it("a dear router is left for a cheap one, and the budget is kept", () => {
    const t = parseTopology("1,2\n2,3\n3,4\n4,5\n5,6\n6,7\n", "line");
    const plan = planUpgrades(t, { upgrade: 7, costs: new Map([["4", 10]]), budget: 3 });
    expect(plan.steps.map((s) => s.router)).toEqual([null, "3", "5", "2"]);
    expect(plan.steps.map((s) => s.totalCost)).toEqual([0, 1, 2, 3]);
    expect(() => planUpgrades(t, { upgrade: 1, costs: new Map([["nine", 1]]) })).toThrow(
      "'nine', which is not in",
    );
  });

  it.each([
    [{ upgrade: -1 }, "whole number"],
    [{ upgrade: 1.5 }, "whole number"],
    [{ upgrade: 1, strategy: "random" as const, repeat: 0 }, "repeat"],
    [{ upgrade: 1, demands: new Float64Array(1) }, "does not fit"],
    [{ upgrade: 1, demands: new Float64Array(9), strategy: "random" as const }, "traffic is weighed by"],
  ])("%j is refused", (options, message) => {
    expect(() => planUpgrades(parseTopology("A,B\nB,C\n", "x"), options)).toThrow(message);
  });
});

describe("traffic", () => {
  /** Walks every demand along every equal-cost path of its pair. */
  function slowTransit(t: Topology, demands: DemandMatrix) {
    const n = t.routers.length;
    const across = new Float64Array(n * n);
    const pieces: { volume: number; routers: readonly number[] }[] = [];
    for (let s = 0; s < n; s++)
      for (let d = 0; d < n; d++) {
        const paths = s === d ? [] : equalCostPaths(t, s, d);
        for (const p of paths) {
          const volume = demands[s * n + d]! / paths.length;
          pieces.push({ volume, routers: p.routers });
          for (let i = 0; i < p.routers.length; i++)
            for (let j = i + 1; j < p.routers.length; j++)
              across[p.routers[i]! * n + p.routers[j]!]! += volume;
        }
      }
    return { across, pieces };
  }

  it("crosses pairs of routers, and makes segments, as when every packet is walked", () => {
    fc.assert(
      fc.property(smallMaps, fc.infiniteStream(fc.nat(9)), (t, amounts) => {
        const n = t.routers.length;
        const demands = Float64Array.from({ length: n * n }, () => amounts.next().value!);
        const slow = slowTransit(t, demands);
        const fast = transit(compileGraph(t), demands);
        for (let i = 0; i < n * n; i++) expect(fast.across[i]).toBeCloseTo(slow.across[i]!, 8);
        const plan = planUpgrades(t, { upgrade: 2, demands });
        const upgraded = new Set<number>();
        for (const step of plan.steps) {
          if (step.router) upgraded.add(t.routers.findIndex((r) => r.name === step.router));
          let hops = 0;
          let squares = 0;
          for (const { volume, routers } of slow.pieces) {
            let length = 0;
            routers.slice(1).forEach((router, i) => {
              length++;
              if (!upgraded.has(router) && i < routers.length - 2) return;
              hops += volume * length;
              squares += volume * length * length;
              length = 0;
            });
          }
          expect(step.trafficMeanHops!).toBeCloseTo(hops > 0 ? squares / hops : 0, 8);
        }
      }),
      { numRuns: 60, seed: 15 },
    );
  });

  it("draws the choice to where it flows", () => {
    const t = parseTopology("a1,a2\na2,a3\na3,a4\na4,a5\nb1,b2\nb2,b3\n", "two lines");
    expect(planUpgrades(t, { upgrade: 1 }).steps[1]!.router).toBe("a3");
    const demands = parseDemands("from,to,volume\nb1,b3,10\n", "d.csv", t);
    const plan = planUpgrades(t, { upgrade: 3, demands });
    expect(plan.steps.map((s) => [s.router, s.trafficMeanHops])).toEqual([
      [null, 2],
      ["b2", 1],
    ]);
  });

  it("names a router that is not on the map", () => {
    const t = parseTopology("A,B\n", "x");
    expect(() => parseDemands("A,Q,1\n", "d.csv", t)).toThrow("line 1: 'Q' is not a router of x");
    expect(() => parseDemands("A,B,-1\n", "d.csv", t)).toThrow("volume '-1'");
  });
});

describe("large maps", () => {
  it("1,000 routers are planned in less than 10 s of processor time, all upgrades", () => {
    const t = grownMap(1000, 10, 1);
    const start = process.cpuUsage();
    const plan = planUpgrades(t, { upgrade: 1000 });
    // CPU time: other load of the machine must not count.
    const seconds = process.cpuUsage(start).user / 1e6;
    expect(plan.steps.at(-1)!.segments.maxHops).toBe(1);
    expect(seconds).toBeLessThan(10);
  });

  it("path counts beyond 2^53 are rounded and said so", () => {
    const plan = planUpgrades(squareGrid(32), { upgrade: 3 });
    expect(plan.exact).toBe(false);
    expect(plan.steps[3]!.probeHops).toBeLessThan(plan.steps[0]!.probeHops);
    expect(formatPlan(plan)).toContain("beyond 2^53");
  });
});

describe("plan as text and picture", () => {
  it("holds every step, and escapes names", () => {
    const t = parseTopology('A<b>,"B&C"\n"B&C",D\n', "x<y>.csv");
    const plan = planUpgrades(t, { upgrade: 1 });
    expect(formatPlan(plan)).toContain("1  B&C ");
    const svg = renderPlanSvg(t, plan);
    expect(svg).toContain("B&amp;C (upgrade 1)");
    const html = renderPlanHtml(t, plan);
    expect(html).toContain("x&lt;y&gt;.csv");
    expect(html).not.toMatch(/<b>|https?:\/\/(?!www\.w3\.org)|<script|src=/);
    expect(renderPlanSvg(t, planUpgrades(t, { upgrade: 1 }))).toBe(svg);
    expect(svg).not.toContain("NaN");
  });
});

shared("topology/rocketfuel", (folder) => {
  const t = () => parseTopology(readFileSync(join(folder, "1239.weights.intra")), "1239");

  it("1239 (Sprint): the hops and lengths of the reference, exactly, with ties by name", () => {
    const plan = planUpgrades(t(), { upgrade: 50 });
    expect([plan.routers, plan.links]).toEqual([315, 1944]);
    const at = (n: number) => [
      plan.steps[n]!.probeHops,
      Number(plan.steps[n]!.segments.meanHops!.toFixed(2)),
    ];
    expect(plan.steps[0]!.segments.count).toBe(207_138);
    expect([0, 10, 20, 45, 50].map(at)).toEqual([
      [965_384, 4.66],
      [159_794, 3.76],
      [29_454, 2.48],
      [5_662, 1.58],
      [4_746, 1.49],
    ]);
  });

  it("1239: choosing at random is far behind, choosing by hops is ahead at first", () => {
    const hopsAt = (strategy: "random" | "betweenness" | "greedy-hops", n: number) =>
      planUpgrades(t(), { upgrade: n, strategy, repeat: 5 }).steps[n]!;
    expect(hopsAt("random", 45).repeated!.minProbeHops).toBeGreaterThan(20 * 5_662);
    expect(hopsAt("betweenness", 45).probeHops).toBeGreaterThan(5_662);
    expect(hopsAt("greedy-hops", 10).probeHops).toBeLessThan(159_794);
  });
});

function squareGrid(side: number): Topology {
  const builder = new TopologyBuilder();
  for (let y = 0; y < side; y++) for (let x = 0; x < side; x++) builder.router(`${x},${y}`);
  for (let y = 0; y < side; y++)
    for (let x = 0; x < side; x++) {
      if (x + 1 < side) builder.bothWays(y * side + x, y * side + x + 1);
      if (y + 1 < side) builder.bothWays(y * side + x, (y + 1) * side + x);
    }
  return builder.finish("grid");
}

describe("where there is nothing to measure", () => {
  const apart = parseTopology("a,b\nb,c\nd,e\n", "apart.csv");

  it("lengths are unknown, not 0", () => {
    const alone = new TopologyBuilder();
    alone.router("a");
    const plan = planUpgrades(alone.finish("alone"), { upgrade: 3 });
    expect(plan.steps[0]!.segments).toEqual({ count: 0, minHops: null, meanHops: null, maxHops: null });
    expect(formatPlan(plan)).toMatch(/0 +0 +– +– +–/);
  });

  it("demands without a path are named, and traffic that cannot travel has no mean", () => {
    const demands = parseDemands("a,e,5\n", "demands.csv", apart);
    const plan = planUpgrades(apart, { upgrade: 1, demands });
    expect(plan.notes.join()).toContain("1 demand has no path and is left out: a to e");
    expect(plan.steps[0]!.trafficMeanHops).toBeNull();
    const both = planUpgrades(apart, { upgrade: 1, demands: parseDemands("a,e,5\na,c,1\n", "d.csv", apart) });
    expect(both.steps[0]!.trafficMeanHops).toBe(2);
    expect(both.notes.join()).toContain("a to e");
    const fine = planUpgrades(apart, { upgrade: 1, demands: parseDemands("a,c,1\n", "d.csv", apart) });
    expect(fine.notes).toEqual([]);
  });
});

describe("maps that are too large", () => {
  const line = (routers: number) => {
    const builder = new TopologyBuilder();
    for (let i = 0; i < routers; i++) builder.router(`r${i}`);
    for (let i = 1; i < routers; i++) builder.bothWays(i - 1, i);
    return builder.finish("large");
  };

  it("of 100,000 routers are refused in one line, at once", () => {
    const topology = line(100_000);
    const message = "large: 100,000 routers; the paths of all pairs are found for at most 5,000";
    for (const strategy of STRATEGIES)
      expect(() => planUpgrades(topology, { upgrade: 1, strategy })).toThrow(message);
    expect(() => parseDemands("r0,r1,1\n", "d.csv", topology)).toThrow(message);
    expect(() => measurementCost(topology, deployment(topology, ["r0"]))).toThrow(message);
  });

  it("of links beyond measure too", () => {
    const builder = new TopologyBuilder();
    const n = 1200;
    for (let i = 0; i < n; i++) builder.router(`r${i}`);
    for (let a = 0; a < n; a++) for (let b = 0; b < a; b++) builder.link(a, b);
    expect(() => planUpgrades(builder.finish("dense"), { upgrade: 1 })).toThrow(
      "dense: 719,400 links of 1,200 routers; the paths of all pairs are found for at most 416,666",
    );
  });
});
