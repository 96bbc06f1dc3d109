/**
 * Compares what `hoptime size` promises with simulated traffic.
 *
 *   node scripts/bench.mjs size [seeds] [--seed N] [--loss 0,0.01]
 */
import { parseArgs } from "node:util";
import { Kernels } from "../src/base/kernels.ts";
import { measureClaims } from "../src/evaluate/size-claims.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seed: { type: "string", default: "1000" }, loss: { type: "string", default: "0,0.01" } },
});
const first = Number(values.seed);
const seeds = Array.from({ length: Number(positionals[0] ?? 3) }, (_, i) => first + i);
const percent = (x: number | null) => (x === null ? "–" : `${(100 * x).toFixed(2)} %`).padStart(9);
for (const loss of values.loss.split(",").map(Number)) {
  console.log(`loss ${100 * loss} %: estimator, quantity, claimed, measured, runs or flows`);
  // New kernels, because kernel memory never shrinks.
  for (const { estimator, quantity, claimed, measured, count } of await measureClaims(() => new Kernels(), {
    ...{ loss, seeds },
  }))
    console.log(
      `${estimator.padEnd(11)} ${quantity.padEnd(32)} ${percent(claimed)} ${percent(measured)} ${count}`,
    );
}
