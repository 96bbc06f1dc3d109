/** LDA's standard deviation where delays come from a queue: equation (5) and residuals on the same rows. */
import { entryAt } from "../../base/lists.ts";
import { referenceQueue } from "../../simulate/presets.ts";
import { answersOf, deviationErrors, ERROR_AXIS } from "./lda-errors.ts";
import { askAggregators } from "./lda-trial.ts";
import { count, percent } from "./numbers.ts";
import { UTILISATIONS } from "./rli-setting.ts";
import { repeat, type Study } from "./study.ts";

const TRACES = 3;
const RUNS = 40;

export const ldaQueue: Study = {
  name: "lda-queue",
  paper: "lda",
  heads: [
    {
      id: "lda-queue",
      where: "equation (5)",
      title: "Standard deviation behind a queue",
      claim:
        "rows collapsed in pairs give the deviation of any distribution; the paper measures independent delays only",
    },
  ],
  async run(context) {
    const durationS = context.scale === "full" ? 10 : 1;
    const tuned = `banks=1,rows=1024,loss=0.0001,packets=${4e5 * durationS}`;
    const variants = [`${tuned},alpha=0.5,deviation=paper`, `${tuned},alpha=1`];
    const results = await repeat(context, UTILISATIONS.length * TRACES, (i) => {
      const utilisation = entryAt(UTILISATIONS, Math.floor(i / TRACES));
      const seed = context.seed + 1_000_003 * (i % TRACES);
      const scenario = referenceQueue(utilisation, { seed, traffic: { durationS } });
      return askAggregators(context.kernels, scenario, { variants, runs: RUNS });
    });
    const errors = [0, 1].map((variant) =>
      UTILISATIONS.map((_, u) =>
        deviationErrors(results.slice(u * TRACES, (u + 1) * TRACES).flatMap((r) => answersOf(r, variant))),
      ),
    );
    const [literal, ours] = [entryAt(errors, 0), entryAt(errors, 1)];
    const factors = UTILISATIONS.map((_, u) => entryAt(literal, u) / entryAt(ours, u));
    const times = factors.map((f) => f.toFixed(1)).join(" / ");
    const loads = UTILISATIONS.map((u) => percent(u).replace(" %", "")).join(" / ");
    return {
      "lda-queue": {
        setting: `${count(4e5 * durationS)} packets of the reference traffic through one RED queue; one bank of 1,024 rows tuned to 0.01 % loss; ${RUNS} aggregators on each of ${TRACES} traces`,
        literal: `${literal.map(percent).join(" / ")} at ${loads} % utilisation (rows collapsed in pairs)`,
        ours: `${ours.map(percent).join(" / ")} (residuals of the rows): ${times} times better`,
        verdict: "measured",
        why: "Delays of a queue have long tails: a collapsed row is ruled by its largest delay, and a product of two such rows more so. Residuals use every row by itself, around the mean.",
        table: {
          columns: ["utilisation", "(5)", "residuals", "times better"],
          rows: UTILISATIONS.map((load, u) => [
            percent(load),
            percent(entryAt(literal, u)),
            percent(entryAt(ours, u)),
            entryAt(factors, u).toFixed(2),
          ]),
        },
        figures: [
          {
            title: "LDA: error of the standard deviation behind a queue",
            x: { label: "utilisation", names: UTILISATIONS.map(percent) },
            y: ERROR_AXIS,
            series: [
              { name: "(5)", points: literal.map((y, x) => ({ x, y })) },
              { name: "residuals", points: ours.map((y, x) => ({ x, y })) },
            ],
          },
        ],
        thresholds: UTILISATIONS.map((load, u) => ({
          what: `deviation of (5) over that of residuals at ${percent(load)} utilisation`,
          value: entryAt(factors, u),
          limit: 1.4,
          sense: "at least" as const,
          quantity: "plain" as const,
          reference: 2,
        })),
      },
    };
  },
};
