/**
 * MAPLE epoch by epoch on traces of several seeds: node scripts/bench.mjs maple-epochs [SEED...]. Reference traffic, 10 s at 88 %, epochs of 1 s, starting with
 * the third.
 *
 *   mixed against SVBF   median and p90 of the packets' relative errors at 5.2 and 12.8 bits per packet
 *   PBF                  share left out, with the shares of the epoch two before (the paper) and averaged over epochs; and each epoch's load
 */
import { Kernels } from "../src/base/kernels.ts";
import { type EpochErrors, mapleEpochs } from "../src/evaluate/maple-epochs.ts";
import { mean } from "../src/evaluate/reference-trace.ts";

const kernels = new Kernels();
const seeds = process.argv.slice(2).map(Number);
const percent = (x: number) => (100 * x).toFixed(1);
const errorText = ({ median, p90 }: EpochErrors) => `${percent(median)} / ${percent(p90)}`;
const wins = { median: 0, p90: 0, epochs: 0 };

for (const seed of seeds.length > 0 ? seeds : [1]) {
  const epochs = await mapleEpochs(kernels, seed);
  console.log(`seed ${seed}: packet median / p90 in %; PBF leaves out %, by one epoch / averaged`);
  for (const { epoch, load, svbf, mixed, leftOut } of epochs) {
    wins.epochs++;
    if (mixed.median < svbf.median) wins.median++;
    if (mixed.p90 < svbf.p90) wins.p90++;
    console.log(
      `  epoch ${epoch}  load ${load.toFixed(2)}  SVBF ${errorText(svbf)}  mixed ${errorText(mixed)}  PBF ${leftOut.map(percent).join(" / ")}`,
    );
  }
  const means = [0, 1].map((i) => percent(mean(epochs.map((e) => e.leftOut[i] ?? Number.NaN))));
  console.log(`  PBF in the mean: ${means.join(" / ")}`);
}
console.log(
  `mixed is below SVBF in the median in ${wins.median}, in the p90 in ${wins.p90} of ${wins.epochs} epochs`,
);
