/**
 * LDA's standard deviation with delays from a queue: equation (5) and residuals on the same rows, and the limit that the rows allow.
 *
 * The squared residual of a row of n packets has a relative variance of 2 + kappa/n (kappa: excess kurtosis of the delays). The best estimate of sigma^2 from
 * such squares weights them by the inverse of that variance; its relative variance is 1 / sum 1/(2 + kappa/n). With normal sums over U rows that is 2/U, the
 * minimum for any unbiased estimator (Cramer-Rao), and the mean error of sigma is sqrt(1/(pi U)). Equation (5) adds squares of pairs of rows, each in
 * proportion to its packets n and to sigma^2 + mu^2. Its relative variance is sum n^2 (2 + kappa'/n) / (sum n)^2 over the pairs (kappa': excess kurtosis around
 * 0), and (1 + mu^2/sigma^2)^2 times that for sigma^2. In one bank all rows have the same number of packets, so the gain is at most sqrt(2) (1 + mu^2/sigma^2).
 * In the paper's two banks, the rows tuned to high loss have so few packets that they contribute nothing to (5), so the gain is up to 2 (1 + mu^2/sigma^2). It
 * is smaller for delays with a long tail, because those rows are not normal then.
 */
import { entryAt } from "../../base/lists.ts";
import { lda } from "../../estimators/lda/lda.ts";
import { parseParameters } from "../../estimators/parameters.ts";
import type { Figure } from "../../present/figure/figure.ts";
import { referenceQueue } from "../../simulate/presets.ts";
import { answersOf, deviationErrors, ERROR_AXIS } from "./lda-errors.ts";
import { askAggregators, type TrialResult } from "./lda-trial.ts";
import { average, count, percent } from "./numbers.ts";
import { type FindingBody, repeat, type Study, type Threshold } from "./study.ts";

const UTILISATIONS = [0.23, 0.55, 0.7, 0.88, 0.95];
/** Number of traces of one second. In ten seconds at 95 % utilisation packets are lost, and the bank is tuned to no loss. */
const TRACES = { quick: 3, full: 20 };
const PACKETS = 4e5;
const RUNS = 60;
const ROWS = 1024;
/** Mean error of the standard deviation by the best unbiased estimator over all rows. */
const LEAST_ERROR = Math.sqrt(1 / (Math.PI * ROWS));
/** Required share of the possible gain: errors are means over 180 aggregators, with a standard error of 6 % each. */
const LEAD = 0.8;
/** Gain over (5) with the paper's two banks: 2 to 8 in the reference simulation on queue traces. At 55 to 88 %, traces with a long tail allow less. */
const LEAD_OF_TWO = { least: 2, at: [0.23, 0.95] };

const BANKS = [
  { name: "two banks", text: "banks=2,rows=512,loss=0.005/0.1" },
  { name: "one bank", text: "banks=1,rows=1024,loss=0.0001" },
] as const;

const variants = BANKS.flatMap(({ text }) => [
  `${text},packets=${PACKETS},alpha=0.5,deviation=paper`,
  `${text},packets=${PACKETS},alpha=1`,
]);

/** Returns the packets in a row of each bank without loss. */
function packetsPerRow(variant: string): number[] {
  const { sampling, rows } = parseParameters(lda, variant);
  return sampling.map((p) => (p * PACKETS) / rows);
}

/** Returns by how much the best weights of squared residuals can beat equation (5) for such delays and banks. */
function possibleLead(bank: number, { meanNs, stdevNs, kurtosis, kurtosisAroundZero }: TrialResult): number {
  const [written, own] = [0, 1].map((ours) => packetsPerRow(entryAt(variants, 2 * bank + ours))) as [
    number[],
    number[],
  ];
  const sum = (values: readonly number[], of: (n: number) => number) =>
    values.reduce((total, n) => total + of(n), 0);
  const rows = ROWS / own.length;
  // A pair has twice the packets of a row, and there are half as many.
  const pairs = written.map((n) => 2 * n);
  const squares = sum(pairs, (n) => n * n * (2 + (kurtosisAroundZero - 3) / n));
  const collapsed = (2 * squares) / (rows * sum(pairs, (n) => n) ** 2);
  const best = 1 / (rows * sum(own, (n) => 1 / (2 + (kurtosis - 3) / n)));
  return (1 + (meanNs / stdevNs) ** 2) * Math.sqrt(collapsed / best);
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
  const possible = BANKS.map((_, bank) =>
    byLoad.map((own) => average(own.map((t) => possibleLead(bank, t)))),
  );
  const [ofTwo, ofOne] = [entryAt(possible, 0), entryAt(possible, 1)];
  const level = (what: string, value: number, limit: number): Threshold => ({
    ...{ what, value, limit, sense: "at least", quantity: "plain" },
  });
  return {
    setting: `${count(PACKETS)} packets of the reference traffic through one RED queue; the paper's two banks of 512 rows tuned to 0.5 % and 10 % loss, and one of ${count(ROWS)} tuned to 0.01 %; ${RUNS} aggregators on each of ${traces} traces`,
    literal: `${at(0, 0).map(percent).join(" / ")} at ${loads} % utilisation with two banks (rows collapsed in pairs)`,
    ours: `${at(0, 1).map(percent).join(" / ")} (residuals of the rows): ${join(two)} times better, of ${join(ofTwo)} that are possible; with one bank ${join(one)} of ${join(ofOne)}`,
    verdict: "measured",
    why: `Collapsing leaves half as many squares, and in each of them the squared mean, which is then subtracted; and it weighs them by their packets, so that a bank tuned to high loss counts for nothing. On the rows of one bank no estimator can be ahead of (5) by more than √2 (1 + μ²/σ²), nor err by less than ${percent(LEAST_ERROR)} (the sums of rows are close to normal: Cramér–Rao). Residuals reach it. With two banks up to 2 (1 + μ²/σ²) can be gained, and less the longer the tail of the delays: rows of ten packets are then not normal. At 70 % that leaves ${entryAt(ofTwo, 2).toFixed(1)}.`,
    table: {
      columns: [
        ...["utilisation", "σ/μ", "kurtosis"],
        ...BANKS.flatMap(({ name }) => [`${name}: (5)`, "residuals", "times better", "possible"]),
      ],
      rows: UTILISATIONS.map((load, u) => [
        percent(load),
        average(entryAt(byLoad, u).map((t) => t.stdevNs / t.meanNs)).toFixed(2),
        average(entryAt(byLoad, u).map((t) => t.kurtosis)).toFixed(1),
        ...BANKS.flatMap((_, bank) => [
          percent(entryAt(at(bank, 0), u)),
          percent(entryAt(at(bank, 1), u)),
          entryAt(entryAt(factors, bank), u).toFixed(2),
          entryAt(entryAt(possible, bank), u).toFixed(2),
        ]),
      ]),
    },
    figures: BANKS.map(({ name }, bank) => errorFigure(name, at(bank, 0), at(bank, 1))),
    thresholds: [
      ...LEAD_OF_TWO.at.map((load) =>
        level(
          `lead of residuals over (5) with two banks at ${percent(load)} utilisation`,
          entryAt(two, UTILISATIONS.indexOf(load)),
          LEAD_OF_TWO.least,
        ),
      ),
      level(
        "lead of residuals over (5) with two banks, geometric mean of all utilisations",
        Math.exp(average(two.map(Math.log))),
        LEAD_OF_TWO.least,
      ),
      ...BANKS.flatMap(({ name }, bank) =>
        UTILISATIONS.map((load, u) =>
          level(
            `lead of residuals over (5) with ${name} at ${percent(load)} utilisation, of the possible`,
            entryAt(entryAt(factors, bank), u) / entryAt(entryAt(possible, bank), u),
            LEAD,
          ),
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
