/** Rows of segments, read: of one over time, of all at a time. */
import { earlier, later } from "../base/time.ts";
import type { CollectedSegment } from "../collect/collector.ts";
import type { ReadRows } from "./duckdb.ts";
import { type SegmentRow, STEPS, type Step } from "./rows.ts";
import { readSegmentRow, SEGMENT_COLUMNS } from "./tables.ts";

export interface RowSelection {
  from: string;
  to: string;
  label: string;
  estimator: string;
  fromNs: bigint;
  toNs: bigint;
}

export interface KnownSegment extends CollectedSegment {
  estimators: string[];
  firstNs: bigint;
  lastNs: bigint;
}

const COVERAGE = [
  ["epochs", "epochs"],
  ["missing", "missing"],
  ["missing_from", "missingFrom"],
  ["missing_to", "missingTo"],
  ["refused", "refused"],
  ["edges", "edges"],
  ["CASE WHEN mean_ns IS NULL THEN 0 ELSE 1 END", "answered"],
] as const;

export type SegmentCoverage = CollectedSegment & { estimator: string } & Record<
    (typeof COVERAGE)[number][1],
    number
  >;

export interface StepQuestion {
  fromNs: bigint;
  toNs: bigint;
  stepNs: bigint;
  /** The coarsest rows that may be read. */
  step: Step;
}

export interface StepRow {
  from: string;
  to: string;
  label: string;
  estimator: string;
  /** Which step, from 0. */
  at: number;
  meanNs: number | null;
  lowNs: number | null;
  highNs: number | null;
  /** Of epochs in which both are known. */
  sent: number | null;
  received: number | null;
  epochs: number;
  missing: number;
  refused: number;
}

export interface SpreadQuestion {
  step: Step;
  fromNs: bigint;
  toNs: bigint;
  /** Which quantile is the middle. */
  share: number;
  hourOfWeekNs: bigint | null;
}

export interface SpreadRow {
  /** Of segment and estimator (normals.ts). */
  key: string;
  count: number;
  valueNs: number;
  spreadNs: number;
}

export class SegmentReader {
  readonly #all: ReadRows;
  #known: Map<string, KnownSegment> | null = null;

  constructor(all: ReadRows) {
    this.#all = all;
  }

  /** In order of time. */
  async segmentRows(
    { from, to, label, estimator, fromNs, toNs }: RowSelection,
    step: Step,
  ): Promise<SegmentRow[]> {
    const names = SEGMENT_COLUMNS.map((c) => c[0]).join(", ");
    const rows = await this.#all(
      `SELECT ${names} FROM segments WHERE step_s = $1 AND start_ns >= $2 AND start_ns < $3 AND from_point = $4 AND to_point = $5 AND label = $6 AND estimator = $7 ORDER BY start_ns`,
      [step, fromNs, toNs, from, to, label, estimator],
    );
    return rows.map(readSegmentRow);
  }

  /** The last so many epochs of a time, in order. */
  async lastRows(selection: RowSelection, most: number): Promise<SegmentRow[]> {
    const { from, to, label, estimator, fromNs, toNs } = selection;
    const [row] = await this.#all(
      "SELECT min(start_ns) FROM (SELECT start_ns FROM segments WHERE step_s = 0 AND start_ns >= $1 AND start_ns < $2 AND from_point = $3 AND to_point = $4 AND label = $5 AND estimator = $6 ORDER BY start_ns DESC LIMIT $7)",
      [fromNs, toNs, from, to, label, estimator, most],
    );
    const first = row?.[0] ?? null;
    return first === null ? [] : await this.segmentRows({ ...selection, fromNs: BigInt(first as bigint) }, 0);
  }

  /** Start of the first row from a time on, of those that `step` can be made of; null where there is none. */
  async firstFrom(selection: RowSelection, step: Step): Promise<bigint | null> {
    const { from, to, label, estimator, fromNs, toNs } = selection;
    const [row] = await this.#all(
      "SELECT min(start_ns) FROM segments WHERE end_ns > $1 AND start_ns < $2 AND from_point = $3 AND to_point = $4 AND label = $5 AND estimator = $6 AND step_s <= $7",
      [fromNs, toNs, from, to, label, estimator, step],
    );
    const first = row?.[0] ?? null;
    return first === null ? null : BigInt(first as bigint);
  }

  /** Rows that cover a time in the coarsest steps that `step` allows: what is not rolled up yet comes as it is below. */
  async coveringRows(selection: RowSelection, step: Step): Promise<SegmentRow[]> {
    if (step === 0) return await this.segmentRows(selection, 0);
    const below = STEPS[STEPS.indexOf(step) - 1] ?? 0;
    const { from, to, label, estimator, fromNs, toNs } = selection;
    const dirty = await this.#all(
      "SELECT start_ns FROM dirty WHERE step_s = $1 AND start_ns >= $2 AND start_ns < $3 AND from_point = $4 AND to_point = $5 AND label = $6 AND estimator = $7 ORDER BY start_ns",
      [step, bucketOf(fromNs, step), toNs, from, to, label, estimator],
    );
    const open = new Set(dirty.map(([start]) => BigInt(start as bigint)));
    // One that reaches into the time counts whole.
    const around = { ...selection, fromNs: bucketOf(fromNs, step) };
    const rows = (await this.segmentRows(around, step)).filter((r) => !open.has(r.startNs));
    // One question for all that is not rolled up: there may be many minutes of it.
    const [first, last] = [[...open][0], [...open].at(-1)];
    if (first !== undefined && last !== undefined) {
      const span = { ...selection, fromNs: first, toNs: last + BigInt(step) * 1_000_000_000n };
      for (const row of await this.coveringRows(span, below))
        if (open.has(bucketOf(row.startNs, step))) rows.push(row);
    }
    return rows.sort((a, b) => (a.startNs < b.startNs ? -1 : 1));
  }

  /** Epochs of every segment and estimator in a time, and what became of them. */
  async coverage(fromNs: bigint, toNs: bigint): Promise<SegmentCoverage[]> {
    const sums = COVERAGE.map((c) => `sum(${c[0]})`).join(", ");
    const rows = await this.#all(
      `SELECT from_point, to_point, label, estimator, ${sums} FROM segments WHERE step_s = 0 AND start_ns >= $1 AND start_ns < $2 GROUP BY ALL ORDER BY ALL`,
      [fromNs, toNs],
    );
    return rows.map(([from, to, label, estimator, ...counts]) => ({
      ...{ from: String(from), to: String(to), label: String(label), estimator: String(estimator) },
      ...(Object.fromEntries(COVERAGE.map(([, name], i) => [name, Number(counts[i] ?? 0)])) as Record<
        (typeof COVERAGE)[number][1],
        number
      >),
    }));
  }

  /** End of the newest epoch; null where there is none. */
  async newest(): Promise<bigint | null> {
    const [row] = await this.#all("SELECT max(end_ns) FROM segments WHERE step_s = 0");
    return row?.[0] === null || row?.[0] === undefined ? null : BigInt(row[0] as bigint);
  }

  /** Read once, and kept up to date by what is written: every question asks for it. */
  async segments(): Promise<KnownSegment[]> {
    if (this.#known === null) {
      const { changes } = this;
      const known = await this.#readSegments();
      // What was written meanwhile may be missing in it.
      if (changes !== this.changes) return listed(known);
      this.#known = known;
    }
    return listed(this.#known);
  }

  protected changes = 0;

  /** Rows that were written. */
  protected noteSegments(rows: readonly SegmentRow[]): void {
    this.changes++;
    if (this.#known) for (const row of rows) noteSegment(this.#known, row);
  }

  /** Rows went. */
  protected forgetSegments(): void {
    this.changes++;
    this.#known = null;
  }

  async #readSegments(): Promise<Map<string, KnownSegment>> {
    const rows = await this.#all(
      // A minute or an hour that has begun ends in the time to come: the newest is that of the epochs.
      "SELECT from_point, to_point, label, estimator, min(start_ns), coalesce(max(end_ns) FILTER (WHERE step_s = 0), max(end_ns)) FROM segments GROUP BY ALL ORDER BY ALL",
    );
    const known = new Map<string, KnownSegment>();
    for (const [from, to, label, estimator, first, last] of rows)
      noteSegment(known, {
        segment: { from: String(from), to: String(to), label: String(label) },
        estimator: String(estimator),
        startNs: BigInt(first as bigint),
        endNs: BigInt(last as bigint),
      });
    return known;
  }

  /** All segments and estimators in steps of any length, from rows of `step` or finer: sums, the mean weighted by packets, the lowest and highest bound. */
  async steps({ fromNs, toNs, stepNs, step }: StepQuestion): Promise<StepRow[]> {
    const union = await this.#pieces(fromNs, toNs, step);
    // One text for each segment: values that cross one by one take ten times as long.
    const fields = ["begins", "mean", "low", "high", "sent", "received", "epochs", "missing", "refused"];
    const texts = fields.map((f) => `coalesce(CAST(${f} AS VARCHAR), '')`).join(", ");
    const whole = (sql: string) => `CAST(round(${sql}) AS BIGINT)`;
    const rows = await this.#all(
      `SELECT from_point, to_point, label, estimator, string_agg(concat_ws(',', ${texts}), ';') FROM (
        SELECT from_point, to_point, label, estimator, (start_ns - $1) // $2 AS begins,
          ${whole("sum(mean_ns * weight) / sum(CASE WHEN mean_ns IS NULL THEN NULL ELSE weight END)")} AS mean,
          ${whole("min(low_ns)")} AS low, ${whole("max(high_ns)")} AS high,
          ${whole("sum(CASE WHEN received IS NULL THEN NULL ELSE sent END)")} AS sent,
          ${whole("sum(CASE WHEN sent IS NULL THEN NULL ELSE received END)")} AS received,
          sum(epochs) AS epochs, sum(missing) AS missing, sum(refused) AS refused
        FROM (SELECT from_point, to_point, label, estimator, start_ns, mean_ns, low_ns, high_ns, sent, received, epochs, missing, refused, greatest(coalesce(received, 1), 1) AS weight FROM segments WHERE ${union})
        GROUP BY from_point, to_point, label, estimator, begins) GROUP BY from_point, to_point, label, estimator`,
      [fromNs, stepNs],
    );
    return rows.flatMap(([from, to, label, estimator, text]) => {
      const names = {
        from: String(from),
        to: String(to),
        label: String(label),
        estimator: String(estimator),
      };
      return String(text)
        .split(";")
        .map((part) => stepRow(names, part));
    });
  }

  /** The newest epoch of each segment and estimator that lies in a time. */
  async newestRows(fromNs: bigint, toNs: bigint): Promise<SegmentRow[]> {
    const names = SEGMENT_COLUMNS.map((c) => c[0]).join(", ");
    const rows = await this.#all(
      `SELECT ${names} FROM segments WHERE step_s = 0 AND start_ns >= $1 AND start_ns < $2
        QUALIFY row_number() OVER (PARTITION BY from_point, to_point, label, estimator ORDER BY start_ns DESC) = 1`,
      [fromNs, toNs],
    );
    return rows.map(readSegmentRow);
  }

  /** Middle and spread of the means of each segment and estimator, by rows of one step; `hourOfWeekNs`: only of the hours next to this one's in each week. */
  async spreads(question: SpreadQuestion): Promise<SpreadRow[]> {
    const { step, fromNs, toNs, share, hourOfWeekNs } = question;
    const hour = "3600000000000";
    // Hours from the one asked for, around the week: 0, 1 and 167 are next to it.
    const near =
      hourOfWeekNs === null
        ? "true"
        : `(start_ns // ${hour} - ${hourOfWeekNs} // ${hour}) % 168 IN (0, 1, -1, 167, -167)`;
    const rows = await this.#all(
      `SELECT from_point, to_point, label, estimator, count(*), quantile_cont(mean_ns, ${share}), mad(mean_ns) FROM segments
        WHERE step_s = $1 AND start_ns >= $2 AND start_ns < $3 AND mean_ns IS NOT NULL AND ${near} GROUP BY ALL`,
      [step, fromNs, toNs],
    );
    return rows.map(([from, to, label, estimator, count, value, mad]) => ({
      key: JSON.stringify([from, to, label, estimator]),
      ...{ count: Number(count), valueNs: Number(value), spreadNs: 1.4826 * Number(mad) },
    }));
  }

  /** Which rows cover a time, in steps as coarse as `step` where all is rolled up, finer behind that. */
  async #pieces(fromNs: bigint, toNs: bigint, step: Step): Promise<string> {
    const parts: string[] = [];
    let startNs = fromNs;
    for (const coarse of [...STEPS].reverse().filter((s) => s <= step)) {
      const [open] =
        coarse === 0 ? [] : await this.#all("SELECT min(start_ns) FROM dirty WHERE step_s = $1", [coarse]);
      const openNs = open?.[0] === null || open?.[0] === undefined ? toNs : BigInt(open[0] as bigint);
      const endNs = coarse === 0 ? toNs : earlier(later(bucketOf(openNs, coarse), startNs), toNs);
      if (endNs > startNs)
        parts.push(`(step_s = ${coarse} AND start_ns >= ${startNs} AND start_ns < ${endNs})`);
      startNs = endNs;
    }
    return parts.length === 0 ? "false" : parts.join(" OR ");
  }

  /** Is there anything at all? */
  async isEmpty(): Promise<boolean> {
    return (await this.#all("SELECT 1 FROM segments LIMIT 1")).length === 0;
  }
}

/** Sixty thousand of these are made for an overview: plain, without spreads. */
function stepRow(names: Pick<StepRow, "from" | "to" | "label" | "estimator">, text: string): StepRow {
  const values = text.split(",");
  const orNull = (i: number) => (values[i] === "" ? null : Number(values[i]));
  return {
    from: names.from,
    to: names.to,
    label: names.label,
    estimator: names.estimator,
    at: Number(values[0]),
    meanNs: orNull(1),
    lowNs: orNull(2),
    highNs: orNull(3),
    sent: orNull(4),
    received: orNull(5),
    epochs: Number(values[6]),
    missing: Number(values[7]),
    refused: Number(values[8]),
  };
}

function noteSegment(
  known: Map<string, KnownSegment>,
  { segment, estimator, startNs, endNs }: Pick<SegmentRow, "segment" | "estimator" | "startNs" | "endNs">,
): void {
  const { from, to, label } = segment;
  const key = JSON.stringify([from, to, label]);
  const before = known.get(key);
  if (!before) known.set(key, { from, to, label, estimators: [estimator], firstNs: startNs, lastNs: endNs });
  else {
    if (!before.estimators.includes(estimator)) before.estimators = [...before.estimators, estimator].sort();
    before.firstNs = earlier(before.firstNs, startNs);
    before.lastNs = later(before.lastNs, endNs);
  }
}

/** Copies, in order of their names: what is kept changes. */
function listed(known: ReadonlyMap<string, KnownSegment>): KnownSegment[] {
  return [...known].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, segment]) => ({ ...segment }));
}

/** Start of the step that a time lies in. */
export function bucketOf(ns: bigint, step: number): bigint {
  const lengthNs = BigInt(step) * 1_000_000_000n;
  return lengthNs === 0n ? ns : ns - (((ns % lengthNs) + lengthNs) % lengthNs);
}
