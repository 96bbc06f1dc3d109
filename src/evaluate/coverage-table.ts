/** Writes the coverage of intervals as text and as the page in docs/. */
import { entryAt } from "../base/lists.ts";
import { quantileSorted } from "../base/math/regression.ts";
import { binomialCdf } from "../base/math/special.ts";
import { formatCount } from "../base/quantity.ts";
import { COVERAGE_CLASSES, type CoverageClass, type CoverageRow } from "./coverage.ts";

const percent = (part: number, of: number) => (of === 0 ? "–" : `${((100 * part) / of).toFixed(1)} %`);
type Column<T> = [title: string, value: (row: T) => string];

const COLUMNS: readonly Column<CoverageRow>[] = [
  ["estimator", (r) => r.estimator],
  ["packets of a flow", (r) => r.class],
  ["flows or runs", (r) => `${r.asked}`],
  ["with an interval", (r) => percent(r.withMean, r.asked)],
  ["mean inside", (r) => percent(r.inside, r.withMean)],
  ["median width", (r) => (r.width === null ? "–" : percent(r.width, 1))],
  ["deviation inside", (r) => percent(r.deviationInside, r.withDeviation)],
  ["packets answered for", (r) => percent(r.answered, r.packets)],
  ["lost", (r) => (r.lost === null ? "–" : `${r.lost}`)],
  ["estimated lost", (r) => (r.estimatedLost === null ? "–" : `${r.estimatedLost}`)],
];

/** Writes the rows of one or several cases, with a heading for each case. */
export function coverageTable(rows: readonly CoverageRow[]): string {
  const out: string[] = [];
  for (const name of new Set(rows.map((r) => r.case))) {
    const own = rows.filter((r) => r.case === name);
    out.push(`### ${name}`, "", table(COLUMNS, own), "");
  }
  return out.join("\n");
}

export function coveragePage(rows: readonly CoverageRow[], { seeds }: { seeds: readonly number[] }): string {
  const estimators = [...new Set(rows.map((r) => r.estimator))].sort();
  return `# How often the truth lies in the interval

Simulated traffic is observed at both ends, sealed into records and asked as \`hoptime query --between\` does, over the whole time. Every case has traffic of its own: 8 s, 10,000 packets/s, 8
epochs. The truth is the mean over **all** packets that arrived, by the clocks of the two points.

Made by \`node scripts/bench.mjs coverage ${seeds.length} --seed ${seeds[0]} --write\`; seeds that nothing was tuned on. \`--rows FILE\` keeps every figure as JSON.

## Summary

- _Inside_: share of the 95 % intervals that hold the truth. Intervals of lda, lds, colate and rli are statistical and should hold it 93 to 99 % of the time. Those of maple and sds are bounds and should always
  hold it.
- _Width_: high less low over the truth; the median over flows, then over cases.
- _Answered_: share of the packets whose epochs had an answer of that estimator for the flow. The interval is about all packets all the same.
- _Lowest case_: among those with at least ${ENOUGH} intervals.

${table(SUMMARY, pooled(rows))}

Below 93 %, one case at a time, where chance makes so few in at most 2.3 % of such cases (of some ${judgedOf(rows)} that are judged, a few are): ${tooLow(rows)}

${lossText(rows)}

## Case by case

Inside, and width, by packets of a flow. \`–\`: no such flow, or none with an interval. _Two-way router captures_ go the whole way over files: captures with both directions, observed with a filter for one; sds
and maple are fed by \`observe --sender\`. _With references_: traffic of its own, for rli, behind queues alone:
rli assumes that packets near in time are delayed alike. Where every flow has a latency of its own its intervals do not hold (docs/estimators/rli.md); use lds there.

${estimators.map((name) => `### ${name}\n\n${caseTable(rows.filter((r) => r.estimator === name))}`).join("\n\n")}
`;
}

/** Minimum number of intervals for a case to be named. */
const ENOUGH = 50;

type Pooled = CoverageRow & { lowest: string };

const SUMMARY: readonly Column<Pooled>[] = [
  ["estimator", (r) => r.estimator],
  ["packets of a flow", (r) => r.class],
  ["flows or runs", (r) => formatCount(r.asked)],
  ["inside", (r) => percent(r.inside, r.withMean)],
  ["width", (r) => (r.width === null ? "–" : percent(r.width, 1))],
  ["answered", (r) => percent(r.answered, r.packets)],
  ["deviation inside", (r) => percent(r.deviationInside, r.withDeviation)],
  ["lowest case", (r) => r.lowest],
];

/** One estimator: one line per case, one column per flow size. */
function caseTable(rows: readonly CoverageRow[]): string {
  const cases = [...new Set(rows.map((r) => r.case))];
  const classes = COVERAGE_CLASSES.filter((c) => rows.some((r) => r.class === c));
  const cell = (name: string, size: CoverageClass) => {
    const row = rows.find((r) => r.case === name && r.class === size);
    if (!row || row.withMean === 0) return "–";
    const inside = size === "segment" && row.asked === 1 ? (row.inside ? "yes" : "**no**") : share(row);
    return `${inside}, ${row.width === null ? "–" : percent(row.width, 1)}`;
  };
  const columns: Column<string>[] = [
    ["case", (name) => name],
    ...classes.map((size): Column<string> => [size, (name) => cell(name, size)]),
  ];
  return table(columns, cases);
}

const share = (row: CoverageRow) => percent(row.inside, row.withMean);

/** Compares the losses that answers state with the true losses. */
function lossText(rows: readonly CoverageRow[]): string {
  const counted = rows.filter((r) => r.lost !== null && r.estimatedLost !== null);
  const wrong = counted.filter((r) => r.lost !== r.estimatedLost);
  if (wrong.length === 0)
    return `Losses: exact in all ${counted.length} answers that count them (${[...new Set(counted.map((r) => r.estimator))].join(", ")}).`;
  const texts = wrong.map((r) => `${r.case}: ${r.estimator} ${r.estimatedLost} of ${r.lost}`);
  return `Losses: exact in ${counted.length - wrong.length} of ${counted.length} answers that count them; not in ${texts.join("; ")}.`;
}

/** Required coverage, and the significance level: a share is too low if it is less likely than this at the required coverage. */
const LEAST = 0.93;
const BY_CHANCE = 0.0228;

function tooLow(rows: readonly CoverageRow[]): string {
  const found = rows.flatMap((row) => {
    const of = `${row.case}: ${row.estimator} ${row.class}`;
    return [
      ...(isTooLow(row.inside, row.withMean) ? [`${of}, mean (${percent(row.inside, row.withMean)})`] : []),
      ...(isTooLow(row.deviationInside, row.withDeviation)
        ? [`${of}, deviation (${percent(row.deviationInside, row.withDeviation)})`]
        : []),
    ];
  });
  return found.length === 0 ? "none." : `${found.join("; ")}.`;
}

/** Returns the number of shares that were tested. */
function judgedOf(rows: readonly CoverageRow[]): string {
  const counts = rows.flatMap((row) => [row.withMean, row.withDeviation]).filter((of) => of > 1);
  return formatCount(counts.length);
}

/** Uses the exact binomial distribution: one miss among three flows is not significant. */
function isTooLow(inside: number, of: number): boolean {
  return inside < of && binomialCdf(inside, of, LEAST) < BY_CHANCE;
}

/** Pools the rows of all cases of an estimator. RLI has its own traffic. */
function pooled(rows: readonly CoverageRow[]): Pooled[] {
  const out = new Map<string, CoverageRow[]>();
  for (const row of rows) {
    const name = `${row.estimator} ${row.class}`;
    out.set(name, [...(out.get(name) ?? []), row]);
  }
  const place = (r: CoverageRow) => COVERAGE_CLASSES.indexOf(r.class);
  return [...out.values()]
    .map(poolOf)
    .sort((a, b) => a.estimator.localeCompare(b.estimator) || place(a) - place(b));
}

function poolOf(rows: readonly CoverageRow[]): Pooled {
  const sum = { ...entryAt(rows, 0), case: "all" };
  for (const field of COUNTS) sum[field] = rows.reduce((n, r) => n + r[field], 0);
  const widths = rows.flatMap((r) => (r.width === null ? [] : [r.width])).sort((a, b) => a - b);
  const many = rows.filter((r) => r.withMean >= ENOUGH);
  const lowest = many.reduce<CoverageRow | null>(
    (a, b) => (a && a.inside / a.withMean <= b.inside / b.withMean ? a : b),
    null,
  );
  return {
    ...sum,
    width: quantileSorted(widths, 0.5),
    lowest: lowest ? `${share(lowest)} (${lowest.case})` : "–",
  };
}

const COUNTS = [
  "asked",
  "withMean",
  "inside",
  "withDeviation",
  "deviationInside",
  "packets",
  "answered",
] as const;

function table<T>(columns: readonly Column<T>[], rows: readonly T[]): string {
  const cells = columns.map(([title, value]) => [title, ...rows.map(value)]);
  const widths = cells.map((texts) => Math.max(...texts.map((text) => text.length)));
  const line = (texts: readonly string[]) => `| ${texts.join(" | ")} |`;
  const lineOf = (row: number) => line(cells.map((texts, c) => (texts[row] ?? "").padEnd(widths[c] ?? 0)));
  const rule = line(widths.map((width) => "-".repeat(width)));
  return [lineOf(0), rule, ...rows.map((_, row) => lineOf(row + 1))].join("\n");
}
