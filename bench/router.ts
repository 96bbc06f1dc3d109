/**
 * Measures the coverage of 95 % intervals behind a small router with an overflowing queue: few flows, hundreds of packets per epoch, a fifth of them lost.
 *
 *   node scripts/bench.mjs router [seeds] [case] [--seed N] [--estimators lda,lds] [--show]
 */
import { parseArgs } from "node:util";
import { measureRouter, ROUTER_CASES, routerTable } from "../src/evaluate/router-coverage.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: "string", default: "1" },
    estimators: { type: "string", default: "lda,lds,colate" },
    show: { type: "boolean", default: false },
  },
});
const count = Number(positionals[0] ?? 10);
const first = Number(values.seed);
const seeds = Array.from({ length: count }, (_, i) => first + i);
for (const one of ROUTER_CASES) {
  if (!one.name.includes(positionals[1] ?? "")) continue;
  const rows = await measureRouter(one, {
    seeds,
    estimators: values.estimators.split(","),
    ...(values.show ? { onMiss: (text: string) => console.log(text) } : {}),
  });
  process.stdout.write(routerTable(one.name, rows));
}
