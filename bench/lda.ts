/**
 * LDA against the truth, on the paper's synthetic setting: Weibull delays of shape 0.6, mean 0.2 µs, one packet in flight at a time, loss in bursts
 * of 100; two banks of 512 tuned to 0.5 % and 10 %. Mean errors over the runs.
 *
 *   node scripts/bench.mjs lda [--runs 40] [--packets 5e6]
 */
import { parseArgs } from "node:util";
import { Kernels } from "../src/base/kernels.ts";
import { isNoAnswer } from "../src/estimators/estimator.ts";
import { lda } from "../src/estimators/lda/lda.ts";
import { parseParameters } from "../src/estimators/parameters.ts";
import { runBothEnds } from "../src/evaluate/both-ends.ts";
import { weibullScenario } from "../src/evaluate/lda-scenarios.ts";

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "40" },
    packets: { type: "string", default: "5e6" },
    loss: { type: "string", default: "0.001,0.01,0.1" },
  },
});
const runs = Number(values.runs);
const packets = Number(values.packets);
const kernels = new Kernels();
const variants = [
  { name: "residual, alpha=1", text: `packets=${packets},alpha=1` },
  { name: "residual, alpha=0.5", text: `packets=${packets},alpha=0.5` },
  { name: "paper, alpha=0.5", text: `packets=${packets},alpha=0.5,deviation=paper` },
  { name: "defaults", text: "" },
];

console.log(
  `Weibull shape 0.6, ${packets.toExponential(1)} packets, burst loss, ${runs} runs; means over runs`,
);
console.log(
  "loss     configuration         mean error  deviation error  packets used  in 95 % interval: mean, deviation",
);
const started = performance.now();
for (const loss of values.loss.split(",").map(Number)) {
  const totals = variants.map(() => ({ mean: 0, deviation: 0, used: 0, inMean: 0, inDeviation: 0, none: 0 }));
  for (let run = 0; run < runs; run++) {
    const seed = BigInt(1000 + run);
    const pairs = variants.map(({ text }) => ({
      estimator: lda,
      parameters: parseParameters(lda, text),
      seed,
    }));
    const { truth, sealed } = await runBothEnds(
      kernels,
      weibullScenario({ packets, loss, seed: run + 1 }),
      pairs,
    );
    for (const [i, pair] of pairs.entries()) {
      const input = { ...pair, ...sealed[i]!, flows: null, confidence: 0.95, epochNs: 1e9 };
      const { mean, stdev, packetsUsed } = lda.estimate(input).segment!;
      const t = totals[i]!;
      t.used += packetsUsed;
      if (isNoAnswer(mean)) {
        t.none++;
        continue;
      }
      t.mean += Math.abs(mean.valueNs / truth.meanNs - 1);
      if (mean.lowNs <= truth.meanNs && truth.meanNs <= mean.highNs) t.inMean++;
      if (isNoAnswer(stdev)) t.deviation += 1;
      else {
        t.deviation += Math.abs(stdev.valueNs / truth.stdevNs - 1);
        if (stdev.lowNs <= truth.stdevNs && truth.stdevNs <= stdev.highNs) t.inDeviation++;
      }
    }
  }
  for (const [i, t] of totals.entries()) {
    const answered = runs - t.none;
    const percent = (x: number) => `${((100 * x) / answered).toFixed(2)} %`;
    console.log(
      `${`${100 * loss} %`.padEnd(8)} ${variants[i]!.name.padEnd(21)} ${percent(t.mean).padStart(10)}  ${percent(t.deviation).padStart(15)}  ${Math.round(
        t.used / runs,
      )
        .toString()
        .padStart(
          12,
        )}  ${percent(t.inMean)}, ${percent(t.inDeviation)}${t.none > 0 ? `  (${t.none} without answer)` : ""}`,
    );
  }
}
const seconds = (performance.now() - started) / 1000;
console.log(`${seconds.toFixed(0)} s`);
