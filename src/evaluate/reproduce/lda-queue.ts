/**
 * LDA's standard deviation where delays come from a queue: equation (5) and residuals on the same rows, and what the rows allow at all.
 *
 * U rows that all packets share at random have sums that are normal around n mu with variance n sigma^2: no unbiased estimator of sigma^2 has
 * a smaller relative variance than 2/U (Cramer-Rao), so sigma errs by sqrt(1/(pi U)) in the mean. Equation (5) adds up squares of pairs of rows, each
 * in proportion to its packets n and of sigma^2 + mu^2: its relative variance is 4 sum n^2 / (sum n)^2 over the rows, (1 + mu^2/sigma^2)^2 times that for sigma^2. In one bank all rows
 * have as many packets, and the most that anything made of the same rows can be ahead is sqrt(2) (1 + mu^2/sigma^2). In two banks the rows of
 * the one tuned to high loss have so few that they count for nothing in (5): 2 (1 + mu^2/sigma^2). Rows of few packets are not normal where delays have a long tail, so less than that is reached.
 */
import { entryAt } from "../../base/lists.ts";
import type { Figure } from "../../present/figure/figure.ts";
import { referenceQueue } from "../../simulate/presets.ts";
import { answersOf, deviationErrors, ERROR_AXIS } from "./lda-errors.ts";
import { askAggregators, type TrialResult } from "./lda-trial.ts";
import { average, count, percent } from "./numbers.ts";
import { type FindingBody, repeat, type Study, type Threshold } from "./study.ts";

const UTILISATIONS = [0.23, 0.55, 0.7, 0.88, 0.95];
/** Of a second: in ten seconds at 95 % utilisation packets are lost, and the bank is tuned to none. */
const TRACES = { quick: 3, full: 20 };
const PACKETS = 4e5;
const RUNS = 50;
const ROWS = 1024;
/** Mean error of the deviation by the best unbiased estimator on all rows. */
const LEAST_ERROR = Math.sqrt(1 / (Math.PI * ROWS));
/** Share of the possible lead with one bank: errors are means over 150 aggregators, each of them off by 6 % (one standard error). */
const LEAD = 0.8;
/** Lead over (5) with the paper's two banks: the reference simulation had 2 to 8 on traces of a queue. */
const LEAD_OF_TWO = 2;

const BANKS = [
  { name: "two banks", text: "banks=2,rows=512,loss=0.005/0.1" },
  { name: "one bank", text: "banks=1,rows=1024,loss=0.0001" },
] as const;

/** How far the best estimator is ahead of equation (5) in one bank, in the mean over traces. */
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
    const variants = BANKS.flatMap(({ text }) => [
      `${text},packets=${PACKETS},alpha=0.5,deviation=paper`,
      `${text},packets=${PACKETS},alpha=1`,
    ]);
    const results = await repeat(context, UTILISATIONS.length * traces, (i) => {
      const utilisation = entryAt(UTILISATIONS, Math.floor(i / traces));
      const seed = context.seed + 1_000_003 * (i % traces);
      const scenario = referenceQueue(utilisation, { seed, traffic: { durationS: 1 } });
      return askAggregators(context.kernels, scenario, { variants, runs: RUNS });
    });
    const byLoad = UTILISATIONS.map((_, u) => results.slice(u * traces, (u + 1) * traces));
    const errors = variants.map((_, variant) =>
      byLoad.map((own) => deviationErrors(own.flatMap((r) => answersOf(r, variant)))),
    );
    return { "lda-queue": finding(traces, byLoad, errors) };
  },
};

const loads = UTILISATIONS.map((u) => percent(u).replace(" %", "")).join(" / ");
const join = (values: readonly number[]) => values.map((f) => f.toFixed(1)).join(" / ");

/** `errors`: by variant (banks, then literal and ours), then by utilisation. */
function finding(
  traces: number,
  byLoad: readonly (readonly TrialResult[])[],
  errors: readonly (readonly number[])[],
): FindingBody {
  const at = (bank: number, ours: number) => entryAt(errors, 2 * bank + ours);
  const factors = BANKS.map((_, bank) =>
    UTILISATIONS.map((_, u) => entryAt(at(bank, 0), u) / entryAt(at(bank, 1), u)),
  );
  const [two, one] = [entryAt(factors, 0), entryAt(factors, 1)];
  const possible = byLoad.map(possibleLead);
  const level = (what: string, value: number, limit: number): Threshold => ({
    ...{ what, value, limit, sense: "at least", quantity: "plain" },
  });
  return {
    setting: `${count(PACKETS)} packets of the reference traffic through one RED queue; the paper's two banks of 512 rows tuned to 0.5 % and 10 % loss, and one of ${count(ROWS)} tuned to 0.01 %; ${RUNS} aggregators on each of ${traces} traces`,
    literal: `${at(0, 0).map(percent).join(" / ")} at ${loads} % utilisation with two banks (rows collapsed in pairs)`,
    ours: `${at(0, 1).map(percent).join(" / ")} (residuals of the rows): ${join(two)} times better; with one bank ${join(one)} times, of ${join(possible)} that are possible`,
    verdict: "measured",
    why: `Collapsing leaves half as many squares, and in each of them the squared mean, which is then subtracted; and it weighs them by their packets, so that a bank tuned to high loss counts for nothing. On the rows of one bank no estimator can be ahead of (5) by more than √2 (1 + μ²/σ²), nor err by less than ${percent(LEAST_ERROR)} (the sums of rows are close to normal: Cramér–Rao). Residuals reach it.`,
    table: {
      columns: [
        ...["utilisation", "σ/μ"],
        ...BANKS.flatMap(({ name }) => [`${name}: (5)`, "residuals", "times better"]),
        "possible",
      ],
      rows: UTILISATIONS.map((load, u) => [
        percent(load),
        average(entryAt(byLoad, u).map((t) => t.stdevNs / t.meanNs)).toFixed(2),
        ...BANKS.flatMap((_, bank) => [
          percent(entryAt(at(bank, 0), u)),
          percent(entryAt(at(bank, 1), u)),
          entryAt(entryAt(factors, bank), u).toFixed(2),
        ]),
        entryAt(possible, u).toFixed(2),
      ]),
    },
    figures: BANKS.map(({ name }, bank) => errorFigure(name, at(bank, 0), at(bank, 1))),
    thresholds: [
      ...UTILISATIONS.map((load, u) =>
        level(
          `lead of residuals over (5) with two banks at ${percent(load)} utilisation`,
          entryAt(two, u),
          LEAD_OF_TWO,
        ),
      ),
      ...UTILISATIONS.map((load, u) =>
        level(
          `lead of residuals over (5) with one bank at ${percent(load)} utilisation, of the possible`,
          entryAt(one, u) / entryAt(possible, u),
          LEAD,
        ),
      ),
      {
        what: "error of residuals with one bank over the least possible, mean of all utilisations",
        value: average(at(1, 1)) / LEAST_ERROR,
        limit: 1.15,
        sense: "at most",
        quantity: "plain",
      },
    ],
  };
}

function errorFigure(name: string, literal: readonly number[], ours: readonly number[]): Figure {
  const points = (values: readonly number[]) => values.map((y, x) => ({ x, y }));
  return {
    title: `LDA: error of the standard deviation behind a queue, ${name}`,
    x: { label: "utilisation", names: UTILISATIONS.map(percent) },
    y: ERROR_AXIS,
    series: [
      { name: "(5)", points: points(literal) },
      { name: "residuals", points: points(ours) },
      { name: "least possible", claimed: true, points: points(UTILISATIONS.map(() => LEAST_ERROR)) },
    ],
  };
}
