/** Reads rows of segments: of one over time, or of all at a time. */
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
  /** The coarsest rows allowed. */
  step: Step;
}

export interface StepRow {
  from: string;
  to: string;
  label: string;
  estimator: string;
  /** Index of the step, from 0. */
  at: number;
  meanNs: number | null;
  lowNs: number | null;
  highNs: number | null;
  /** Sums over epochs in which both are known and no capture began or ended; and the total length of these epochs. */
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
  /** The quantile that serves as the middle. */
  share: number;
  hourOfWeekNs: bigint | null;
}

export interface SpreadRow {
  /** Segment and estimator (`normalKey` in normals.ts). */
  key: string;
  count: number;
  valueNs: number;
  spreadNs: number;
}

/** Rows in order of time. `cutNs`: rows from here on are left out because there are too many. */
export interface CoveringRows {
  rows: SegmentRow[];
  cutNs: bigint | null;
}

/** Later than any time: the earliest time is found as the largest remainder up to this. */
const FAR_NS = 9_000_000_000_000_000_000n;
const NAMES = "from_point, to_point, label, estimator";

export class SegmentReader {
  protected readonly questions: Questions;
  #known: Map<string, KnownSegment> | null = null;
  #knownUntilMs = 0;
  /** How long the list of segments stays valid; finite if others write too. */
  protected readonly knownMs: number = Number.POSITIVE_INFINITY;

  constructor(questions: Questions) {
    this.questions = questions;
  }

  /** Returns rows in order of time, at most the first `most`. */
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

  /** Returns rows of one step for several segments and estimators, from the first span's start on, in order of time. */
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

  /** Returns the epochs of these segments and estimators that lack an endpoint, in a time range. */
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

  /** Returns the last `most` epochs of a time range, in order. */
  async lastRows(selection: RowSelection, most: number): Promise<SegmentRow[]> {
    const { from, to, label, estimator, fromNs, toNs } = selection;
    const { dialect } = this.questions;
    const first = await this.#bound(
      `SELECT count(*), min(start_ns) FROM (SELECT start_ns ${dialect.from("segments")} AND step_s = 0 AND ${dialect.starting("$1", "$2")} AND from_point = $3 AND to_point = $4 AND label = $5 AND estimator = $6 ORDER BY start_ns DESC LIMIT $7) AS newest`,
      [fromNs, toNs, from, to, label, estimator, most],
    );
    return first === null ? [] : await this.segmentRows({ ...selection, fromNs: first }, 0);
  }

  /** Returns the start of the first row from which rows of `step` can be made, in a time range; null if there is none. */
  async firstFrom(selection: RowSelection, step: Step): Promise<bigint | null> {
    const { from, to, label, estimator, fromNs, toNs } = selection;
    const { dialect } = this.questions;
    return await this.#bound(
      `SELECT count(*), min(start_ns) ${dialect.from("segments")} AND ${dialect.touching("$1", "$2")} AND from_point = $3 AND to_point = $4 AND label = $5 AND estimator = $6 AND step_s <= $7`,
      [fromNs, toNs, from, to, label, estimator, step],
    );
  }

  /** Returns a minimum or maximum time; null if no row matches. */
  async #bound(sql: string, values: readonly Value[] = []): Promise<bigint | null> {
    const [row] = await this.questions.all(sql, values);
    return row && Number(row[0]) > 0 ? BigInt(row[1] as bigint) : null;
  }

  /**
   * Returns rows that cover a time range, as coarse as `step` allows; spans not rolled up yet come as finer rows. Reads at most `most` rows and
   * returns all of them before `cutNs`.
   */
  async coveringRows(selection: RowSelection, step: Step, most: number): Promise<CoveringRows> {
    if (step === 0) return cutRows(await this.segmentRows(selection, 0, most + 1), most);
    const below = STEPS[STEPS.indexOf(step) - 1] ?? 0;
    const { from, to, label, estimator, fromNs, toNs } = selection;
    const dirty = await this.questions.all(
      `SELECT start_ns ${this.questions.dialect.from("dirty")} AND step_s = $1 AND start_ns >= $2 AND start_ns < $3 AND from_point = $4 AND to_point = $5 AND label = $6 AND estimator = $7 ORDER BY start_ns`,
      [step, bucketOf(fromNs, step), toNs, from, to, label, estimator],
    );
    const open = new Set(dirty.map(([start]) => BigInt(start as bigint)));
    // A row that reaches into the range counts whole.
    const around = { ...selection, fromNs: bucketOf(fromNs, step) };
    const whole = cutRows(await this.segmentRows(around, step, most + 1), most);
    const rows = whole.rows.filter((r) => !open.has(r.startNs));
    let { cutNs } = whole;
    // One query for everything not rolled up: it may be many minutes.
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

  /** Counts the epochs of every segment and estimator in a time range, by outcome. */
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

  /** Returns the end of the newest epoch; null if there is none. */
  async newest(and = ""): Promise<bigint | null> {
    return await this.#bound(
      `SELECT count(*), max(end_ns) ${this.questions.dialect.from("segments")} AND step_s = 0 ${and}`,
    );
  }

  /** Lists the segments. Every question needs the list, so it is read once and updated by the writes. */
  async segments(): Promise<KnownSegment[]> {
    if (this.#known === null || performance.now() > this.#knownUntilMs) {
      const { changes } = this;
      const known = new Map<string, KnownSegment>();
      for (const span of await this.spans()) noteSegment(known, span);
      // Rows written meanwhile may be missing in it, so it is not kept.
      if (changes !== this.changes) return listed(known);
      this.#known = known;
      this.#knownUntilMs = performance.now() + this.knownMs;
    }
    return listed(this.#known);
  }

  protected changes = 0;

  /** Called with the rows that were written. */
  protected noteSegments(rows: readonly SegmentRow[]): void {
    this.changes++;
    if (this.#known) for (const row of rows) noteSegment(this.#known, row);
  }

  /** Called after rows were removed. */
  protected forgetSegments(): void {
    this.changes++;
    this.#known = null;
  }

  /** Returns each segment and estimator with its first and last time. */
  protected spans(): Promise<SegmentSpan[]> {
    return this.spansWhere("");
  }

  protected async spansWhere(and: string): Promise<SegmentSpan[]> {
    const rows = await this.questions.all(
      // A current minute or hour ends in the future, so the last time is taken from epochs.
      `SELECT ${NAMES}, min(start_ns), max(CASE WHEN step_s = 0 THEN ${FAR_NS} - start_ns ELSE 0 END), max(CASE WHEN step_s = 0 THEN end_ns ELSE 0 END), max(end_ns) ${this.questions.dialect.from("segments")} ${and} GROUP BY ${NAMES}`,
    );
    return rows.map(([from, to, label, estimator, first, firstEpoch, lastEpoch, last]) => ({
      segment: { from: String(from), to: String(to), label: String(label) },
      estimator: String(estimator),
      startNs: firstOf(BigInt(first as bigint), FAR_NS - BigInt(firstEpoch as bigint)),
      endNs: BigInt((Number(lastEpoch) > 0 ? lastEpoch : last) as bigint),
    }));
  }

  /**
   * Returns all segments and estimators in steps of any length, from rows of `step` or finer: sums, the mean weighted by packets, lowest and
   * highest bound.
   */
  async steps({ fromNs, toNs, stepNs, step }: StepQuestion): Promise<StepRow[]> {
    const union = await this.#pieces(fromNs, toNs, step);
    // One text per segment: passing the values one by one takes ten times as long.
    const sums = ["sent", "received", "covered", "epochs", "missing", "refused"];
    const fields = ["begins", "mean", "low", "high", ...sums];
    const { dialect } = this.questions;
    const text = dialect.gathered(dialect.listed(fields.map((f) => dialect.text(f))));
    const whole = (sql: string) => `floor(${sql} + 0.5)`;
    // Epochs in which a capture began or ended are left out: missing packets there may not have been captured.
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

  /** Returns the newest epoch of each segment and estimator in a time range. */
  async newestRows(fromNs: bigint, toNs: bigint): Promise<SegmentRow[]> {
    const { dialect } = this.questions;
    const own = `${dialect.from("segments")} AND step_s = 0 AND ${dialect.starting("$1", "$2")}`;
    const rows = await this.questions.all(
      `SELECT ${rowColumns(dialect)} ${own} AND (${NAMES}, start_ns) IN (SELECT ${NAMES}, max(start_ns) ${own} GROUP BY ${NAMES})`,
      [fromNs, toNs],
    );
    return rows.map(readSegmentRow);
  }

  /**
   * Returns middle and spread of the means of each segment and estimator, from rows of one step. `hourOfWeekNs`: only that hour of each week and
   * its neighbours.
   */
  async spreads(question: SpreadQuestion): Promise<SpreadRow[]> {
    const { step, fromNs, toNs, share, hourOfWeekNs } = question;
    const { dialect } = this.questions;
    const hour = "3600000000000";
    // Distance in hours around the week: 0, 1 and 167 are that hour and its neighbours.
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

  /** SQL condition for the rows that cover a time range: rows of `step` while everything is rolled up, finer rows after that. */
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

  /** Whether there are no rows at all. */
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

/**
 * The first time of a segment. A minute or hour begins before its first epoch; if it is much older, its epochs are no longer stored, and it counts
 * itself.
 */
function firstOf(ns: bigint, epochNs: bigint): bigint {
  return ns < bucketOf(epochNs, 3600) ? ns : epochNs;
}

/** Written without spreads for speed: an overview makes sixty thousand of these. */
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

/** Returns copies, sorted by name, because the stored ones change. */
function listed(known: ReadonlyMap<string, KnownSegment>): KnownSegment[] {
  return [...known].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, segment]) => ({ ...segment }));
}
