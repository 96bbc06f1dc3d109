/** MAPLE, section 5.2: number of delay groups (figure 5(b)). */
import { entryAt } from "../../base/lists.ts";
import { Random } from "../../base/random.ts";
import { centreOf } from "../../estimators/maple/centres/centres.ts";
import { CentrePipeline } from "../../estimators/maple/centres/pipeline.ts";
import { mean, referenceTrace, type Trace } from "../reference-trace.ts";
import { count, percent } from "./numbers.ts";
import { repeat, type Study } from "./study.ts";

const GROUPS = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
const UTILISATION = 0.58;

interface GroupResult {
  /** Mean absolute error of a packet by its centre, in ns, and the longest offline stage, in ms of CPU. */
  readonly errorNs: number;
  readonly longestMs: number;
}

export const mapleGroups: Study = {
  name: "maple-groups",
  paper: "maple",
  heads: [
    {
      id: "maple-5b",
      where: "fig. 5(b)",
      title: "Groups of delays: error against time of the offline stage",
      claim: "at 58 % utilisation k = 50 is the sweet spot; 70 or 80 still fit into an epoch of 1 s",
    },
  ],
  async run(context) {
    const seconds = context.scale === "full" ? 10 : 4;
    const trace = await referenceTrace(context.kernels, {
      ...{ seed: context.seed, seconds, utilisation: UTILISATION },
    });
    const found = await repeat(context, GROUPS.length, (i) => learnGroups(trace, entryAt(GROUPS, i)));
    const at = (k: number) => entryAt(found, GROUPS.indexOf(k));
    const gain = (from: number, to: number) => 1 - at(to).errorNs / at(from).errorNs;
    const longest = Math.max(...found.map((f) => f.longestMs));
    const [before, behind] = [gain(10, 50), gain(50, 100)];
    const holds = before > behind && at(80).longestMs < 1000;
    return {
      "maple-5b": {
        setting: `${trace.epochs.length} epochs of 1 s at 400,000 packets/s, ${percent(UTILISATION)} utilisation; k-medians of one packet in ten, two epochs behind`,
        literal: `mean error ${[10, 50, 100].map((k) => (at(k).errorNs / 1e3).toFixed(2)).join(" / ")} µs with 10 / 50 / 100 groups; longest offline stage ${[10, 50, 100].map((k) => at(k).longestMs.toFixed(0)).join(" / ")} ms of CPU`,
        ours: "the offline stage here finds the best centres exactly, as delays have one dimension",
        verdict: holds ? "holds" : "holds for a class",
        why: `From 10 to 50 groups the error falls by ${percent(before)}, from 50 to 100 by ${percent(behind)}. The offline stage takes at most ${longest.toFixed(0)} ms: time is no reason for fewer groups here, bits are.`,
        table: {
          columns: ["groups", "mean error, µs", "offline stage, ms (longest)"],
          rows: GROUPS.map((k, i) => [
            count(k),
            (entryAt(found, i).errorNs / 1e3).toFixed(2),
            entryAt(found, i).longestMs.toFixed(1),
          ]),
        },
        figures: [
          {
            title: "MAPLE: mean error by number of groups, 58 %",
            x: { label: "groups" },
            y: { label: "mean absolute error", scale: "log", quantity: "time" },
            series: [
              { name: "k-medians", points: GROUPS.map((x, i) => ({ x, y: entryAt(found, i).errorNs })) },
            ],
          },
          {
            title: "MAPLE: longest offline stage by number of groups",
            x: { label: "groups" },
            y: { label: "CPU time", quantity: "time" },
            series: [
              {
                name: "k-medians",
                points: GROUPS.map((x, i) => ({ x, y: 1e6 * entryAt(found, i).longestMs })),
              },
            ],
          },
        ],
        thresholds: [],
      },
    };
  },
};

function learnGroups(trace: Trace, k: number): GroupResult {
  const pipeline = new CentrePipeline({ strategy: "kmedians", k, random: new Random(7) });
  const errors: number[] = [];
  let longestMs = 0;
  for (const [i, { delayNs }] of trace.epochs.entries()) {
    const { current } = pipeline;
    if (i >= 2) errors.push(mean(delayNs.map((d) => Math.abs(d - current.valuesNs[centreOf(current, d)]!))));
    pipeline.observe(delayNs);
    const before = process.cpuUsage();
    pipeline.endEpoch();
    const { user, system } = process.cpuUsage(before);
    longestMs = Math.max(longestMs, (user + system) / 1e3);
  }
  return { errorNs: mean(Float64Array.from(errors)), longestMs };
}
