/**
 * LDA's standard deviation where delays come from a queue: equation (5) and residuals on the same rows, and what the rows allow at all.
 *
 * U rows that all packets share at random have sums that are normal around n mu with variance n sigma^2: no unbiased estimator of sigma^2 has
 * a smaller relative variance than 2/U (Cramer-Rao), so sigma errs by sqrt(1/(pi U)) in the mean. Equation (5) has U/2 squares of
 * sigma^2 + mu^2, so its error is sqrt(2) (1 + mu^2/sigma^2) times as large. That is the most that anything made of the same rows can be ahead.
 */
import { entryAt } from "../../base/lists.ts";
import { referenceQueue } from "../../simulate/presets.ts";
import { answersOf, deviationErrors, ERROR_AXIS } from "./lda-errors.ts";
import { askAggregators, type TrialResult } from "./lda-trial.ts";
import { average, count, percent } from "./numbers.ts";
import { repeat, type Study } from "./study.ts";

const UTILISATIONS = [0.23, 0.55, 0.7, 0.88, 0.95];
/** Of a second: in ten seconds at 95 % utilisation packets are lost, and the bank is tuned to none. */
const TRACES = { quick: 3, full: 20 };
const PACKETS = 4e5;
const RUNS = 80;
const ROWS = 1024;
/** Mean error of the deviation by the best unbiased estimator on all rows. */
const LEAST_ERROR = Math.sqrt(1 / (Math.PI * ROWS));
/** Share of the possible lead: errors are means over 240 aggregators, each of them off by 5 % (one standard error). */
const LEAD = 0.8;

/** How far the best estimator is ahead of equation (5), in the mean over traces. */
function possibleLead(traces: readonly TrialResult[]): number {
  return Math.SQRT2 * (1 + average(traces.map(({ meanNs, stdevNs }) => (meanNs / stdevNs) ** 2)));
}

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
    const traces = TRACES[context.scale];
    const tuned = `banks=1,rows=${ROWS},loss=0.0001,packets=${PACKETS}`;
    const variants = [`${tuned},alpha=0.5,deviation=paper`, `${tuned},alpha=1`];
    const results = await repeat(context, UTILISATIONS.length * traces, (i) => {
      const utilisation = entryAt(UTILISATIONS, Math.floor(i / traces));
      const seed = context.seed + 1_000_003 * (i % traces);
      const scenario = referenceQueue(utilisation, { seed, traffic: { durationS: 1 } });
      return askAggregators(context.kernels, scenario, { variants, runs: RUNS });
    });
    const byLoad = UTILISATIONS.map((_, u) => results.slice(u * traces, (u + 1) * traces));
    const errors = [0, 1].map((variant) =>
      byLoad.map((own) => deviationErrors(own.flatMap((r) => answersOf(r, variant)))),
    );
    const [literal, ours] = [entryAt(errors, 0), entryAt(errors, 1)];
    const possible = byLoad.map(possibleLead);
    const factors = UTILISATIONS.map((_, u) => entryAt(literal, u) / entryAt(ours, u));
    const join = (values: readonly number[]) => values.map((f) => f.toFixed(1)).join(" / ");
    const loads = UTILISATIONS.map((u) => percent(u).replace(" %", "")).join(" / ");
    return {
      "lda-queue": {
        setting: `${count(PACKETS)} packets of the reference traffic through one RED queue; one bank of ${count(ROWS)} rows tuned to 0.01 % loss; ${RUNS} aggregators on each of ${traces} traces`,
        literal: `${literal.map(percent).join(" / ")} at ${loads} % utilisation (rows collapsed in pairs)`,
        ours: `${ours.map(percent).join(" / ")} (residuals of the rows): ${join(factors)} times better, of ${join(possible)} that are possible`,
        verdict: "measured",
        why: `Collapsing leaves half as many squares, and in each of them the squared mean, which is then subtracted: no estimator on the same rows can be ahead of (5) by more than √2 (1 + μ²/σ²), nor err by less than ${percent(LEAST_ERROR)} (the sums of rows are close to normal: Cramér–Rao). Residuals reach it. Twice as good is possible only where σ is below 1.55 μ; a queue at 70 % has a longer tail.`,
        table: {
          columns: ["utilisation", "σ/μ", "(5)", "residuals", "times better", "possible"],
          rows: UTILISATIONS.map((load, u) => [
            percent(load),
            average(entryAt(byLoad, u).map((t) => t.stdevNs / t.meanNs)).toFixed(2),
            percent(entryAt(literal, u)),
            percent(entryAt(ours, u)),
            entryAt(factors, u).toFixed(2),
            entryAt(possible, u).toFixed(2),
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
              {
                ...{ name: "least possible", claimed: true },
                points: UTILISATIONS.map((_, x) => ({ x, y: LEAST_ERROR })),
              },
            ],
          },
        ],
        thresholds: [
          ...UTILISATIONS.map((load, u) => ({
            what: `lead of residuals over (5) at ${percent(load)} utilisation, of the possible`,
            value: entryAt(factors, u) / entryAt(possible, u),
            limit: LEAD,
            sense: "at least" as const,
            quantity: "plain" as const,
          })),
          {
            what: "error of residuals over the least possible, mean of all utilisations",
            value: average(ours) / LEAST_ERROR,
            limit: 1.15,
            sense: "at most",
            quantity: "plain",
          },
        ],
      },
    };
  },
};
