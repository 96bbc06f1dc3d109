/**
 * MAPLE epoch by epoch on traces of several seeds: node scripts/bench.mjs maple-epochs [SEED...]. Reference traffic, 10 s at 88 %, epochs of 1 s, from the third on.
 *
 *   mixed against SVBF   median and p90 of the packets' relative errors at 5.2 and 12.8 bit per packet
 *   PBF                  what is left out, with shares of the one epoch two before (the paper) and averaged over epochs; beside it each epoch's load
 */
import { Kernels } from "../src/base/kernels.ts";
import { Random } from "../src/base/random.ts";
import { histogramOf } from "../src/estimators/maple/cell-table.ts";
import { pairedCentres } from "../src/estimators/maple/centres/epoch-centres.ts";
import { CentrePipeline } from "../src/estimators/maple/centres/pipeline.ts";
import { ask, fill } from "../src/evaluate/maple-questions.ts";
import { mean, quantile, referenceTrace, type TraceEpoch } from "../src/evaluate/reference-trace.ts";

const plain = { codeBits: 0, hashes: 0, f: 0, theta: 0 };
const PBF = { ...plain, kind: "pbf", hashes: 9 } as const;
const kernels = new Kernels();
const seeds = process.argv.slice(2).map(Number);
const wins = { median: 0, p90: 0, epochs: 0 };

for (const seed of seeds.length > 0 ? seeds : [1]) {
  const trace = await referenceTrace(kernels, { seed, seconds: 10 });
  const pipelines = [0, 0.8].map(
    (memory) => new CentrePipeline({ strategy: "hybrid", k: 50, random: new Random(7), memory }),
  );
  const left: number[][] = [[], []];
  const lines: string[] = [];
  for (const [i, e] of trace.epochs.entries()) {
    if (i >= 2) {
      for (const [p, pipeline] of pipelines.entries()) {
        const filled = fill(kernels, e, pipeline.current, PBF, 12.8);
        left[p]!.push(filled.store.leftOut / e.count);
        filled.free();
      }
      const svbf = errors(e, svbfOf(e, pipelines[1]!));
      const mixed = errors(e, mixedOf(e, trace.rateBps));
      wins.epochs++;
      if (mixed.median < svbf.median) wins.median++;
      if (mixed.p90 < svbf.p90) wins.p90++;
      const load = (8 * e.wireLength.reduce((a, b) => a + b, 0)) / trace.rateBps;
      const told = [svbf, mixed].map((x) => `${percent(x.median)} / ${percent(x.p90)}`);
      lines.push(
        `  epoch ${i}  load ${load.toFixed(2)}  SVBF ${told[0]}  mixed ${told[1]}  PBF ${left.map((l) => percent(l.at(-1)!)).join(" / ")}`,
      );
    }
    for (const pipeline of pipelines) {
      pipeline.observe(e.delayNs);
      pipeline.endEpoch();
    }
  }
  console.log(`seed ${seed}: packet median / p90 in %; PBF leaves out %, by one epoch / averaged`);
  console.log(lines.join("\n"));
  console.log(`  PBF in the mean: ${left.map((l) => percent(mean(l))).join(" / ")}`);
}
console.log(
  `mixed is below SVBF in the median in ${wins.median}, in the p90 in ${wins.p90} of ${wins.epochs} epochs`,
);

function percent(x: number): string {
  return (100 * x).toFixed(1);
}

function errors(e: TraceEpoch, estimates: Float64Array): { median: number; p90: number } {
  const all = Float64Array.from(estimates, (x, i) => Math.abs(x - e.delayNs[i]!) / e.delayNs[i]!);
  return { median: quantile(all, 0.5), p90: quantile(all, 0.9) };
}

function svbfOf(e: TraceEpoch, pipeline: CentrePipeline): Float64Array {
  const filled = fill(kernels, e, pipeline.current, { ...plain, kind: "svbf", hashes: 9 }, 12.8);
  const { estimateNs } = ask(kernels, filled);
  filled.free();
  return estimateNs;
}

function mixedOf(e: TraceEpoch, rateBps: number): Float64Array {
  const transmission = Float64Array.from(e.wireLength, (l) => Math.round((8e9 * l) / rateBps));
  const stored = e.delayNs.map((d, i) => d - transmission[i]!);
  const at = kernels.alloc(8 * e.count);
  kernels.f64.set(stored, at >>> 3);
  const centres = pairedCentres(histogramOf(kernels, at, e.count), 64, 300);
  kernels.free(at);
  const filled = fill(kernels, e, centres, { ...plain, kind: "mixed", codeBits: 6 }, 0.905, stored);
  if (filled.store.bits / e.count > 5.2) throw new Error("more than 5.2 bits per packet");
  const { estimateNs } = ask(kernels, filled);
  filled.free();
  return estimateNs.map((x, i) => x + transmission[i]!);
}
