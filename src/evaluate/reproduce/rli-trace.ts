/** RLI, section II: properties of its traces, and the correlation of delays in time. */
import { entryAt } from "../../base/lists.ts";
import { distribution } from "../../present/figure/figure.ts";
import { rliScenario } from "../rli-experiment.ts";
import { runSegment } from "../run-segment.ts";
import { count, percent, percents } from "./numbers.ts";
import { burstShares, delayColumns, localErrors } from "./rli-bursts.ts";
import { interpolationFinding } from "./rli-interpolation.ts";
import { rliSetting, settingText, UTILISATIONS } from "./rli-setting.ts";
import { type FindingBody, repeat, type Study } from "./study.ts";
export const rliTrace: Study = {
  name: "rli-trace",
  paper: "rli",
  heads: [
    {
      id: "rli-table1",
      where: "table I",
      title: "Packets per flow, mean delay, and the range of flows' means",
      claim:
        "the 99th and 1st percentile of flows' means differ by 3 to 4 orders of magnitude on backbone traces: no single statistic stands for all flows",
    },
    {
      id: "rli-1",
      where: "fig. 1",
      title: "A flow's delay from its neighbours in time",
      claim:
        "within windows of 0.1 ms the mean of all other packets is close to the flow's own; within 1 s it is not",
    },
    {
      id: "rli-2",
      where: "fig. 2",
      title: "How long delay stays high",
      claim: "high delay comes in bursts of milliseconds, during which every packet waits alike",
    },
    {
      id: "rli-3",
      where: "fig. 3",
      title: "Delays between two references",
      claim: "a few references are enough to estimate the delays between them; more of them, smaller errors",
    },
  ],
  async run(context) {
    const results = await repeat(context, UTILISATIONS.length, async (i) => {
      const { scenario } = await rliScenario(context.kernels, rliSetting(context, entryAt(UTILISATIONS, i)));
      const { truth } = await runSegment(context.kernels, scenario, []);
      const means = Float64Array.from(truth.flowMeanNs).sort();
      const at = (share: number) => means[Math.floor(share * means.length)]!;
      return { scenario, truth, range: at(0.99) / at(0.01) };
    });
    const { scenario } = entryAt(results, 2);
    const columns = await delayColumns(context.kernels, scenario);
    const windows = [1e5, 1e7, 1e9];
    const local = windows.map((windowNs) => localErrors(columns, windowNs));
    const medians = local.map((errors) => errors.toSorted()[errors.length >> 1]!);
    const setting = settingText(context);
    const near = entryAt(medians, 0);
    const { range } = entryAt(results, 2);
    return {
      "rli-table1": {
        setting,
        literal: null,
        ours: `at 88 % ${count(range)} times, at 95 % ${count(entryAt(results, 3).range)} times`,
        verdict: range >= 1e3 ? "holds" : range >= 100 ? "holds for a class" : "does not hold",
        why: "Flows that meet a burst of congestion and flows that do not share nothing but the link.",
        table: {
          columns: [
            "utilisation",
            "packets",
            "flows",
            "packets per flow",
            "mean delay, µs",
            "p99/p1 of flows",
          ],
          rows: results.map(({ truth, range }, i) => [
            percent(entryAt(UTILISATIONS, i)),
            count(truth.packets),
            count(truth.flows.count),
            (truth.packets / truth.flows.count).toFixed(1),
            (truth.meanNs / 1e3).toFixed(1),
            count(range),
          ]),
        },
        figures: [],
        thresholds: [],
      },
      "rli-1": {
        setting: `${setting}, 88 % utilisation`,
        literal: null,
        ours: `median error ${percents(medians)} with windows of 0.1 ms, 10 ms and 1 s`,
        verdict: near < 0.25 * entryAt(medians, 2) ? "holds" : "does not hold",
        why: "Packets near in time wait in the same queue.",
        table: {
          columns: ["window", "median error", "p90"],
          rows: windows.map((ns, i) => [
            windowText(ns),
            percent(entryAt(medians, i)),
            percent(entryAt(local, i).toSorted()[Math.floor(0.9 * entryAt(local, i).length)]!),
          ]),
        },
        figures: [
          {
            title: "Error of a flow's mean delay, taken from the others in the same window",
            x: { label: "relative error", scale: "log", quantity: "share", range: [1e-3, 10] },
            y: { label: "flows", quantity: "share", range: [0, 1] },
            series: windows.map((ns, i) =>
              distribution(
                windowText(ns),
                entryAt(local, i).map((e) => Math.min(10, Math.max(1e-3, e))),
              ),
            ),
          },
        ],
        thresholds: [],
      },
      "rli-2": burstFinding(`${setting}, 88 % utilisation`, (level, durations) =>
        burstShares(columns, level, durations),
      ),
      "rli-3": interpolationFinding(`${setting}, 88 % utilisation`, columns),
    };
  },
};

function windowText(ns: number): string {
  return ns < 1e9 ? `${ns / 1e6} ms` : `${ns / 1e9} s`;
}

function levelText(ns: number): string {
  return ns < 1e6 ? `${ns / 1e3} µs` : windowText(ns);
}

function burstFinding(
  setting: string,
  shares: (levelNs: number, durations: readonly number[]) => number[],
): FindingBody {
  const durations = [1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7, 3e7];
  const levels = [1e4, 3e4, 1e5, 3e5, 1e6];
  const found = levels.map((level) => shares(level, durations));
  const high = entryAt(found, 2);
  const inLong = entryAt(high, 4) / Math.max(1e-9, entryAt(high, 0));
  return {
    setting,
    literal: null,
    ours: `delay is above 100 µs during ${percent(entryAt(high, 0))} of the time, ${percent(inLong)} of it in bursts of a millisecond and more`,
    verdict: inLong > 0.5 ? "holds" : "does not hold",
    why: "What RLI rests on: a reference packet speaks for its neighbours.",
    table: {
      columns: ["delay of at least", ...durations.map((d) => `≥ ${d / 1e6} ms`)],
      rows: levels.map((level, i) => [`${levelText(level)}`, ...entryAt(found, i).map(percent)]),
    },
    figures: [
      {
        title: "Share of time in bursts of at least a duration, by delay",
        x: { label: "duration", scale: "log", quantity: "time" },
        y: { label: "share of time", quantity: "share" },
        series: levels.map((level, i) => ({
          name: `≥ ${levelText(level)}`,
          points: durations.map((x, d) => ({ x, y: entryAt(entryAt(found, i), d) })),
        })),
      },
    ],
    thresholds: [],
  };
}
