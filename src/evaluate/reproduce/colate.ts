/** COLATE: figures 2 to 10 (section 6). Several points, RLI and Count-Min are in colate-others.ts. */
import { entryAt } from "../../base/lists.ts";
import { Random } from "../../base/random.ts";
import { colate } from "../../estimators/colate/colate.ts";
import { type Estimator, isNoAnswer } from "../../estimators/estimator.ts";
import { colateLiteral } from "../../estimators/lab/colate-literal/literal.ts";
import { parseParameters } from "../../estimators/parameters.ts";
import { distribution } from "../../present/figure/figure.ts";
import { independentFlows } from "../../simulate/presets.ts";
import { askFlows, COLATE_SEED } from "../colate-experiments.ts";
import { type ClassScore, type FlowRun, pickFlows, runFlows, scoreFlows } from "../flow-runs.ts";
import { colateConditions } from "./colate-conditions.ts";
import { deviationFinding } from "./colate-deviation.ts";
import { colateOthers } from "./colate-others.ts";
import { flowSizesFinding, sizesFinding } from "./colate-sizes.ts";
import { average, count, middle, percent, percents } from "./numbers.ts";
import type { FindingBody, Study, StudyContext, Threshold } from "./study.ts";

const LITERAL = "n=65536,m=20,unit=1024";
/** In a quick run of 4 s, n is chosen for the same number of packets per counter as with 65,536 counters in 10 s. */
const ours = (n: number) => `n=${n},m=2,vectors=1,check=0,b=26,unit=256,delay=1e6`;

function durationOf({ scale }: StudyContext): number {
  return scale === "full" ? 10 : 4;
}

function pair(estimator: Estimator, text: string) {
  return { estimator, parameters: parseParameters(estimator, text), seed: COLATE_SEED };
}

/** Returns the relative errors of flows, by their index in the run; a missing answer counts as 100 %. */
function relativeErrors(
  run: FlowRun,
  answers: readonly { flow: number; mean: unknown }[],
  places: readonly number[] | null,
  from: number,
  to: number,
): number[] {
  return answers.flatMap(({ flow, mean }) => {
    const place = places ? entryAt(places, flow) : flow;
    const packets = run.flows.packets[place]!;
    if (packets < from || packets > to) return [];
    const value = mean as { valueNs: number };
    return [isNoAnswer(mean as never) ? 1 : Math.abs(value.valueNs / run.meanNs[place]! - 1)];
  });
}

const accuracy: Study = {
  name: "colate-accuracy",
  paper: "colate",
  heads: [
    {
      id: "colate-2",
      where: "fig. 2",
      title: "What a flow adds to its counters",
      claim:
        "the time stamps of a flow divide equally over its counters: the ratio to the expected share is 1 in the mean and in the median",
    },
    {
      id: "colate-3",
      where: "figs. 3 and 4",
      title: "Memory, threshold and permanent storage by the equations",
      claim: "the more memory, the larger the threshold T and the less permanent storage",
    },
    {
      id: "colate-5",
      where: "fig. 5",
      title: "Sizes of flows",
      claim: "traces contain small as well as very large flows",
    },
    {
      id: "colate-6",
      where: "fig. 6",
      title: "Error of flows' means",
      claim:
        "always within the required confidence interval with the required reliability: 5 % for 95 % of the flows, 1 % for 99 %",
    },
    {
      id: "colate-7",
      where: "figs. 7 and 9",
      title: "Error of flows' standard deviations",
      claim: "below 5 % for 91 % of the flows with 1,000 virtual repetitions, for 98 % with 100,000",
    },
    {
      id: "colate-10",
      where: "fig. 10",
      title: "Bits stored per packet",
      claim: "below 0.1 bit per packet, and the fewer the more memory there is",
    },
  ],
  async run(context) {
    const durationS = durationOf(context);
    const n = Math.round((65_536 * durationS) / 10);
    const sizes = [n / 4, n, 4 * n].map(Math.round);
    const scenario = independentFlows({ seed: context.seed, traffic: { durationS } });
    const pairs = [
      pair(colateLiteral, LITERAL),
      ...sizes.map((size) => pair(colate as Estimator, ours(size))),
    ];
    const run = await runFlows(context.kernels, scenario, pairs);
    context.onProgress?.(0.5);
    const packets = run.received.reduce((a, b) => a + b, 0);
    const setting = `${count(packets)} packets of ${count(run.flows.count)} flows, each with a latency of its own (30 % jitter), nothing lost`;
    const large = [...run.flows.packets.keys()].filter(
      (f) => run.flows.packets[f]! >= 1000 && run.flows.packets[f]! < 10_000,
    );
    const published = askFlows(colateLiteral, `${LITERAL},repetitions=100`, run, 0, pickFlows(run, large));
    const answers = sizes.map((size, i) => askFlows(colate as Estimator, ours(size), run, i + 1, run.flows));
    return {
      "colate-2": sharesFinding(context),
      "colate-3": sizesFinding(),
      "colate-5": flowSizesFinding(setting, run.flows.packets),
      "colate-6": meansFinding(setting, run, large, published, answers, sizes),
      "colate-7": deviationFinding(context, setting, run, large, published),
      "colate-10": bitsFinding(setting, run, packets, sizes),
    };
  },
};

type Answers = readonly ReturnType<typeof askFlows>[];

function meansFinding(
  setting: string,
  run: FlowRun,
  large: readonly number[],
  published: Answers[number],
  answers: Answers,
  sizes: readonly number[],
): FindingBody {
  const literal = relativeErrors(run, published.flows, large, 1000, 9999);
  const own = answers.map((answer) => relativeErrors(run, answer.flows, null, 1000, 9999));
  const [hundreds, thousands] = scoreFlows(run, entryAt(answers, 1), [
    [100, 999],
    [1000, 9999],
  ]) as [ReturnType<typeof scoreFlows>[number], ReturnType<typeof scoreFlows>[number]];
  const within = (errors: readonly number[]) => errors.filter((e) => e <= 0.05).length / errors.length;
  return {
    setting: `${setting}; flows of 1,000 to 9,999 packets`,
    literal: `median error ${count(100 * middle(literal))} % (${LITERAL}): off by ${count(middle(literal))} times the delay; ${percent(within(literal))} of the flows within 5 %`,
    ours: `${percent(thousands.median)}, ${percent(thousands.within5)} within 5 %; flows of hundreds of packets ${percent(hundreds.median)}`,
    verdict: within(literal) >= 0.95 ? "holds" : "does not hold",
    why: "A counter chosen at random at each point adds foreign time stamps, not foreign delays: they are 10³ to 10⁶ times larger. Choosing the counter by the packet at both points leaves differences, and denoising all known flows together does the rest.",
    table: {
      columns: ["counters", "100–999 packets: median, within 5 %", "1,000–9,999", "inside 95 % intervals"],
      rows: answers.map((answer, i) => {
        const [h, t] = scoreFlows(run, answer, [
          [100, 999],
          [1000, 9999],
        ]);
        return [
          count(entryAt(sizes, i)),
          percents([h?.median ?? Number.NaN, h?.within5 ?? Number.NaN]),
          percents([t?.median ?? Number.NaN, t?.within5 ?? Number.NaN]),
          percents([h?.inInterval ?? Number.NaN, t?.inInterval ?? Number.NaN]),
        ];
      }),
    },
    figures: [
      {
        title: "COLATE: error of flows of 1,000 to 9,999 packets",
        x: { label: "relative error", scale: "log", quantity: "share", range: [1e-5, 1e6] },
        y: { label: "flows", quantity: "share", range: [0, 1] },
        series: [
          ...own.map((errors, i) =>
            distribution(
              `ours, ${count(entryAt(sizes, i))}`,
              errors.map((e) => Math.max(1e-5, e)),
            ),
          ),
          distribution(
            "as published",
            literal.map((e) => Math.min(1e6, e)),
          ),
        ],
      },
    ],
    thresholds: [
      ...levels(middle(literal), hundreds, thousands),
      ...otherSizes(
        sizes,
        answers.map((answer) =>
          scoreFlows(run, answer, [
            [100, 999],
            [1000, 9999],
          ]),
        ),
      ),
    ],
  };
}

function levels(published: number, hundreds: ClassScore, thousands: ClassScore): Threshold[] {
  return [
    {
      what: "as published, median error",
      value: published,
      limit: 100,
      sense: "at least",
      quantity: "plain",
    },
    {
      what: "1,000–9,999 packets, median",
      value: thousands.median,
      limit: 0.01,
      sense: "at most",
      quantity: "share",
    },
    {
      what: "1,000–9,999 packets within 5 %",
      value: thousands.within5,
      limit: 0.93,
      sense: "at least",
      quantity: "share",
    },
    {
      what: "100–999 packets, median",
      value: hundreds.median,
      limit: 0.07,
      sense: "at most",
      quantity: "share",
    },
  ];
}

/**
 * With 1/4 and 4 times the counters: median errors of the two classes of flows. The reference simulation gave 15 / 1.8 % with 16k and 1.6 / 0.22 % with 260k.
 * The limits are above it by the same factor as those of 65k (7 and 1 % for 5.1 and 0.57 %).
 */
const OTHER_SIZES = [
  { at: 0, limits: [0.2, 0.031] },
  { at: 2, limits: [0.022, 0.0038] },
] as const;

function otherSizes(sizes: readonly number[], scores: readonly (readonly ClassScore[])[]): Threshold[] {
  return OTHER_SIZES.flatMap(({ at, limits }) =>
    ["100–999", "1,000–9,999"].map(
      (name, c): Threshold => ({
        what: `${name} packets, median, ${count(entryAt(sizes, at))} counters`,
        value: entryAt(entryAt(scores, at), c).median,
        ...{ limit: entryAt(limits, c), sense: "at most", quantity: "share" },
      }),
    ),
  );
}

/** Distribution of a flow's p packets over m counters, relative to the mean p/m. */
function sharesFinding({ seed }: StudyContext): FindingBody {
  const random = new Random(seed).fork("counters");
  const [m, trials] = [20, 400];
  const ratios = [100, 1000, 10_000].map((packets) => ({
    packets,
    ratios: Array.from({ length: trials }, () => {
      const sums = new Float64Array(m);
      for (let i = 0; i < packets; i++) sums[random.below(m)]! += 1 + random.float();
      return [...sums].map((s) => (s * m) / (1.5 * packets));
    }).flat(),
  }));
  const last = entryAt(ratios, 2).ratios;
  return {
    setting: `flows of 100, 1,000 and 10,000 packets over ${m} counters, ${trials} flows each`,
    literal: `mean ${average(last).toFixed(3)}, median ${middle(last).toFixed(3)}`,
    ours: "the counter is chosen by the packet's digest, the same at both points",
    verdict: Math.abs(average(last) - 1) < 0.01 ? "holds" : "does not hold",
    why: "Lemma 1 is right; what it says of the flow's own packets does not help against the others'.",
    table: {
      columns: ["packets", "mean ratio", "median", "p5", "p95"],
      rows: ratios.map(({ packets, ratios: own }) => {
        const sorted = own.toSorted((a, b) => a - b);
        return [
          count(packets),
          average(own).toFixed(3),
          ...[0.5, 0.05, 0.95].map((q) => entryAt(sorted, Math.floor(q * sorted.length)).toFixed(3)),
        ];
      }),
    },
    figures: [
      {
        title: "A counter's share of its flow, over the expected one",
        x: { label: "ratio", range: [0, 2] },
        y: { label: "counters", quantity: "share", range: [0, 1] },
        series: ratios.map(({ packets, ratios: own }) => distribution(`${count(packets)} packets`, own)),
      },
    ],
    thresholds: [],
  };
}

function bitsFinding(setting: string, run: FlowRun, packets: number, sizes: readonly number[]): FindingBody {
  const bits = sizes.map((_, i) => (8 * entryAt(run.sealed, i + 1).sender.payload.length) / packets);
  const literal = (8 * entryAt(run.sealed, 0).sender.payload.length) / packets;
  return {
    setting,
    literal: `${literal.toFixed(2)} bits per packet for one vector of 65,536 counters over this trace`,
    ours: `${bits.map((v) => v.toFixed(2)).join(" / ")} bits per packet with ${sizes.map(count).join(" / ")} counters`,
    verdict: entryAt(bits, 1) < 0.1 ? "holds" : "does not hold",
    why: "Below 0.1 bit is reached with so few counters that large flows alone are measured. The trade is between bits and the smallest flow that is measured, not between memory and storage.",
    table: {
      columns: ["counters", "bits per packet"],
      rows: sizes.map((size, i) => [count(size), entryAt(bits, i).toFixed(3)]),
    },
    figures: [
      {
        title: "COLATE: bits stored per packet and point",
        x: { label: "counters", names: sizes.map(count) },
        y: { label: "bits per packet", scale: "log" },
        series: [
          { name: "ours", kind: "marks", points: bits.map((y, x) => ({ x, y })) },
          { name: "claimed", claimed: true, points: sizes.map((_, x) => ({ x, y: 0.1 })) },
        ],
      },
    ],
    thresholds: [],
  };
}

export const colateStudies: readonly Study[] = [accuracy, colateConditions, ...colateOthers];
