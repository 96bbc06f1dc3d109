/**
 * RLI and its baselines compared with the true delays (rli-ton, section V), with the levels of the reference simulation. One OC-192 input, one RED queue.
 *
 *   node scripts/bench.mjs rli [--seconds 10] [--seed 1] [--utilisations 0.2,0.55,0.7,0.88,0.95] [--parts table,order,uncorrelated,interference,time,size,speed]
 */
import { parseArgs } from "node:util";
import { Kernels } from "../src/base/kernels.ts";
import { SIZE_ERRORS, SIZE_EVERY } from "../src/estimators/rli/size.ts";
import { answeredByAll, baselineContestants } from "../src/evaluate/baselines.ts";
import { flowErrors, RLI_CLASSES } from "../src/evaluate/flow-errors.ts";
import { measureInterference } from "../src/evaluate/interference.ts";
import { runRli, SCHEMES } from "../src/evaluate/rli-experiment.ts";
import { rliIntervals, rliMedians } from "../src/evaluate/rli-tables.ts";
import { compareUncorrelated, uncorrelatedScenarios } from "../src/evaluate/uncorrelated.ts";
import { rliSpeed } from "./rli-speed.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "10" },
    seed: { type: "string", default: "1" },
    utilisations: { type: "string", default: "0.2,0.55,0.7,0.88,0.95" },
    parts: { type: "string", default: "table,order,uncorrelated,interference,time,size,speed" },
  },
});
const utilisations = values.utilisations.split(",").map(Number);
const parts = new Set(values.parts.split(","));
const setting = (utilisation: number) => ({
  utilisation,
  seed: Number(values.seed),
  traffic: { durationS: Number(values.seconds) },
});
const percent = (x: number | null | undefined, digits = 1) =>
  x === null || x === undefined ? "-" : (100 * x).toFixed(digits);

/** Levels of the reference simulation: adaptive, 1-in-300, 780 us, RLI-L; then the limit of the adaptive scheme over all flows. */
const LEVELS: Record<number, { levels: string; limit: number }> = {
  // The output link is faster than the input, so packets wait only for references.
  0.2: { levels: "-", limit: 0.01 },
  0.55: { levels: "28 50 49 28 14/12.5", limit: 0.33 },
  0.7: { levels: "24 56 56 29 10/5.7", limit: 0.3 },
  0.88: { levels: "27 28 29 43 8/1.9", limit: 0.33 },
  0.95: { levels: "7.4 7.5 7.7 15 2.5/0.6", limit: 0.1 },
};
const failures: string[] = [];
const check = (ok: boolean, what: string) => {
  if (!ok) failures.push(what);
};

if (parts.has("table")) {
  console.log(
    "median relative error of a flow's mean delay, %; (within 95 % intervals); width: median of theirs over the truth, flows >= 10",
  );
  for (const utilisation of utilisations) {
    const median: Record<string, number> = {};
    for (const [name, scheme] of Object.entries(SCHEMES)) {
      const run = await runRli(new Kernels(), setting(utilisation), scheme);
      for (const { name: estimator, answer } of run.entries) {
        if (estimator === "rli-l" && name !== "adaptive") continue;
        const [all, middle, large] = flowErrors(run.truth, answer.flows, RLI_CLASSES);
        const [tenUp] = flowErrors(run.truth, answer.flows, [{ from: 10, to: null }]);
        median[estimator === "rli" ? name : "rli-l"] = all!.median!;
        if (name === "adaptive" && estimator === "rli") median["large"] = large!.median!;
        const covered = [all, middle, large].map((c) => percent(c!.withinInterval)).join(" ");
        const classes = `10-99: ${percent(middle!.median)}  >=100: ${percent(large!.median)}`;
        console.log(
          `  ${percent(utilisation, 0)} % ${name.padEnd(12)} ${estimator.padEnd(6)} all: ${percent(all!.median).padStart(5)}  ${classes}  (${covered})` +
            `  width ${percent(tenUp!.medianWidth, 0)}  references ${percent(run.injectionRate, 2)} %, mean ${(run.truth.meanNs / 1e3).toFixed(1)} us`,
        );
      }
    }
    const { levels, limit } = LEVELS[utilisation] ?? { levels: "-", limit: Number.POSITIVE_INFINITY };
    console.log(`  ${percent(utilisation, 0)} % reference simulation: ${levels}; limit ${percent(limit, 0)}`);
    check(median["adaptive"]! <= limit, `adaptive at ${utilisation}: ${median["adaptive"]}`);
    if (utilisation >= 0.7)
      check(median["adaptive"]! <= median["rli-l"]!, `RLI behind RLI-L at ${utilisation}`);
    if (utilisation === 0.55 || utilisation === 0.7)
      check(median["adaptive"]! <= 0.65 * median["1-in-300"]!, `adaptive over 1-in-300 at ${utilisation}`);
    for (const name of ["adaptive", "1-in-300", "780 us"] as const) {
      const options = { more: ",line=backlog" };
      const run = await runRli(new Kernels(), setting(utilisation), SCHEMES[name], [], options);
      const errors = flowErrors(run.truth, run.entries[0]!.answer.flows, RLI_CLASSES);
      const medians = errors.map((e) => percent(e.median)).join(" / ");
      console.log(`  ${percent(utilisation, 0)} % ${name.padEnd(12)} line=backlog: ${medians}`);
    }
    if (utilisation === 0.88) check(median["large"]! <= 0.035, `flows >= 100 at 88 %: ${median["large"]}`);
  }
}

if (parts.has("order")) {
  console.log("\nmedian relative error of the same flows (those sampled at 0.1 %), %, bytes handed over");
  for (const utilisation of utilisations) {
    const run = await runRli(new Kernels(), setting(utilisation), SCHEMES.adaptive, baselineContestants());
    const only = answeredByAll(run.entries);
    const line = run.entries.map(({ name, answer, senderBytes, receiverBytes }) => {
      const [all] = flowErrors(run.truth, answer.flows, [RLI_CLASSES[0]!], { only });
      return `${name} ${percent(all!.median, 2)} (${((senderBytes + receiverBytes) / 1e6).toFixed(1)} MB)`;
    });
    const [judged] = flowErrors(run.truth, run.entries[0]!.answer.flows, [RLI_CLASSES[0]!], { only });
    console.log(`  ${percent(utilisation, 0)} %: ${line.join(", ")}; ${judged!.answered} flows`);
  }
}

if (parts.has("uncorrelated")) {
  console.log(
    "\ndelays of neighbours have nothing in common: median error of flows of 100 packets and more, %",
  );
  const scenarios = uncorrelatedScenarios({ seed: Number(values.seed), traffic: { durationS: 1 } });
  for (const [name, scenario] of Object.entries(scenarios)) {
    const { rli, lds } = await compareUncorrelated(new Kernels(), scenario);
    console.log(
      `  ${name.padEnd(12)} RLI ${percent(rli.median)}, LDS ${percent(lds.median)}; ${rli.flows} flows`,
    );
    check(lds.median! < rli.median!, `LDS behind RLI: ${name}`);
  }
}

if (parts.has("interference")) {
  console.log("\ninterference of the adaptive scheme (figure 12)");
  for (const utilisation of utilisations) {
    const i = await measureInterference(new Kernels(), setting(utilisation), SCHEMES.adaptive);
    console.log(
      `  ${percent(utilisation, 0)} %: references ${percent(i.injectionRate, 2)} % of packets, ${percent(i.bandwidthShare, 3)} % of the link; mean ${(i.meanNs.without / 1e3).toFixed(2)} -> ${(i.meanNs.with / 1e3).toFixed(2)} us; ` +
        `loss ${percent(i.lossRate.without, 4)} -> ${percent(i.lossRate.with, 4)} %; flows slowed ${percent(i.slowed)} %, quickened ${percent(i.quickened)} %; ` +
        `change median ${i.changeNs.median.toFixed(0)} ns, p90 ${i.changeNs.p90.toFixed(0)}, p99 ${i.changeNs.p99.toFixed(0)}`,
    );
  }
}

if (parts.has("time")) {
  console.log(
    "\none reference per 780 us, 1 s, seeds 11 and 12: flows of 10-99 / >= 100 packets inside their intervals, and median widths, %",
  );
  for (const inputs of [1, 4])
    for (const utilisation of [0.05, 0.2, 0.55, 0.88])
      for (const line of ["backlog", "transmission"]) {
        const held = await rliIntervals(
          {
            ...{ utilisation, inputs, scheme: SCHEMES["780 us"], seeds: [11, 12], durationS: 1 },
            more: `,line=${line}`,
          },
          RLI_CLASSES.slice(1),
        );
        const inside = held.map((h) => percent(h.inside)).join(" / ");
        const width = held.map((h) => percent(h.width, 0)).join(" / ");
        console.log(
          `  ${inputs} link${inputs === 1 ? " " : "s"} ${percent(utilisation, 0).padStart(2)} % line=${line.padEnd(12)} inside ${inside}  width ${width}`,
        );
      }
}

if (parts.has("size")) {
  console.log(
    "\nbasis of `hoptime size rli`: median error, %, of flows of 1, 8-12, 80-125, 500-2000 packets",
  );
  const classes = [
    { from: 1, to: 1 },
    { from: 8, to: 12 },
    { from: 80, to: 125 },
    { from: 500, to: 2000 },
  ];
  for (const { utilisation, errors } of SIZE_ERRORS) {
    for (const [row, every] of SIZE_EVERY.entries()) {
      const scheme = { kind: "packets", every } as const;
      const sums = await rliMedians({ utilisation, scheme, seeds: [1, 2, 3], durationS: 1.5 }, classes);
      console.log(
        `  ${percent(utilisation, 0)} %, 1 in ${every}: ${sums.map((x) => percent(x, 2)).join("  ")}`,
      );
      for (const [i, x] of sums.entries()) {
        const off = Math.abs(x / errors[row]![i]! - 1);
        check(off < 0.1, `size: ${utilisation}, 1 in ${every}, ${classes[i]!.from} packets: ${x}`);
      }
    }
  }
}

if (parts.has("speed")) check((await rliSpeed()) <= 1.4, "more than 1.4 times the time of C");
for (const failure of failures) console.log(`NOT MET: ${failure}`);
process.exitCode = failures.length > 0 ? 1 : 0;
