/** LDS, section 5.2: sampling rates for lossy traffic (figure 11). */
import { entryAt } from "../../base/lists.ts";
import { lds } from "../../estimators/lds/lds.ts";
import { parseParameters } from "../../estimators/parameters.ts";
import { distribution } from "../../present/figure/figure.ts";
import { runPopulation } from "../flow-population.ts";
import { decode, type FlowError, quantile, SEED, traffic } from "./lds-population.ts";
import { count, percent, percents } from "./numbers.ts";
import { repeat, type Study, type Threshold } from "./study.ts";

const LOSSES = [0.001, 0.005, 0.01];
const SAMPLINGS = [
  { name: "four rates", rates: "1/.5/.1/.01" },
  { name: "all packets", rates: "1/1/1/1" },
  { name: "5 % in all rows", rates: ".05/.05/.05/.05" },
];

/** Levels for our decoder at 1 % loss: its error, and that it is no worse than either rule it chooses from, flow by flow. */
function choiceLevels({
  ours,
  alone,
}: {
  ours: readonly FlowError[];
  alone: readonly (readonly FlowError[])[];
}): Threshold[] {
  return LOSSY.flatMap(({ name, from, to, most }): Threshold[] => {
    const own = quantile(ours, from, to, 0.5);
    const others = alone.map((errors) => quantile(errors, from, to, 0.5));
    return [
      {
        what: `ours with four rates at 1 % loss, ${name} packets`,
        value: own,
        ...{ limit: most, sense: "at most", quantity: "share" },
      },
      {
        what: `the better of belief propagation and the smallest cell over ours at 1 % loss, ${name} packets`,
        value: Math.min(...others) / own,
        ...{ limit: 0.95, sense: "at least", quantity: "plain" },
      },
    ];
  });
}

/**
 * By flow size: the error of the paper's rule relative to belief propagation at 0.1 % loss, and the smallest error of all rules at 1 %, both in the reference
 * simulation.
 */
const LOSSY = [
  { name: "500–999", from: 500, to: 999, reference: 3.5 / 1.2, most: 0.028 },
  { name: "1k–5k", from: 1000, to: 4999, reference: 3.2 / 0.74, most: 0.028 },
  { name: "≥ 5k", from: 5000, to: Infinity, reference: 1.1 / 0.65, most: 0.018 },
] as const;

export const ldsLoss: Study = {
  name: "lds-loss",
  paper: "lds",
  heads: [
    {
      id: "lds-11",
      where: "fig. 11",
      title: "Sampling rates against loss",
      claim:
        "one rate for all rows is either too careful or lost to losses; rows of four rates do well at 0.1, 0.5 and 1 % loss",
    },
  ],
  async run(context) {
    const { population, shrink } = traffic(context);
    const columns = Math.round(87_500 / shrink);
    const texts = SAMPLINGS.map(({ rates }) => `rows=4,columns=${columns},k=5,rates=${rates}`);
    const pairs = texts.map((text) => ({
      estimator: lds,
      parameters: parseParameters(lds, text),
      seed: SEED,
    }));
    const runs = await repeat(context, LOSSES.length, (l) => {
      const run = runPopulation(context.kernels, population, pairs, { loss: entryAt(LOSSES, l) });
      const alpha = texts.map((text, i) => decode(run, i, text, "alpha"));
      const by = (decoder: "auto" | "bp" | "smallest") => decode(run, 0, entryAt(texts, 0), decoder);
      const ours = by("auto");
      // Belief propagation and the smallest cell alone: the choice between them matters at the highest loss rate.
      return { alpha, ours, alone: l === LOSSES.length - 1 ? [by("bp"), by("smallest")] : [] };
    });
    const named = [...SAMPLINGS.map((s) => s.name), "four rates, ours"];
    const errors = (l: number, i: number) =>
      i < SAMPLINGS.length ? entryAt(entryAt(runs, l).alpha, i) : entryAt(runs, l).ours;
    const median = (l: number, i: number, from = 1000) => quantile(errors(l, i), from, Infinity, 0.5);
    const within = (i: number, from: number, to: number) => quantile(errors(0, i), from, to, 0.5);
    const last = LOSSES.length - 1;
    const holds = LOSSES.every((_, l) => median(l, 0) < 1.1 * Math.max(median(l, 1), median(l, 2)));
    return {
      "lds-11": {
        setting: `${count(population.flows)} flows, ${count(population.packets)} packets, uniform loss; 4 × ${count(columns)} cells, k = 5`,
        literal: `flows of 1,000 packets and more at 0.1 / 0.5 / 1 % loss: ${percents(LOSSES.map((_, l) => median(l, 0)))} with four rates, ${percents(LOSSES.map((_, l) => median(l, 1)))} with all packets, ${percents(LOSSES.map((_, l) => median(l, 2)))} with 5 %`,
        ours: `${percents(LOSSES.map((_, l) => median(l, 3)))} from the cells with four rates`,
        verdict: holds ? "holds" : "does not hold",
        why: holds
          ? `Some row suits each flow's losses: at 1 % loss the error is ${percent(median(last, 0))} where one rate gives ${percent(Math.max(median(last, 1), median(last, 2)))}.`
          : "Pooling the cells near the smallest also takes those of the rows that sample 1 and 10 %, which hold few packets of a flow. Weighing each cell by its variance makes the four rates better than any single one.",
        table: {
          columns: ["", ...LOSSES.map((l) => `${percent(l)} loss: > 100, > 1,000 packets`)],
          rows: named.map((name, i) => [
            name,
            ...LOSSES.map((_, l) => percents([median(l, i, 100), median(l, i)])),
          ]),
        },
        figures: LOSSES.map((loss, l) => ({
          title: `Flows of 1,000 packets and more, ${percent(loss)} loss`,
          x: { label: "relative error", scale: "log", quantity: "share", range: [1e-4, 1] } as const,
          y: { label: "flows", quantity: "share", range: [0, 1] } as const,
          series: named.map((name, i) =>
            distribution(
              name,
              errors(l, i)
                .filter((e) => e.packets >= 1000)
                .map((e) => Math.max(1e-4, e.error)),
            ),
          ),
        })),
        thresholds: [
          ...LOSSY.map(({ name, from, to, reference }) => ({
            what: `paper's rule over ours with four rates at 0.1 % loss, ${name} packets`,
            value: within(0, from, to) / within(3, from, to),
            ...{ limit: 1.5, reference, sense: "at least" as const, quantity: "plain" as const },
          })),
          ...choiceLevels(entryAt(runs, last)),
        ],
      },
    };
  },
};
