/** LDS, section 5.3: weights by customer (figure 12). */
import { entryAt } from "../../base/lists.ts";
import { lds } from "../../estimators/lds/lds.ts";
import { parseParameters } from "../../estimators/parameters.ts";
import { twoLatencies } from "../../simulate/presets.ts";
import { flowErrors } from "../flow-errors.ts";
import { runSegment, type SegmentRun } from "../run-segment.ts";
import { count, percent, percents } from "./numbers.ts";
import type { Study } from "./study.ts";

/** Prefixes represent customers, with 1 %, 9 % and 90 % of the flows. */
const CUSTOMERS = [
  { name: "gold", prefix: "10.1.0.0/16", share: 0.01 },
  { name: "silver", prefix: "10.2.0.0/16", share: 0.09 },
  { name: "bronze", prefix: "10.3.0.0/16", share: 0.9 },
];
const WEIGHTS = [
  { name: "no weights", gold: 1, silver: 1 },
  { name: "1, 25, 100", gold: 100, silver: 25 },
  { name: "1, 10, 100", gold: 100, silver: 10 },
  { name: "1, 50, 2500", gold: 2500, silver: 50 },
];
const COUNTERS = [40_000, 100_000];

export const ldsWeights: Study = {
  name: "lds-weights",
  paper: "lds",
  heads: [
    {
      id: "lds-12",
      where: "fig. 12",
      title: "Weights for a few flows",
      claim:
        "flows of higher weight are measured far better; bronze flows (90 %) pay little while gold and silver are few",
    },
  ],
  async run(context) {
    const shrink = context.scale === "full" ? 1 : 4;
    const scenario = twoLatencies({
      seed: context.seed,
      traffic: {
        packets: 7_350_000 / shrink,
        flows: 190_000 / shrink,
        keys: { sources: CUSTOMERS.map(({ prefix, share }) => ({ prefix, share })) },
      },
    });
    const cases = COUNTERS.flatMap((cells) => WEIGHTS.map((weights) => ({ cells, ...weights })));
    const run = await runSegment(
      context.kernels,
      scenario,
      cases.map(({ cells, gold, silver }, i) => {
        const weights = gold === 1 ? "" : `${gold}:src net 10.1.0.0/16;${silver}:src net 10.2.0.0/16`;
        const columns = Math.round(cells / 4 / shrink);
        const parameters = {
          ...parseParameters(lds, `rows=4,columns=${columns},k=1,keys=0,decoder=smallest`),
          weights,
        };
        return { name: `case ${i}`, estimator: lds, parameters: lds.complete(parameters) };
      }),
    );
    context.onProgress?.(0.8);
    const medians = cases.map((_, i) => CUSTOMERS.map((_, c) => classError(run, i, c)));
    const at = (cells: number, weights: number) => entryAt(medians, cells * WEIGHTS.length + weights);
    const [plain, heavy] = [at(0, 0), at(0, 3)];
    const holds =
      entryAt(heavy, 0) < 0.2 * entryAt(plain, 0) && entryAt(heavy, 2) < 1.5 * entryAt(plain, 2) + 0.02;
    return {
      "lds-12": {
        setting: `${count(run.truth.flows.count)} flows, ${count(run.truth.packets)} packets, latencies of 100 or 320 µs; ${COUNTERS.map((c) => count(c / shrink)).join(" and ")} cells; flows of 100 packets and more, by the smallest cell`,
        literal: `gold, silver, bronze: ${percents(plain)} without weights, ${percents(heavy)} with 2500, 50, 1`,
        ours: "the same weights in the sketch; with known flows their neighbours are taken out as well (lds-10)",
        verdict: holds ? "holds" : "holds for a class",
        why: holds
          ? "A flow of weight w stands out of its cells by w."
          : "Gold flows gain as claimed; the others pay more than in the paper.",
        table: {
          columns: [
            "weights",
            ...COUNTERS.flatMap((c) => CUSTOMERS.map(({ name }) => `${name}, ${count(c / shrink)} cells`)),
          ],
          rows: WEIGHTS.map(({ name }, w) => [name, ...COUNTERS.flatMap((_, c) => at(c, w).map(percent))]),
        },
        figures: COUNTERS.map((cells, c) => ({
          title: `Median error by customer, ${count(cells / shrink)} cells`,
          x: { label: "weights of bronze, silver, gold", names: WEIGHTS.map((w) => w.name) },
          y: { label: "relative error", scale: "log" as const, quantity: "share" as const },
          series: CUSTOMERS.map(({ name }, k) => ({
            name,
            points: WEIGHTS.map((_, x) => ({ x, y: Math.max(1e-5, entryAt(at(c, x), k)) })),
          })),
        })),
        thresholds: [],
      },
    };
  },
};

/** Returns the median error of a customer's flows of at least 100 packets. */
function classError(run: SegmentRun, i: number, customer: number): number {
  const { truth } = run;
  const network = 0x0a01 + customer;
  const only = (flow: number) => truth.flows.keyWords[10 * flow + 3]! >>> 16 === network;
  const answers = entryAt(run.entries, i).answer.flows;
  return flowErrors(truth, answers, [{ from: 100, to: null }], { only })[0]?.median ?? Number.NaN;
}
