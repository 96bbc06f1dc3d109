/** COLATE, sections 6.2, 6.4 and 6.5: several points, and the comparison with RLI (table 3) and Count-Min. */
import { entryAt } from "../../base/lists.ts";
import { ADAPTIVE_DEFAULTS } from "../../delays/injection-rate.ts";
import { isNoAnswer } from "../../estimators/estimator.ts";
import { distribution } from "../../present/figure/figure.ts";
import { runTriangle, TRIANGLE_CASES } from "../colate-triangle.ts";
import { count, percent } from "./numbers.ts";
import { runAsWritten } from "./rli-setting.ts";
import { repeat, type Study } from "./study.ts";

const many: Study = {
  name: "colate-points",
  paper: "colate",
  heads: [
    {
      id: "colate-8",
      where: "fig. 8",
      title: "Three points that all send to each other",
      claim: "the number of senders and receivers does not affect the accuracy",
    },
  ],
  async run(context) {
    const found = await runTriangle(context.kernels, BigInt(context.seed), 10 + context.seed);
    const apart = found["not separated"];
    const separate = found["a vector per peer"];
    return {
      "colate-8": {
        setting:
          "points A, B and C, 2 s at 200,000 packets/s each way; the segment from A to B, flows of 500 packets and more",
        literal: `one vector for all peers: ${percent(apart.answered)} of the flows answered`,
        ours: `a vector per peer: ${percent(separate.answered)} answered, median error ${percent(separate.median)}; in the same memory ${percent(found["a vector per peer in the same memory"].median)}`,
        verdict: apart.answered > 0.9 && apart.median < 2 * separate.median ? "holds" : "does not hold",
        why: "Counters that other peers' packets fill at one end only have nothing to be compared with. Packets must be told apart by peer, which the path gives.",
        table: {
          columns: ["", "answered", "median error", "memory, kB"],
          rows: TRIANGLE_CASES.map((name) => [
            name,
            percent(found[name].answered),
            percent(found[name].median),
            (found[name].memoryBytes / 1e3).toFixed(0),
          ]),
        },
        figures: [
          {
            title: "Error of flows' means from A to B, of those that are answered",
            x: { label: "relative error", scale: "log", quantity: "share", range: [1e-5, 1] },
            y: { label: "flows", quantity: "share", range: [0, 1] },
            series: TRIANGLE_CASES.filter((name) => found[name].errors.length > 0).map((name) =>
              distribution(
                name,
                found[name].errors.map((e) => Math.min(1, Math.max(1e-5, e))),
              ),
            ),
          },
        ],
        thresholds: [],
      },
    };
  },
};

/** Returns the counters that a Count-Min sketch needs per flow for an error of `share` with a given reliability: w = ⌈e/B⌉, d = ⌈ln 1/(1 - α)⌉. */
function countMinCounters(share: number, reliability: number): number {
  return Math.ceil(Math.E / share) * Math.ceil(Math.log(1 / (1 - reliability)));
}

/** The paper's second configuration of RLI. */
const OFTEN = {
  kind: "adaptive",
  settings: { ...ADAPTIVE_DEFAULTS, minRate: 1 / 10, maxRate: 1 / 2 },
} as const;

const beside: Study = {
  name: "colate-others",
  paper: "colate",
  heads: [
    {
      id: "colate-table3",
      where: "table 3 and fig. 11",
      title: "Regular packets per reference of RLI, and its accuracy",
      claim:
        "17 to 246 packets per reference with 1-in-300 to 1-in-10, 3 to 10 with 1-in-10 to 1-in-2; 77 % and 81 % of the flows within 5 %",
    },
    {
      id: "colate-cm",
      where: "section 6.5",
      title: "Count-Min",
      claim:
        "165 counters and 3 hash functions per flow for 95 % within 5 %: more than COLATE unless flows have 31,350 packets",
    },
  ],
  // long: two findings as data, figures included.
  async run(context) {
    const loads = [0.55, 0.7, 0.88, 0.95];
    const runs = await repeat(context, loads.length * 2, (i) => {
      const scheme = i % 2 === 0 ? ({ kind: "adaptive" } as const) : OFTEN;
      return runAsWritten(context, entryAt(loads, i >> 1), scheme);
    });
    const errorsOf = ({ entries, truth }: (typeof runs)[number]) =>
      entryAt(entries, 0).answer.flows.flatMap(({ flow, mean }) =>
        isNoAnswer(mean) ? [] : [Math.abs(mean.valueNs / truth.flowMeanNs[flow]! - 1)],
      );
    const within = (run: (typeof runs)[number]) => {
      const errors = errorsOf(run);
      return errors.filter((e) => e <= 0.05).length / errors.length;
    };
    const per = (i: number) => 1 / entryAt(runs, i).injectionRate;
    const rows = loads.map((load, i) => ({
      load,
      adaptive: per(2 * i),
      near: within(entryAt(runs, 2 * i)),
      often: within(entryAt(runs, 2 * i + 1)),
      perOften: per(2 * i + 1),
    }));
    const inRange =
      rows.some((r) => r.adaptive < 25) &&
      rows.some((r) => r.adaptive > 100) &&
      rows.some((r) => r.perOften < 4) &&
      rows.some((r) => r.perOften > 9);
    const counters = countMinCounters(0.05, 0.95);
    return {
      "colate-table3": {
        setting:
          "one RED queue, adaptive references between 1-in-300 and 1-in-10, and between 1-in-10 and 1-in-2",
        literal: null,
        ours: rows
          .map(
            (r) =>
              `${percent(r.load)}: ${r.adaptive.toFixed(0)} packets per reference, ${percent(r.near)} of the flows within 5 % (1-in-10 to 1-in-2: ${r.perOften.toFixed(1)}, ${percent(r.often)})`,
          )
          .join("; "),
        verdict: inRange && rows.some((r) => r.near > 0.7) ? "holds" : "holds for a class",
        why: "The rate follows the utilisation, as claimed. The share of flows within 5 % follows how many of them are single packets.",
        table: {
          columns: [
            "utilisation",
            ...["1-in-300 to 1-in-10", "1-in-10 to 1-in-2"].map(
              (limits) => `${limits}: packets per reference, within 5 %`,
            ),
          ],
          rows: rows.map((r) => [
            percent(r.load),
            `${r.adaptive.toFixed(1)}, ${percent(r.near)}`,
            `${r.perOften.toFixed(1)}, ${percent(r.often)}`,
          ]),
        },
        figures: [
          {
            title: "RLI: error of flows' means, adaptive references",
            x: { label: "relative error", scale: "log", quantity: "share", range: [1e-3, 10] },
            y: { label: "flows", quantity: "share", range: [0, 1] },
            series: loads.map((load, i) =>
              distribution(
                percent(load),
                errorsOf(entryAt(runs, 2 * i)).map((e) => Math.min(10, Math.max(1e-3, e))),
              ),
            ),
          },
        ],
        thresholds: [],
      },
      "colate-cm": {
        setting: "computed: e/B counters in each of ln 1/(1 − α) rows",
        literal: `${count(counters)} counters and 3 hash functions per flow`,
        ours: "LDS is a Count-Min of sums and counts that is decoded for all flows together: 4 × 17,500 cells for 146,000 flows (lds-10)",
        verdict: counters === 165 ? "holds" : "does not hold",
        why: "As a bound it is right. It is a bound for sums of times; differences of a flow's own sums need far less.",
        table: {
          columns: ["error", "reliability", "counters per flow"],
          rows: [["5 %", "95 %", count(counters)]],
        },
        figures: [],
        thresholds: [],
      },
    };
  },
};

export const colateOthers: readonly Study[] = [many, beside];
