/** The coverage of intervals as a table for people: text, and the page in docs/. */
import type { CoverageRow } from "./coverage.ts";

const percent = (part: number, of: number) => (of === 0 ? "–" : `${((100 * part) / of).toFixed(1)} %`);
const COLUMNS: [title: string, value: (r: CoverageRow) => string][] = [
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

/** Rows of one case or several, a heading for each. */
export function coverageTable(rows: readonly CoverageRow[]): string {
  const out: string[] = [];
  for (const name of new Set(rows.map((r) => r.case))) {
    const own = rows.filter((r) => r.case === name);
    out.push(`### ${name}`, "", markdown(own), "");
  }
  return out.join("\n");
}

export function coveragePage(rows: readonly CoverageRow[], { seeds }: { seeds: readonly number[] }): string {
  return `# How often the truth lies in the interval

Made by \`node scripts/bench.mjs coverage ${seeds.length} --seed ${seeds[0]} --write\`: simulated traffic (8 s, 10,000 packets/s, 8 epochs), observed at both ends, sealed into
records, asked as \`hoptime query --between\` does, over the whole time; every case has traffic of its own. *Mean inside*: share of the 95 % intervals that hold the true mean of **all** packets that arrived,
also those of epochs without an answer and those behind the sender's last epoch. *Packets answered for*: share of the packets that arrived whose epochs had an answer of that estimator for the flow. The truth is in the clocks of
the two points. *Lost* and *estimated lost*: packets, where the estimator counts them.

Intervals of lda, lds, colate and rli are statistical: 93 to 99 % is what they should hold. Those of maple are bounds (of the cells that the packets' delays fall into), those of sds nearly so (sums of exact delays,
uncertain only where flows share all their cells): they should hold the truth in all cases, and their width says what they are worth. Flows of 1 to 9 packets that no cell was left for count with bounds too.
Flows' answers over cuts by time are wider than over cuts by packets: what was in flight at a cut is modelled, not measured.

*Two-way router captures* go the whole way over files: two captures with both directions, observed with a filter for one, sds and maple fed by \`observe --sender\`.

## All cases together

${markdown(pooled(rows))}

Above 99 %: the few packets of COLATE's flows of 1 to 9 (and of some of 10 to 99) are lost among others, so that their interval is nearly that of all flows, which is kept wide for those several times as slow as the mean; standard
deviations of maple and rli have bounds. A class of fewer than 100 flows in one case moves by points: 100 % of 60 flows is no sign.

Segments of lds: where flows are known its mean is that of all of them, and answers for flows are drawn to the common mean; with skewed delays that is some tenths of a percent too low, which the interval does not always hold.
Flows of lds whose packets overtake the delimiters of epochs are in cells that others have left, too.

Below 93 % by more than two standard deviations of chance, one case at a time: ${tooLow(rows)}

## Case by case

${coverageTable(rows)}`;
}

/** What to hold at least, and how many standard deviations below it are more than chance. */
const LEAST = 0.93;
const BY_CHANCE = 2;

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

/** A single run says nothing. */
function isTooLow(inside: number, of: number): boolean {
  return of > 1 && inside / of < LEAST - BY_CHANCE * Math.sqrt((LEAST * (1 - LEAST)) / of);
}

/** The same over all cases that are meant for an estimator: RLI has traffic of its own. Widths are not comparable between cases. */
function pooled(rows: readonly CoverageRow[]): CoverageRow[] {
  const out = new Map<string, CoverageRow>();
  for (const row of rows) {
    const name = `${row.estimator} ${row.class}`;
    const sum = out.get(name);
    if (!sum) {
      out.set(name, { ...row, case: "all", width: null });
      continue;
    }
    for (const field of COUNTS) sum[field] += row[field];
    for (const field of ["lost", "estimatedLost"] as const)
      if (row[field] !== null) sum[field] = (sum[field] ?? 0) + row[field];
  }
  return [...out.values()];
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

function markdown(rows: readonly CoverageRow[]): string {
  const cells = rows.map((row) => COLUMNS.map(([, value]) => value(row)));
  const titles = COLUMNS.map(([title]) => title);
  const widths = titles.map((title, i) => Math.max(title.length, ...cells.map((c) => (c[i] ?? "").length)));
  const line = (texts: readonly string[]) =>
    `| ${texts.map((t, i) => t.padEnd(widths[i] ?? 0)).join(" | ")} |`;
  return [line(titles), line(widths.map((w) => "-".repeat(w))), ...cells.map(line)].join("\n");
}
