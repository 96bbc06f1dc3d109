import { Kernels } from "../src/base/kernels.ts";
import { flowErrors } from "../src/evaluate/flow-errors.ts";
import { runRli, SCHEMES } from "../src/evaluate/rli-experiment.ts";

const dur = Number(process.argv[2] ?? 2);
for (const u of [0.55, 0.7, 0.88, 0.95]) {
  for (const [name, scheme] of Object.entries(SCHEMES)) {
    if (name !== "adaptive" && name !== "1-in-300") continue;
    const t0 = performance.now();
    const run = await runRli(
      new Kernels(),
      { utilisation: u, traffic: { durationS: dur }, seed: Number(process.argv[3] ?? 1) },
      scheme,
    );
    const pct = (x: number | null) => (x === null ? "-" : (100 * x).toFixed(1));
    if (name !== "adaptive" && name !== "1-in-300") continue;
    const line = run.entries.map((e) => {
      const f = flowErrors(run.truth, e.answer.flows, [
        { from: 1, to: null },
        { from: 1, to: 1 },
        { from: 2, to: 9 },
        { from: 10, to: 99 },
        { from: 100, to: null },
      ]);
      return `${e.name}: ${f.map((c) => `${pct(c.median)}(${pct(c.withinInterval)})`).join(" / ")}`;
    });
    console.log(
      u,
      name,
      `rate ${pct(run.injectionRate)}%`,
      `mean ${(run.truth.meanNs / 1e3).toFixed(1)}us`,
      line.join("  "),
      JSON.stringify(run.entries[0]!.answer.segment!.mean),
      `${((performance.now() - t0) / 1e3).toFixed(1)}s`,
    );
  }
}
