/** Rows of segments, read: of one over time, of all at a time. */
import { earlier, later } from "../base/time.ts";
import type { CollectedSegment } from "../collect/collector.ts";
import type { Dialect, Questions, Value } from "./dialect.ts";
import { bucketOf, distinctNames, type RowSelection, type RowsFrom, tuples } from "./row-selection.ts";
import { type SegmentRow, STEPS, type Step } from "./rows.ts";
import { readSegmentRow, SEGMENT_COLUMNS } from "./tables.ts";

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
  /** Of epochs in which both are known and no capture began or ended; and how long these are together. */
  sent: number | null;
  received: number | null;
  coveredNs: number;
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

/** In order of time; `cutNs`: from there on rows were left out, because there are too many. */
export interface CoveringRows {
  rows: SegmentRow[];
  cutNs: bigint | null;
}

/** Later than all times: the first of some is found by what is left until then. */
const FAR_NS = 9_000_000_000_000_000_000n;
const NAMES = "from_point, to_point, label, estimator";

export class SegmentReader {
  protected readonly questions: Questions;
  #known: Map<string, KnownSegment> | null = null;
  #knownUntilMs = 0;
  /** How long the list of segments counts: others may write too. */
  protected readonly knownMs: number = Number.POSITIVE_INFINITY;

  constructor(questions: Questions) {
    this.questions = questions;
  }

  /** In order of time; `most`: of more, the first. */
  async segmentRows(
    { from, to, label, estimator, fromNs, toNs }: RowSelection,
    step: Step,
    most = Number.MAX_SAFE_INTEGER,
  ): Promise<SegmentRow[]> {
    const { dialect } = this.questions;
    const rows = await this.questions.all(
      `SELECT ${rowColumns(dialect)} ${dialect.from("segments")} AND step_s = $1 AND ${dialect.starting("$2", "$3")} AND from_point = $4 AND to_point = $5 AND label = $6 AND estimator = $7 ORDER BY start_ns LIMIT ${most}`,
      [step, fromNs, toNs, from, to, label, estimator],
    );
    return rows.map(readSegmentRow);
  }

  /** Rows of one step, of several segments and estimators, from the time that those start on; each in order of time. */
  async rowsOf(spans: readonly RowsFrom[], toNs: bigint, step: Step): Promise<SegmentRow[]> {
    const { dialect } = this.questions;
    const [first] = spans;
    if (!first) return [];
    const names = distinctNames(spans);
    const rows = await this.questions.all(
      `SELECT ${rowColumns(dialect)} ${dialect.from("segments")} AND step_s = $1 AND ${dialect.starting("$2", "$3")} AND (${NAMES}) IN (${tuples(names.length, 4)}) ORDER BY start_ns`,
      [step, first.startNs, toNs, ...names.flat()],
    );
    return rows.map(readSegmentRow);
  }

  /** Epochs of segments and estimators, by their four names, that have only one end, in a time. */
  protected async missingRows(
    names: readonly string[][],
    fromNs: bigint,
    toNs: bigint,
  ): Promise<SegmentRow[]> {
    const { dialect } = this.questions;
    const rows = await this.questions.all(
      `SELECT ${rowColumns(dialect)} ${dialect.from("segments")} AND step_s = 0 AND missing > 0 AND ${dialect.touching("$1", "$2")} AND (${NAMES}) IN (${tuples(names.length, 3)})`,
      [fromNs, toNs, ...names.flat()],
    );
    return rows.map(readSegmentRow);
  }

  /** The last so many epochs of a time, in order. */
  async lastRows(selection: RowSelection, most: number): Promise<SegmentRow[]> {
    const { from, to, label, estimator, fromNs, toNs } = selection;
    const { dialect } = this.questions;
    const first = await this.#bound(
      `SELECT count(*), min(start_ns) FROM (SELECT start_ns ${dialect.from("segments")} AND step_s = 0 AND ${dialect.starting("$1", "$2")} AND from_point = $3 AND to_point = $4 AND label = $5 AND estimator = $6 ORDER BY start_ns DESC LIMIT $7) AS newest`,
      [fromNs, toNs, from, to, label, estimator, most],
    );
    return first === null ? [] : await this.segmentRows({ ...selection, fromNs: first }, 0);
  }

  /** Start of the first row from a time on, of those that `step` can be made of; null where there is none. */
  async firstFrom(selection: RowSelection, step: Step): Promise<bigint | null> {
    const { from, to, label, estimator, fromNs, toNs } = selection;
    const { dialect } = this.questions;
    return await this.#bound(
      `SELECT count(*), min(start_ns) ${dialect.from("segments")} AND ${dialect.touching("$1", "$2")} AND from_point = $3 AND to_point = $4 AND label = $5 AND estimator = $6 AND step_s <= $7`,
      [fromNs, toNs, from, to, label, estimator, step],
    );
  }

  /** A lowest or highest time; null where no row is counted. */
  async #bound(sql: string, values: readonly Value[] = []): Promise<bigint | null> {
    const [row] = await this.questions.all(sql, values);
    return row && Number(row[0]) > 0 ? BigInt(row[1] as bigint) : null;
  }

  /** Rows that cover a time in the coarsest steps that `step` allows: what is not rolled up yet comes as it is below. No more than `most` are read, and all of them up to `cutNs`. */
  async coveringRows(selection: RowSelection, step: Step, most: number): Promise<CoveringRows> {
    if (step === 0) return cutRows(await this.segmentRows(selection, 0, most + 1), most);
    const below = STEPS[STEPS.indexOf(step) - 1] ?? 0;
    const { from, to, label, estimator, fromNs, toNs } = selection;
    const dirty = await this.questions.all(
      `SELECT start_ns ${this.questions.dialect.from("dirty")} AND step_s = $1 AND start_ns >= $2 AND start_ns < $3 AND from_point = $4 AND to_point = $5 AND label = $6 AND estimator = $7 ORDER BY start_ns`,
      [step, bucketOf(fromNs, step), toNs, from, to, label, estimator],
    );
    const open = new Set(dirty.map(([start]) => BigInt(start as bigint)));
    // One that reaches into the time counts whole.
    const around = { ...selection, fromNs: bucketOf(fromNs, step) };
    const whole = cutRows(await this.segmentRows(around, step, most + 1), most);
    const rows = whole.rows.filter((r) => !open.has(r.startNs));
    let { cutNs } = whole;
    // One question for all that is not rolled up: there may be many minutes of it.
    const [first, last] = [[...open][0], [...open].at(-1)];
    if (first !== undefined && last !== undefined) {
      const span = { ...selection, fromNs: first, toNs: last + BigInt(step) * 1_000_000_000n };
      const finer = await this.coveringRows(span, below, most);
      for (const row of finer.rows) if (open.has(bucketOf(row.startNs, step))) rows.push(row);
      if (finer.cutNs !== null) cutNs = cutNs === null ? finer.cutNs : earlier(cutNs, finer.cutNs);
    }
    rows.sort((a, b) => (a.startNs < b.startNs ? -1 : 1));
    return { rows: rows.filter((r) => cutNs === null || r.startNs < cutNs), cutNs };
  }

  /** Epochs of every segment and estimator in a time, and what became of them. */
  async coverage(fromNs: bigint, toNs: bigint): Promise<SegmentCoverage[]> {
    const { dialect } = this.questions;
    const sums = COVERAGE.map((c) => `sum(${c[0]})`).join(", ");
    const rows = await this.questions.all(
      `SELECT ${NAMES}, ${sums} ${dialect.from("segments")} AND step_s = 0 AND ${dialect.starting("$1", "$2")} GROUP BY ${NAMES} ORDER BY ${NAMES}`,
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
  async newest(and = ""): Promise<bigint | null> {
    return await this.#bound(
      `SELECT count(*), max(end_ns) ${this.questions.dialect.from("segments")} AND step_s = 0 ${and}`,
    );
  }

  /** Read once, and kept up to date by what is written: every question asks for it. */
  async segments(): Promise<KnownSegment[]> {
    if (this.#known === null || performance.now() > this.#knownUntilMs) {
      const { changes } = this;
      const known = new Map<string, KnownSegment>();
      for (const span of await this.spans()) noteSegment(known, span);
      // What was written meanwhile may be missing in it.
      if (changes !== this.changes) return listed(known);
      this.#known = known;
      this.#knownUntilMs = performance.now() + this.knownMs;
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

  /** Each segment and estimator with its first and newest time. */
  protected spans(): Promise<SegmentSpan[]> {
    return this.spansWhere("");
  }

  protected async spansWhere(and: string): Promise<SegmentSpan[]> {
    const rows = await this.questions.all(
      // A minute or an hour that has begun ends in the time to come: the newest is that of the epochs.
      `SELECT ${NAMES}, min(start_ns), max(CASE WHEN step_s = 0 THEN ${FAR_NS} - start_ns ELSE 0 END), max(CASE WHEN step_s = 0 THEN end_ns ELSE 0 END), max(end_ns) ${this.questions.dialect.from("segments")} ${and} GROUP BY ${NAMES}`,
    );
    return rows.map(([from, to, label, estimator, first, firstEpoch, lastEpoch, last]) => ({
      segment: { from: String(from), to: String(to), label: String(label) },
      estimator: String(estimator),
      startNs: firstOf(BigInt(first as bigint), FAR_NS - BigInt(firstEpoch as bigint)),
      endNs: BigInt((Number(lastEpoch) > 0 ? lastEpoch : last) as bigint),
    }));
  }

  /** All segments and estimators in steps of any length, from rows of `step` or finer: sums, the mean weighted by packets, the lowest and highest bound. */
  async steps({ fromNs, toNs, stepNs, step }: StepQuestion): Promise<StepRow[]> {
    const union = await this.#pieces(fromNs, toNs, step);
    // One text for each segment: values that cross one by one take ten times as long.
    const sums = ["sent", "received", "covered", "epochs", "missing", "refused"];
    const fields = ["begins", "mean", "low", "high", ...sums];
    const { dialect } = this.questions;
    const text = dialect.gathered(dialect.listed(fields.map((f) => dialect.text(f))));
    const whole = (sql: string) => `floor(${sql} + 0.5)`;
    // What is missing in an epoch in which a capture began or ended was not captured.
    const counted = (sql: string) =>
      `sum(CASE WHEN sent_of IS NULL OR received_of IS NULL OR (edges > 0 AND step_s = 0) THEN NULL ELSE ${sql} END)`;
    const rows = await this.questions.all(
      `SELECT ${NAMES}, ${text} FROM (
        SELECT ${NAMES}, ${dialect.quotient("start_ns - $1", "$2")} AS begins,
          ${whole("sum(mean_ns * weight) / sum(CASE WHEN mean_ns IS NULL THEN NULL ELSE weight END)")} AS mean,
          ${whole("min(low_ns)")} AS low, ${whole("max(high_ns)")} AS high,
          ${whole(counted("sent_of"))} AS sent, ${whole(counted("received_of"))} AS received, ${whole(counted("end_ns - start_ns"))} AS covered,
          sum(epochs_of) AS epochs, sum(missing_of) AS missing, sum(refused_of) AS refused
        FROM (SELECT ${NAMES}, step_s, start_ns, end_ns, edges, mean_ns, low_ns, high_ns, sent AS sent_of, received AS received_of, epochs AS epochs_of, missing AS missing_of, refused AS refused_of, greatest(coalesce(received, 1), 1) AS weight ${dialect.from("segments")} AND (${union})) AS parts
        GROUP BY ${NAMES}, begins) AS steps GROUP BY ${NAMES}`,
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
    const { dialect } = this.questions;
    const own = `${dialect.from("segments")} AND step_s = 0 AND ${dialect.starting("$1", "$2")}`;
    const rows = await this.questions.all(
      `SELECT ${rowColumns(dialect)} ${own} AND (${NAMES}, start_ns) IN (SELECT ${NAMES}, max(start_ns) ${own} GROUP BY ${NAMES})`,
      [fromNs, toNs],
    );
    return rows.map(readSegmentRow);
  }

  /** Middle and spread of the means of each segment and estimator, by rows of one step; `hourOfWeekNs`: only of the hours next to this one's in each week. */
  async spreads(question: SpreadQuestion): Promise<SpreadRow[]> {
    const { step, fromNs, toNs, share, hourOfWeekNs } = question;
    const { dialect } = this.questions;
    const hour = "3600000000000";
    // Hours from the one asked for, around the week: 0, 1 and 167 are next to it.
    const near =
      hourOfWeekNs === null
        ? "1 = 1"
        : `(${dialect.quotient("start_ns", hour)} - ${hourOfWeekNs / BigInt(hour)}) % 168 IN (0, 1, -1, 167, -167)`;
    const rows = await this.questions.all(
      `SELECT ${NAMES}, count(*), ${dialect.quantile("mean_ns", share)}, ${dialect.medianDistance("mean_ns")} ${dialect.from("segments")}
        AND step_s = $1 AND ${dialect.starting("$2", "$3")} AND mean_ns IS NOT NULL AND ${near} GROUP BY ${NAMES}`,
      [step, fromNs, toNs],
    );
    return rows.map(([from, to, label, estimator, count, value, mad]) => ({
      key: JSON.stringify([from, to, label, estimator]),
      ...{ count: Number(count), valueNs: Number(value), spreadNs: 1.4826 * Number(mad) },
    }));
  }

  /** Which rows cover a time, in steps as coarse as `step` where all is rolled up, finer behind that. */
  async #pieces(fromNs: bigint, toNs: bigint, step: Step): Promise<string> {
    const { dialect } = this.questions;
    const parts: string[] = [];
    let startNs = fromNs;
    for (const coarse of [...STEPS].reverse().filter((s) => s <= step)) {
      const open = `SELECT count(*), min(start_ns) ${dialect.from("dirty")} AND step_s = $1`;
      const openNs = coarse === 0 ? toNs : ((await this.#bound(open, [coarse])) ?? toNs);
      const endNs = coarse === 0 ? toNs : earlier(later(bucketOf(openNs, coarse), startNs), toNs);
      if (endNs > startNs)
        parts.push(`(step_s = ${coarse} AND ${dialect.starting(`${startNs}`, `${endNs}`)})`);
      startNs = endNs;
    }
    return parts.length === 0 ? "1 = 0" : parts.join(" OR ");
  }

  /** Is there anything at all? */
  async isEmpty(): Promise<boolean> {
    const some = `SELECT from_point ${this.questions.dialect.from("segments")} LIMIT 1`;
    return (await this.questions.all(some)).length === 0;
  }
}

function cutRows(rows: SegmentRow[], most: number): CoveringRows {
  return { rows: rows.slice(0, most), cutNs: rows[most]?.startNs ?? null };
}

export type SegmentSpan = Pick<SegmentRow, "segment" | "estimator" | "startNs" | "endNs">;

function rowColumns(dialect: Dialect): string {
  return SEGMENT_COLUMNS.map(([name, , type]) => (type === "bytes" ? dialect.bytes(name) : name)).join(", ");
}

/** A minute or an hour begins before the first epoch in it; one that is longer ago is of epochs that are no longer kept. */
function firstOf(ns: bigint, epochNs: bigint): bigint {
  return ns < bucketOf(epochNs, 3600) ? ns : epochNs;
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
    coveredNs: Number(values[6]),
    epochs: Number(values[7]),
    missing: Number(values[8]),
    refused: Number(values[9]),
  };
}

function noteSegment(
  known: Map<string, KnownSegment>,
  { segment, estimator, startNs, endNs }: SegmentSpan,
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
