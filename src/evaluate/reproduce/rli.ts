/**
 * RLI, section V: references by rate and scheme; accuracy by utilisation, delay and size. Other systems and overhead are in rli-others.ts. Longer than 400
 * lines, so that claim, run and finding of an experiment stay together.
 */
import { entryAt } from "../../base/lists.ts";
import { distribution, type Figure, type Series } from "../../present/figure/figure.ts";
import { ALL_FLOWS, type FlowErrors, flowErrors, type SizeClass } from "../flow-errors.ts";
import { AS_WRITTEN, type RliRun, SCHEMES } from "../rli-experiment.ts";
import { count, middle, percent, percents } from "./numbers.ts";
import { LOW, LOW_TEXT, runAsWritten, settingText, UTILISATIONS } from "./rli-setting.ts";
import { rliTrace } from "./rli-trace.ts";
import { type FindingBody, repeat, type Study, type Threshold } from "./study.ts";

const EVERY = [1000, 300, 100, 30, 10, 3];
/** Results within this factor of the paper's count as equal. */
const NEAR = 1.5;
/** Claimed error ratio between one reference in 1,000 packets and one in 10, at 70 %. */
const CLAIMED_FALL = 43 / 5;

const rates: Study = {
  name: "rli-rates",
  paper: "rli",
  heads: [
    {
      id: "rli-5",
      where: "fig. 5",
      title: "Accuracy by injection rate",
      claim:
        "at 70 % utilisation the median error falls from 43 % to 5 % as references grow from 0.1 to 10 % of the packets; at 20 % it stays at 28–36 % whatever the rate",
    },
  ],
  async run(context) {
    const loads = [LOW, 0.7];
    const runs = await repeat(context, loads.length * EVERY.length, async (i) => {
      const utilisation = entryAt(loads, Math.floor(i / EVERY.length));
      const scheme = { kind: "packets", every: entryAt(EVERY, i % EVERY.length) } as const;
      const run = await runAsWritten(context, utilisation, scheme);
      return [AS_WRITTEN.rli, AS_WRITTEN.ours].map((estimator) =>
        entryAt(errors(run, estimator, [ALL_FLOWS]), 0),
      );
    });
    const of = (load: number, e: number, estimator = 0) =>
      entryAt(entryAt(runs, load * EVERY.length + e), estimator);
    const medians = (load: number, estimator = 0) => EVERY.map((_, e) => median(of(load, e, estimator)));
    const [low, high, ours] = [medians(0), medians(1), medians(1, 1)];
    const fall = entryAt(high, 0) / entryAt(high, 4);
    const [falls, asMuch] = [fall > 1.7, fall > CLAIMED_FALL / NEAR];
    const flat = Math.min(...low) > 0.28 / NEAR && Math.max(...low) < 0.36 * NEAR;
    const both = (found: FlowErrors) => percents([median(found), found.p75 ?? Number.NaN]);
    return {
      "rli-5": {
        setting: `${settingText(context)} (${LOW_TEXT})`,
        literal: `70 %: ${percent(entryAt(high, 0))} with 1 reference in 1,000, ${percent(entryAt(high, 4))} with 1 in 10; 20 %: ${percent(entryAt(low, 0))} and ${percent(entryAt(low, 4))}`,
        ours: `70 %: ${percent(entryAt(ours, 0))} and ${percent(entryAt(ours, 4))} (line=backlog); references are sent ahead of the packet that triggers them, so that no sample contains its transmission`,
        verdict: asMuch && flat ? "holds" : falls || flat ? "holds for a class" : "does not hold",
        why: `At 70 % the error falls ${fall.toFixed(1)} times (${CLAIMED_FALL.toFixed(1)} in the paper)${asMuch ? "" : ": over all flows, half of them single packets, one reference in ten still says little of the packet between two"}. ${flat ? "At 20 % it hardly changes, as claimed." : `At 20 % it does not stay at a third: hardly a packet waits, and what is left is the packet's own transmission, which equation 1 has exactly.`}`,
        table: {
          columns: [
            "one reference in",
            ...["20 %", "70 %"].flatMap((load) => [`${load}: median, p75`, `${load}, ours`]),
          ],
          rows: EVERY.map((every, e) => [
            count(every),
            ...[0, 1].flatMap((load) => [both(of(load, e)), both(of(load, e, 1))]),
          ]),
        },
        figures: [
          {
            title: "RLI: median error by injection rate (bars to the 75th percentile)",
            x: { label: "references per packet", scale: "log", quantity: "share" },
            y: { label: "relative error", quantity: "share" },
            series: loads.map((load, l) => ({
              name: `${percent(load)} utilisation`,
              points: EVERY.map((every, e) => ({
                x: 1 / every,
                y: median(of(l, e)),
                low: median(of(l, e)),
                high: of(l, e).p75 ?? Number.NaN,
              })),
            })),
          },
        ],
        thresholds: [],
      },
    };
  },
};

const CLASSES: readonly SizeClass[] = [
  ALL_FLOWS,
  { from: 1, to: 9 },
  { from: 10, to: 99 },
  { from: 100, to: null },
];
/** Maximum median error over all flows, as published. */
const LIMITS = [
  { load: 0.55, limit: 0.33 },
  { load: 0.7, limit: 0.3 },
  { load: 0.88, limit: 0.33 },
  { load: 0.95, limit: 0.1 },
];
const LOADS = [LOW, ...UTILISATIONS];
const NAMES = ["adaptive", "1-in-300", "780 us", "combination"] as const;
const written = (name: (typeof NAMES)[number]) => name.replace(" us", " µs");

const schemes: Study = {
  name: "rli-schemes",
  paper: "rli",
  heads: [
    {
      id: "rli-6",
      where: "fig. 6",
      title: "Schemes of injection",
      claim:
        "the adaptive scheme is the most accurate at every load: at 55 % it errs half as much as the others, which err by at least 40 % there, more than at any other load; the distance shrinks as the load grows",
    },
    {
      id: "rli-7",
      where: "fig. 7",
      title: "Error of flows' means by utilisation",
      claim:
        "median error of all flows 10–12 % at high and moderate utilisation, p75 below 20 %; about 30 % at low utilisation",
    },
    {
      id: "rli-8",
      where: "fig. 8",
      title: "Error by delay and size of the flow",
      claim:
        "mean error below 11 % for flows over 10 packets, about 3 % over 100; close to 12 % for flows slower than 100 µs",
    },
    {
      id: "rli-9",
      where: "fig. 9",
      title: "Error of flows' standard deviations",
      claim: "median below 12 % at high utilisation; mean below 20 % for deviations over 100 µs",
    },
  ],
  async run(context) {
    const runs = await repeat(context, LOADS.length * NAMES.length, (i) =>
      runAsWritten(
        context,
        entryAt(LOADS, Math.floor(i / NAMES.length)),
        SCHEMES[entryAt(NAMES, i % NAMES.length)],
      ),
    );
    const of = (load: number, scheme: number) => entryAt(runs, LOADS.indexOf(load) * NAMES.length + scheme);
    const setting = `${settingText(context)} (${LOW_TEXT})`;
    return {
      "rli-6": schemesFinding(setting, of),
      "rli-7": meansFinding(setting, of),
      "rli-8": classesFinding(settingText(context), of(0.88, 0)),
      "rli-9": deviationsFinding(setting, of),
    };
  },
};

/** By utilisation, and by index of the scheme in NAMES. */
type RunOf = (utilisation: number, scheme: number) => RliRun;

function errors(run: RliRun, estimator: number = AS_WRITTEN.rli, classes = CLASSES): FlowErrors[] {
  return flowErrors(run.truth, entryAt(run.entries, estimator).answer.flows, classes);
}
const median = (found: FlowErrors | undefined) => found?.median ?? Number.NaN;
const meanError = (found: FlowErrors | undefined) => found?.mean ?? Number.NaN;

function schemesFinding(setting: string, of: RunOf): FindingBody {
  const found = LOADS.map((load) => NAMES.map((_, s) => median(errors(of(load, s))[0])));
  const at = (load: number, s: number) => entryAt(entryAt(found, LOADS.indexOf(load)), s);
  const others = (load: number) => [1, 2].map((s) => at(load, s));
  const ahead = LOADS.every((load) => at(load, 0) <= 1.05 * Math.min(...others(load)));
  const half = at(0.55, 0) / Math.min(...others(0.55));
  const most = entryAt(
    LOADS.toSorted((a, b) => Math.max(...others(b)) - Math.max(...others(a))),
    0,
  );
  const asClaimed = half < 0.5 * NEAR && Math.min(...others(0.55)) > 0.4 / NEAR;
  const all = (s: number) => percents(LOADS.map((load) => at(load, s)));
  const thresholds = [0.55, 0.7].map(
    (load): Threshold => ({
      what: `adaptive over 1-in-300 at ${percent(load)}`,
      value: at(load, 0) / at(load, 1),
      ...{ limit: 0.65, sense: "at most", quantity: "plain" },
    }),
  );
  return {
    setting,
    literal: `adaptive ${all(0)}, 1-in-300 ${all(1)}, 780 µs ${all(2)} at ${loadsText()}`,
    ours: "the same schemes; the factor of the moving average, which the paper does not give, is 0.01",
    verdict:
      !ahead && !asClaimed
        ? "does not hold"
        : ahead && asClaimed && most === 0.55
          ? "holds"
          : "holds for a class",
    why: `The adaptive scheme is ${ahead ? "the most accurate, or as good as any, at every load" : "not the most accurate at every load"}: where the link has room it sends up to one reference in 10, at 55 % for ${percent(half)} of the others' error. The static ones err most at ${percent(most)}.`,
    table: {
      columns: ["utilisation", ...NAMES.map((name) => `${written(name)}: median, references`)],
      rows: LOADS.map((load) => [
        percent(load),
        ...NAMES.map((_, s) => `${percent(at(load, s))}, ${percent(of(load, s).injectionRate)}`),
      ]),
    },
    figures: [
      {
        title: "RLI: median error of all flows by scheme",
        x: { label: "utilisation", names: LOADS.map(percent) },
        y: { label: "relative error", quantity: "share" },
        series: NAMES.map((name, s) => ({
          name: written(name),
          points: LOADS.map((load, x) => ({ x, y: at(load, s) })),
        })),
      },
    ],
    thresholds,
  };
}

/** E.g. "20 / 55 / 70 / 88 / 95 %". */
function loadsText(): string {
  return percents(LOADS);
}

function meansFinding(setting: string, of: RunOf): FindingBody {
  const by = (estimator: number) => LOADS.map((load) => errors(of(load, 0), estimator));
  const [rli, left, bent] = [by(AS_WRITTEN.rli), by(AS_WRITTEN.left), by(AS_WRITTEN.ours)];
  const medians = (found: readonly FlowErrors[][], size = 0) => found.map((own) => median(own[size]));
  const [all, ours] = [medians(rli), medians(bent)];
  const quarters = rli.map((own) => own[0]?.p75 ?? Number.NaN);
  const at = (values: readonly number[], load: number) => entryAt(values, LOADS.indexOf(load));
  const levels = LIMITS.flatMap(({ load, limit }): Threshold[] => {
    const most = (
      what: string,
      value: number,
      level: number,
      quantity: Threshold["quantity"],
    ): Threshold => ({
      ...{ what: `${what} at ${percent(load)}`, value, limit: level, sense: "at most", quantity },
    });
    return [
      most("all flows", at(all, load), limit, "share"),
      ...(load >= 0.7 ? [most("RLI over RLI-L", at(all, load) / at(medians(left), load), 1, "plain")] : []),
      ...(load < 0.8
        ? [most("backlog over straight line", at(ours, load) / at(all, load), 0.6, "plain")]
        : []),
    ];
  });
  const busy = [0.55, 0.88].every((load) => at(all, load) <= 0.12 && at(quarters, load) <= 0.2);
  const idle = at(all, LOW) > 0.3 / NEAR && at(all, LOW) < 0.3 * NEAR;
  return {
    setting,
    literal: `all flows ${percents(all)} (p75 ${percents(quarters)}) at ${loadsText()}, those of 10 to 99 packets ${percents(medians(rli, 2))}`,
    ours: `all flows ${percents(ours)}, bending the line by the backlog that packets' spacing shows (line=backlog)`,
    verdict: busy && idle ? "holds" : "holds for a class",
    why: `${busy ? "10–12 % is reached at high and moderate utilisation." : "10–12 % is reached by flows of 10 and more packets, not by all: half of them are single packets, for which nothing averages out."}${idle ? "" : ` At 20 % flows err by ${percent(at(all, LOW))}, not by a third: equation 1 adds each packet's own transmission, and little else is left.`}`,
    table: {
      columns: [
        "utilisation",
        "all flows: median, p75",
        "1–9",
        "10–99",
        "≥ 100 packets",
        "RLI-L, all",
        "ours, all",
      ],
      rows: LOADS.map((load, u) => [
        percent(load),
        percents([entryAt(all, u), entryAt(quarters, u)]),
        ...[1, 2, 3].map((size) => percent(entryAt(medians(rli, size), u))),
        percent(entryAt(medians(left), u)),
        percent(entryAt(ours, u)),
      ]),
    },
    figures: [errorDistributions("RLI: error of flows' means", of, "mean")],
    thresholds: levels,
  };
}

/** Error distributions by utilisation, over all flows, with the adaptive scheme. */
function errorDistributions(title: string, of: RunOf, quantity: "mean" | "stdev"): Figure {
  return {
    title,
    x: { label: "relative error", scale: "log", quantity: "share", range: [1e-3, 10] },
    y: { label: "flows", quantity: "share", range: [0, 1] },
    series: LOADS.map((load) => distribution(percent(load), relativeErrors(of(load, 0), quantity))),
  };
}

function relativeErrors({ truth, entries }: RliRun, quantity: "mean" | "stdev"): number[] {
  const exact = quantity === "mean" ? truth.flowMeanNs : truth.flowStdevNs;
  return entryAt(entries, 0).answer.flows.flatMap((answer) => {
    const right = exact[answer.flow]!;
    const estimate = answer[quantity];
    if (!("valueNs" in estimate) || right === 0) return [];
    return [Math.min(10, Math.max(1e-3, Math.abs(estimate.valueNs - right) / right))];
  });
}

// long: one finding as data, figures and levels included.
function classesFinding(setting: string, run: RliRun): FindingBody {
  const edges = [1e4, 3e4, 1e5, 3e5, 1e6, 3e6];
  const { truth } = run;
  const answers = entryAt(run.entries, 0).answer.flows;
  const byDelay = edges.map((from, i) => {
    const to = edges[i + 1] ?? Infinity;
    const own = flowErrors(truth, answers, [ALL_FLOWS], {
      only: (flow) => truth.flowMeanNs[flow]! >= from && truth.flowMeanNs[flow]! < to,
    });
    return own[0];
  });
  const sizes: readonly SizeClass[] = [1, 10, 100, 1000].map((from) => ({ from, to: from * 10 - 1 }));
  const bySize = flowErrors(truth, answers, sizes);
  const of = (estimator: number) => {
    const own = entryAt(run.entries, estimator).answer.flows;
    const found = flowErrors(truth, own, [
      { from: 100, to: null },
      { from: 10, to: null },
    ]);
    const isSlow = (flow: number) => truth.flowMeanNs[flow]! >= 1e5;
    return [...found, ...flowErrors(truth, own, [ALL_FLOWS], { only: isSlow })];
  };
  const [large, tens, slow] = of(AS_WRITTEN.rli);
  const [oursLarge, oursTens, oursSlow] = of(AS_WRITTEN.ours);
  const [ofTens, ofLarge, ofSlow] = [tens, large, slow].map(meanError) as [number, number, number];
  const bySizes = ofTens < 0.11 && ofLarge < 0.035;
  const holds = bySizes && ofSlow < 0.15;
  const both = (found: FlowErrors | undefined) => percents([meanError(found), median(found)]);
  const line = (name: string, y: (i: number) => number, n: number): Series => ({
    name,
    points: Array.from({ length: n }, (_, x) => ({ x, y: y(x) })),
  });
  return {
    setting: `${setting}, 88 % utilisation`,
    literal: `mean / median error: flows of 10 packets and more ${both(tens)}, 100 and more ${both(large)}; flows slower than 100 µs ${both(slow)}`,
    ours: `the line bent by the backlog: ${both(oursTens)}, ${both(oursLarge)}; ${both(oursSlow)}`,
    verdict: holds
      ? "holds"
      : bySizes || ofSlow < 0.15 || median(large) < 0.035
        ? "holds for a class"
        : "does not hold",
    why: holds
      ? "As claimed: larger flows average more packets."
      : "The paper gives means over flows, which a few flows rule whose packets fell on the edge of a burst: they are far above the medians here.",
    table: {
      columns: ["packets", "mean error", "median error", "flows"],
      rows: bySize.map((c) => [
        `${count(c.from)}–${count(c.to ?? c.from)}`,
        percent(meanError(c)),
        percent(median(c)),
        count(c.flows),
      ]),
    },
    figures: [
      {
        title: "RLI: error by size of the flow, 88 %",
        x: { label: "packets", names: sizes.map((s) => `${count(s.from)}–${count(s.to ?? s.from)}`) },
        y: { label: "relative error", scale: "log", quantity: "share" },
        series: [
          line("mean", (i) => meanError(bySize[i]), sizes.length),
          line("median", (i) => median(bySize[i]), sizes.length),
        ],
      },
      {
        title: "RLI: error by delay of the flow, 88 %",
        x: {
          label: "true mean delay of the flow",
          names: edges.map((e) => `≥ ${e < 1e6 ? `${e / 1e3} µs` : `${e / 1e6} ms`}`),
        },
        y: { label: "relative error", scale: "log", quantity: "share" },
        series: [
          line("mean", (i) => meanError(byDelay[i]), edges.length),
          line("median", (i) => median(byDelay[i]), edges.length),
        ],
      },
    ],
    thresholds: [
      {
        what: "flows of 100 packets and more at 88 %, median",
        value: median(large),
        limit: 0.035,
        sense: "at most",
        quantity: "share",
      },
    ],
  };
}

/** Returns the errors of the standard deviation of flows whose true deviation is above `fromNs`. */
function ofDeviations({ truth, entries }: RliRun, fromNs: number): FlowErrors | undefined {
  return flowErrors(truth, entryAt(entries, 0).answer.flows, [ALL_FLOWS], {
    quantity: "stdev",
    only: (flow) => truth.flowStdevNs[flow]! > fromNs,
  })[0];
}

function deviationsFinding(setting: string, of: RunOf): FindingBody {
  const high = of(0.88, 0);
  const all = middle(relativeErrors(high, "stdev"));
  const wideErrors = ofDeviations(high, 1e5);
  const wide = meanError(wideErrors);
  const holds = all < 0.12 && wide < 0.2;
  return {
    setting,
    literal: `at 88 %: median ${percent(all)}; for deviations over 100 µs mean ${percent(wide)}, median ${percent(median(wideErrors))}`,
    ours: "the same sums of squares",
    verdict: holds ? "holds" : wide < 0.2 || median(wideErrors) < 0.2 ? "holds for a class" : "does not hold",
    why: holds
      ? "As claimed."
      : "Reached by most flows whose deviation is not small. Flows of few packets in a quiet queue have deviations of nanoseconds, which interpolation cannot see.",
    table: {
      columns: ["utilisation", "median error", "deviations over 100 µs: mean, median"],
      rows: LOADS.map((load) => [
        percent(load),
        percent(middle(relativeErrors(of(load, 0), "stdev"))),
        percents([meanError, median].map((f) => f(ofDeviations(of(load, 0), 1e5)))),
      ]),
    },
    figures: [errorDistributions("RLI: error of flows' standard deviations", of, "stdev")],
    thresholds: [],
  };
}

export const rliStudies: readonly Study[] = [rliTrace, rates, schemes];
