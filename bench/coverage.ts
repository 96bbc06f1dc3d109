/**
 * Measures the coverage of 95 % intervals over a whole question, per estimator and flow size class, on new simulated traffic.
 *
 *   node scripts/bench.mjs coverage [seeds] [case] [--seed N] [--estimators lda,lds] [--write] [--rows FILE]
 *   node scripts/bench.mjs coverage [seeds] --seed N --page FILE,FILE
 *
 * `case`: part of a case's name, such as "queue, loss". --write puts the table into docs/coverage.md. To measure cases in several processes, --rows stores the
 * results of one process, and --page makes docs/coverage.md from them.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { Kernels } from "../src/base/kernels.ts";
import { type CoverageRow, measureCoverage } from "../src/evaluate/coverage.ts";
import { COVERAGE_CASES } from "../src/evaluate/coverage-cases.ts";
import { coveragePage, coverageTable } from "../src/evaluate/coverage-table.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: "string", default: "1000" },
    estimators: { type: "string" },
    write: { type: "boolean", default: false },
    rows: { type: "string" },
    page: { type: "string" },
  },
});
const count = Number(positionals[0] ?? 3);
const only = positionals[1] ?? "";
const first = Number(values.seed);
const seeds = Array.from({ length: count }, (_, i) => first + i);
const names = values.estimators?.split(",");
const rows: CoverageRow[] = (values.page?.split(",") ?? []).flatMap((file) =>
  JSON.parse(readFileSync(file, "utf8")),
);
for (const one of COVERAGE_CASES) {
  if (values.page !== undefined || !one.name.includes(only)) continue;
  const estimators = one.estimators.filter(
    (e) => !names || e.startsWith("flows") || names.includes(e.split(":")[0] ?? ""),
  );
  // Traffic with references is only for rli; other estimators are not measured on it.
  if (estimators.every((e) => e.startsWith("flows"))) continue;
  // New kernels, because kernel memory never shrinks.
  const found = await measureCoverage(new Kernels(), { ...one, estimators }, { seeds });
  rows.push(...found);
  process.stdout.write(`${coverageTable(found)}\n`);
}
if (values.rows !== undefined) writeFileSync(values.rows, JSON.stringify(rows));
if (values.write || values.page !== undefined)
  writeFileSync("docs/coverage.md", coveragePage(rows, { seeds }));
