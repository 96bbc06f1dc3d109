/**
 * LDA compared with the true delays in the paper's synthetic setting: Weibull delays of shape 0.6, mean 0.2 µs, one packet in flight at a time, loss in bursts
 * of 100; two banks of 512 tuned to 0.5 % and 10 %. Mean errors over the runs.
 *
 *   node scripts/bench.mjs lda [--runs 40] [--packets 5e6]
 */
import { parseArgs } from "node:util";
import { Kernels } from "../src/base/kernels.ts";
import { ldaAccuracy } from "../src/evaluate/lda-accuracy.ts";

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
  const rows = await ldaAccuracy(kernels, { variants: variants.map((v) => v.text), runs, packets, loss });
  for (const [i, row] of rows.entries()) {
    const percent = (x: number) => `${(100 * x).toFixed(2)} %`;
    const cells = [
      `${100 * loss} %`.padEnd(8),
      variants[i]?.name.padEnd(21),
      percent(row.meanError).padStart(10),
      percent(row.deviationError).padStart(16),
      Math.round(row.packetsUsed).toString().padStart(13),
      ` ${percent(row.inMeanInterval)}, ${percent(row.inDeviationInterval)}`,
      ...(row.answered < runs ? [` (${runs - row.answered} without answer)`] : []),
    ];
    console.log(cells.join(" "));
  }
}
const seconds = (performance.now() - started) / 1000;
console.log(`${seconds.toFixed(0)} s`);
