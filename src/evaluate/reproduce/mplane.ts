/** MPLANE, section VI: the m-sets of figure 8 and the plans of figure 9. */
import { entryAt } from "../../base/lists.ts";
import { deployment } from "../../network/plan/deployment.ts";
import { memberLabel, mSets } from "../../network/plan/m-sets.ts";
import { type PlanStep, planUpgrades } from "../../network/plan/plan.ts";
import type { Topology } from "../../network/topology/topology.ts";
import { loadTopology, parseTopology } from "../../network/topology/topology-format.ts";
import { operatorMap } from "../grown-map.ts";
import { count } from "./numbers.ts";
import type { Study, StudyContext, Threshold } from "./study.ts";

/**
 * The paper shows the network only as a picture. These edges and costs are the smallest set that gives the printed m-sets and two equal-cost paths from F to D.
 */
const FIGURE_7 = "A,B,2\nA,F,2\nB,F,3\nC,F,3\nC,D,2\nD,E,1\nE,F,4\n";
const PRINTED: Readonly<Record<string, string>> = { A: "B, F", C: "D, E, F", F: "A, B, D_2, E" };

const examples: Study = {
  name: "mplane-m-sets",
  paper: "lda",
  heads: [
    {
      id: "mplane-8",
      where: "figs. 7 and 8",
      title: "m-sets of six routers, two upgraded",
      claim: "M_A = {B, F}, M_C = {F, D, E}, M_F = {A, B, E, D_2}",
    },
  ],
  async run() {
    const map = parseTopology(FIGURE_7, "figure 7");
    const sets = mSets(map, deployment(map, ["C", "F"]));
    const rows = Object.entries(PRINTED).map(([node, printed]) => {
      const members = sets.find((set) => set.node === node)?.members.map(memberLabel) ?? [];
      return { node, printed, found: members.sort().join(", ") };
    });
    const equal = rows.every(({ printed, found }) => printed === found);
    return {
      "mplane-8": {
        setting: "six routers, C and F upgraded; edges and costs reconstructed, as the figure is a picture",
        literal: null,
        ours: rows.map(({ node, found }) => `M_${node} = {${found}}`).join(", "),
        verdict: equal ? "holds" : "does not hold",
        why: equal
          ? "The link of two upgraded routers is listed at one end, as in the figure."
          : "The m-sets differ from those that are printed.",
        table: {
          columns: ["m-set of", "paper", "measured"],
          rows: rows.map(({ node, printed, found }) => [node, printed, found]),
        },
        figures: [],
        thresholds: [
          {
            what: "m-sets as printed",
            value: rows.filter(({ printed, found }) => printed === found).length,
            limit: rows.length,
            sense: "at least",
            quantity: "count",
          },
        ],
      },
    };
  },
};

/** Rocketfuel 1239 (Sprint): 315 routers, 1,944 directed links. Below: upgraded routers, probe hops, mean segment length. */
const SPRINT = { routers: 315, links: 1944 };
const SPRINT_LEVELS = [
  [0, 965_384, 4.66],
  [10, 159_794, 3.76],
  [20, 29_454, 2.48],
  [45, 5662, 1.58],
  [50, 4746, 1.49],
] as const;

function mapOf({ map, seed }: StudyContext): Topology {
  return map ? loadTopology(map) : operatorMap(SPRINT.routers, SPRINT.links / 2, seed);
}

const plans: Study = {
  name: "mplane-plans",
  paper: "lda",
  usesMap: true,
  heads: [
    {
      id: "mplane-9",
      where: "fig. 9",
      title: "Probe hops and segment length by routers upgraded",
      claim:
        "Sprint, 315 routers: about a million probe hops fall to 10,000 with 45 routers upgraded, the mean segment from 4 to 1.5 hops with 50; random choice is far behind",
    },
  ],
  async run(context) {
    const map = mapOf(context);
    const upgrade = Math.min(60, map.routers.length);
    const ours = planUpgrades(map, { upgrade, strategy: "greedy" });
    context.onProgress?.(0.5);
    const random = planUpgrades(map, { upgrade, strategy: "random", seed: context.seed, repeat: 10 });
    const at = (steps: readonly PlanStep[], n: number) => entryAt(steps, Math.min(n, steps.length - 1));
    const first = at(ours.steps, 0);
    const [after45, after50] = [at(ours.steps, 45), at(ours.steps, 50)];
    const randomHops = at(random.steps, 45).repeated?.meanProbeHops ?? at(random.steps, 45).probeHops;
    const isSprint = ours.routers === SPRINT.routers && ours.links === SPRINT.links;
    const drop = first.probeHops / after45.probeHops;
    const hopsFall = drop >= 50;
    const shortens = (after50.segments.meanHops ?? Infinity) <= 1.6;
    const shown = [0, 10, 20, 45, 50].filter((n) => n < ours.steps.length);
    return {
      "mplane-9": {
        setting: `${ours.topology}: ${count(ours.routers)} routers, ${count(ours.links)} directed links${context.map ? "" : " (drawn like an operator's, as large as the paper's; given Rocketfuel's 1239.weights.intra it is the paper's)"}`,
        literal: null,
        ours: `${count(first.probeHops)} probe hops fall to ${count(after45.probeHops)} with 45 upgraded (${Math.round(drop)} times fewer; random choice ${count(randomHops)}); mean segment ${first.segments.meanHops?.toFixed(2)} to ${after50.segments.meanHops?.toFixed(2)} hops with 50`,
        verdict: hopsFall ? (shortens ? "holds" : "holds for a class") : "does not hold",
        why: hopsFall
          ? `Few routers carry most paths.${shortens ? "" : " Segments stay longer than in the paper: this map is another."} The counters of Algorithm 1 are reset in each round, which the paper leaves out.`
          : "Paths of this map are spread over more routers than those of the paper's.",
        table: {
          columns: ["upgraded", "probe hops", "random choice", "mean segment, hops"],
          rows: shown.map((n) => [
            count(n),
            count(at(ours.steps, n).probeHops),
            count(at(random.steps, n).repeated?.meanProbeHops ?? at(random.steps, n).probeHops),
            at(ours.steps, n).segments.meanHops?.toFixed(2) ?? "–",
          ]),
        },
        figures: [
          {
            title: "Probe hops by routers upgraded",
            x: { label: "routers upgraded" },
            y: { label: "probe hops", scale: "log", quantity: "count" },
            series: [
              {
                name: "greedy",
                kind: "line",
                points: ours.steps.map((s) => ({ x: s.upgraded, y: s.probeHops })),
              },
              {
                name: "random",
                points: random.steps
                  .filter((s) => s.upgraded % 5 === 0)
                  .map((s) => ({ x: s.upgraded, y: s.repeated?.meanProbeHops ?? s.probeHops })),
              },
            ],
          },
          {
            title: "Mean segment by routers upgraded",
            x: { label: "routers upgraded" },
            y: { label: "hops" },
            series: [
              {
                name: "greedy",
                points: ours.steps.map((s) => ({ x: s.upgraded, y: s.segments.meanHops ?? 0 })),
              },
              {
                name: "random",
                points: random.steps
                  .filter((s) => s.upgraded % 5 === 0)
                  .map((s) => ({ x: s.upgraded, y: s.repeated?.meanMeanHops ?? s.segments.meanHops ?? 0 })),
              },
            ],
          },
        ],
        thresholds:
          context.map === undefined
            ? operatorThresholds(drop, randomHops / after45.probeHops, after50.segments.meanHops)
            : isSprint
              ? [...sprintThresholds((n) => at(ours.steps, n)), farBehind(randomHops / after45.probeHops)]
              : [],
      },
    };
  },
};

/** Levels from the paper's curves, for a similar map: a hundred times fewer probe hops, random choice far worse, segments of 1.5 hops. */
function operatorThresholds(drop: number, random: number, meanHops: number | null): Threshold[] {
  const least = { sense: "at least", quantity: "plain" } as const;
  return [
    { what: "times fewer probe hops with 45 upgraded", value: drop, limit: 100, ...least },
    farBehind(random),
    {
      ...{ what: "mean segment with 50 upgraded, hops", value: meanHops ?? Infinity, limit: 1.6 },
      ...{ sense: "at most", quantity: "plain" },
    },
  ];
}

function farBehind(factor: number): Threshold {
  const what = "probe hops of random choice over greedy with 45 upgraded";
  return { what, value: factor, limit: 10, sense: "at least", quantity: "plain" };
}

/** Within 1 %, because ties may be broken differently. */
function sprintThresholds(at: (upgraded: number) => PlanStep): Threshold[] {
  return SPRINT_LEVELS.flatMap(([n, hops, mean]): Threshold[] => [
    {
      what: `probe hops with ${n} upgraded, off the reference`,
      value: Math.abs(at(n).probeHops / hops - 1),
      limit: 0.01,
      sense: "at most",
      quantity: "share",
    },
    {
      what: `mean segment with ${n} upgraded, off the reference`,
      value: Math.abs((at(n).segments.meanHops ?? Infinity) / mean - 1),
      limit: 0.01,
      sense: "at most",
      quantity: "share",
    },
  ]);
}

export const mplaneStudies: readonly Study[] = [examples, plans];
