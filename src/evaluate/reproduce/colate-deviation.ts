/** COLATE, sections 4 and 6.3: standard deviations by virtual repetitions (figures 7 and 9). */
import { entryAt } from "../../base/lists.ts";
import { Random } from "../../base/random.ts";
import { type EstimatorAnswer, isNoAnswer } from "../../estimators/estimator.ts";
import { closedForm, virtualRepetitions } from "../../estimators/lab/colate-literal/deviation.ts";
import { distribution } from "../../present/figure/figure.ts";
import type { FlowRun } from "../flow-runs.ts";
import { average, count, middle, percent, percents } from "./numbers.ts";
import type { FindingBody, StudyContext } from "./study.ts";

/** The paper's numbers of virtual repetitions, and the number of flows tried with each; 100,000 repetitions are slow. */
const SHARED = [10, 100, 1000, 100_000];
const [MANY_FLOWS, FEW_FLOWS] = [300, 80];

// long: one finding as data, figures and levels included.
export function deviationFinding(
  { seed }: StudyContext,
  setting: string,
  run: FlowRun,
  large: readonly number[],
  published: EstimatorAnswer,
): FindingBody {
  const errors = published.flows.map(({ flow, stdev }) => {
    const truth = run.stdevNs[entryAt(large, flow)]!;
    return isNoAnswer(stdev) ? 1 : Math.abs(stdev.valueNs / truth - 1);
  });
  // The best that repetitions can give: counters without noise.
  const random = new Random(seed).fork("repetitions");
  const repetitions = [10, 100, 1000];
  const apart = repetitions.map((r) => {
    const off = Array.from({ length: 40 }, () => {
      const x = Float64Array.from({ length: 20 }, () => random.normal() * 100 + 1e5);
      return Math.abs(virtualRepetitions(x, r, random.fork(`${r}`)) / closedForm(x) - 1);
    });
    return average(off);
  });
  const floor = Math.sqrt(2 / 19) / 2;
  const free = noiseFree(random.fork("noise-free"));
  const shares = SHARED.map((r) =>
    withinOfTruth(random.fork(`share ${r}`), r, r > 1000 ? FEW_FLOWS : MANY_FLOWS),
  );
  return {
    setting: `${setting}; flows of 1,000 to 9,999 packets`,
    literal: `median error ${count(100 * middle(errors))} %; the repetitions converge to their closed form (off by ${percents(apart)} with ${repetitions.map(count).join(" / ")}) and add no information`,
    ours: "the standard deviation from the residuals of counters that the flow hardly shares; otherwise no answer",
    verdict: errors.filter((e) => e < 0.05).length / errors.length > 0.9 ? "holds" : "does not hold",
    why: `Over all permutations the virtual repetitions have a closed form with a relative deviation of √(2/(m − 1)): with m = 20 counters no number of repetitions errs less than about ${percent(floor)} in the standard deviation, even without noise: with 1,000 and 100,000 of them ${percents(shares.slice(-2))} of the flows are within 5 %.`,
    table: {
      columns: ["virtual repetitions", "off the closed form, mean"],
      rows: repetitions.map((r, i) => [count(r), percent(entryAt(apart, i))]),
    },
    figures: [
      {
        title: "COLATE as published: error of flows' standard deviations",
        x: { label: "relative error", scale: "log", quantity: "share", range: [1e-3, 1e6] },
        y: { label: "flows", quantity: "share", range: [0, 1] },
        series: [
          distribution(
            "as published",
            errors.map((e) => Math.min(1e6, Math.max(1e-3, e))),
          ),
        ],
      },
      {
        title: "Deviations within 5 % by virtual repetitions, counters without noise",
        x: { label: "virtual repetitions", scale: "log", quantity: "count" },
        y: { label: "flows within 5 %", quantity: "share", range: [0, 1] },
        series: [
          { name: "measured", points: SHARED.map((x, i) => ({ x, y: entryAt(shares, i) })) },
          {
            name: "claimed",
            claimed: true,
            points: [
              { x: 1000, y: 0.91 },
              { x: 100_000, y: 0.98 },
            ],
          },
        ],
      },
    ],
    thresholds: [
      {
        what: "m s² over the sum of squared delays without noise, off 1",
        value: Math.abs(free - 1),
        limit: 0.02,
        sense: "at most",
        quantity: "plain",
      },
      {
        what: "closed form against 1,000 repetitions",
        value: entryAt(apart, 2),
        limit: 0.03,
        sense: "at most",
        quantity: "share",
      },
    ],
  };
}

/** Returns m times the sample variance of a flow's counters divided by the sum of its squared delays, averaged over flows of 500 packets; 1 without noise. */
function noiseFree(random: Random, flows = 4000, m = 20): number {
  let sum = 0;
  for (let f = 0; f < flows; f++) {
    const x = new Float64Array(m);
    let exact = 0;
    for (let i = 0; i < 500; i++) {
      const delay = random.exponential(100);
      x[random.below(m)]! += delay;
      exact += delay * delay;
    }
    sum += closedForm(x) / exact;
  }
  return sum / flows;
}

/** Returns the share of flows whose standard deviation is within 5 % of the true one, with 20 counters that contain only that flow. */
function withinOfTruth(random: Random, repetitions: number, flows: number): number {
  let close = 0;
  for (let f = 0; f < flows; f++) {
    const x = Float64Array.from({ length: 20 }, () => random.normal());
    const deviation = Math.sqrt(virtualRepetitions(x, repetitions, random) / 20);
    if (Math.abs(deviation - 1) < 0.05) close++;
  }
  return close / flows;
}
