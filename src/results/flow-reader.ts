/**
 * Reads rows of flows. A time range is covered by the coarsest rolled-up rows that lie inside it, and by finer rows at its ends. Minutes and hours
 * keep only the flows with the most packets; for a flow missing there, finer rows are used. A flow's total is therefore the same whichever rows
 * make it up.
 */
import { UsageError } from "../base/errors.ts";
import { earlier, later } from "../base/time.ts";
import type { Dialect, Questions, Value } from "./dialect.ts";
import { bucketOf, distinctNames, type RowSelection, type RowsFrom, tuples } from "./row-selection.ts";
import { type FlowRow, STEPS, type Step } from "./rows.ts";
import { decodeState } from "./state-bytes.ts";
import { bytesOf } from "./tables.ts";

const OWN = "from_point = $1 AND to_point = $2 AND label = $3 AND estimator = $4";
const columns = (dialect: Dialect) => `step_s, start_ns, end_ns, flow, bytes, ${dialect.bytes("state")}`;

export class FlowReader {
  readonly #questions: Questions;

  constructor(questions: Questions) {
    this.#questions = questions;
  }

  /**
   * Returns the rows of these flows in order of time, each part of the time once. `step`: the coarsest rows allowed. Throws UsageError if there are
   * too many.
   */
  async rows(selection: RowSelection, flows: readonly string[], step: Step): Promise<FlowRow[]> {
    const { rows, cutNs } = await this.rowsUpTo(selection, flows, step, MAX_ROWS);
    if (cutNs === null) return rows;
    throw new UsageError(
      "bad-question",
      "too many rows of flows in this time",
      "ask for less time, or fewer flows",
    );
  }

  /** Like `rows`, but reads at most about `most`: all rows before `cutNs`. */
  async rowsUpTo(
    selection: RowSelection,
    flows: readonly string[],
    step: Step,
    most: number,
  ): Promise<{ rows: FlowRow[]; cutNs: bigint | null }> {
    if (flows.length === 0) return { rows: [], cutNs: null };
    const whole = step === 0 ? [] : await this.#wholeRows(selection, flows, step, most + 1);
    const coarse = new CoarseRows(whole);
    // Reads epochs only where coarser rows leave gaps: most rows are epochs, and reading them is the main cost.
    const fine = await this.#epochRows(selection, flows, coarse.gaps(selection, flows), most + 1);
    const cuts = [whole[most], fine[most]].flatMap((row) => (row ? [row.startNs] : []));
    const cutNs = cuts.length === 0 ? null : cuts.reduce(earlier);
    const all = [...coarse.rows, ...fine.filter((row) => !coarse.covers(row.flow, row.startNs))];
    const rows = cutNs === null ? all : all.filter((row) => row.startNs < cutNs);
    rows.sort((a, b) => (a.startNs < b.startNs ? -1 : a.startNs > b.startNs ? 1 : 0));
    return { rows, cutNs };
  }

  async #wholeRows(
    selection: RowSelection,
    flows: readonly string[],
    step: Step,
    most: number,
  ): Promise<FlowRow[]> {
    const { dialect } = this.#questions;
    const names = flows.map((_, i) => `$${7 + i}`).join(", ");
    const parts = coarser(step).map(
      (s) =>
        `SELECT ${columns(dialect)} ${dialect.from("flows")} AND ${OWN} AND step_s = ${s} AND ${dialect.starting("$5", "$6")} AND start_ns + ${lengthNs(s)} <= $6 AND flow IN (${names}) AND ${notOpen(dialect, s)}`,
    );
    const rows = await this.#questions.all(
      `SELECT * FROM (${parts.join(" UNION ALL ")}) AS parts ORDER BY start_ns LIMIT ${most}`,
      [...valuesOf(selection), ...flows],
    );
    return rows.map((row) => flowRow(selection, row));
  }

  async #epochRows(
    selection: RowSelection,
    flows: readonly string[],
    spans: readonly NsSpan[],
    most: number,
  ): Promise<FlowRow[]> {
    if (spans.length === 0) return [];
    const { dialect } = this.#questions;
    const names = flows.map((_, i) => `$${7 + i}`).join(", ");
    const times = spans
      .map(({ fromNs, toNs }) => `(start_ns >= ${fromNs} AND start_ns < ${toNs})`)
      .join(" OR ");
    const rows = await this.#questions.all(
      `SELECT ${columns(dialect)} ${dialect.from("flows")} AND ${OWN} AND step_s = 0 AND ${dialect.starting("$5", "$6")} AND (${times}) AND flow IN (${names}) ORDER BY start_ns LIMIT ${most}`,
      [...valuesOf(selection), ...flows],
    );
    return rows.map((row) => flowRow(selection, row));
  }

  /** Returns all flows of a time range in rows of one step; a row that reaches into the range counts whole. */
  async allRows(selection: RowSelection, step: Step, most = Number.MAX_SAFE_INTEGER): Promise<FlowRow[]> {
    const { dialect } = this.#questions;
    const rows = await this.#questions.all(
      `SELECT ${columns(dialect)} ${dialect.from("flows")} AND ${OWN} AND step_s = ${step} AND ${dialect.starting("$5", "$6")} ORDER BY start_ns, packets DESC, flow LIMIT ${most}`,
      valuesOf({ ...selection, fromNs: bucketOf(selection.fromNs, step) }),
    );
    return rows.map((row) => flowRow(selection, row));
  }

  /** Returns all flows in rows of one step for several segments and estimators, from the first span's start on, in order of time. */
  async rowsOf(spans: readonly RowsFrom[], toNs: bigint, step: Step): Promise<FlowRow[]> {
    const { dialect } = this.#questions;
    const [first] = spans;
    if (!first) return [];
    const columnsOfNames = "from_point, to_point, label, estimator";
    const names = distinctNames(spans);
    const rows = await this.#questions.all(
      `SELECT ${columnsOfNames}, ${columns(dialect)} ${dialect.from("flows")} AND step_s = $1 AND ${dialect.starting("$2", "$3")} AND (${columnsOfNames}) IN (${tuples(names.length, 4)}) ORDER BY start_ns, flow`,
      [step, first.startNs, toNs, ...names.flat()],
    );
    return rows.map(([from, to, label, estimator, ...row]) =>
      flowRow(
        { from: String(from), to: String(to), label: String(label), estimator: String(estimator) },
        row,
      ),
    );
  }

  /** Returns the names of the flows with the most packets in a time range. */
  async top(selection: RowSelection, step: Step, most: number): Promise<string[]> {
    const { dialect } = this.#questions;
    const levels = coarser(step);
    const wholes = levels.map((s): [string, string] => [
      `whole_${s}`,
      `SELECT start_ns ${dialect.from("segments")} AND ${OWN} AND step_s = ${s} AND ${dialect.starting("$5", "$6")} AND start_ns + ${lengthNs(s)} <= $6 AND ${notOpen(dialect, s)}`,
    ]);
    const named = dialect.named(new Map(wholes));
    const wholeOf = (s: Step) => `(SELECT start_ns FROM ${named.of(`whole_${s}`)} AS whole)`;
    const parts = ([0, ...levels] as Step[]).map((s) => {
      const above = levels.filter((l) => l > s);
      const covered = above.map(
        (l) => ` AND ${dialect.bigint(`start_ns - start_ns % ${lengthNs(l)}`)} NOT IN ${wholeOf(l)}`,
      );
      const rolled = s === 0 ? "" : ` AND start_ns IN ${wholeOf(s)}`;
      return `SELECT flow, packets ${dialect.from("flows")} AND ${OWN} AND step_s = ${s} AND ${dialect.starting("$5", "$6")}${rolled}${covered.join("")}`;
    });
    const rows = await this.#questions.all(
      `${named.before}SELECT flow FROM (${parts.join(" UNION ALL ")}) AS parts GROUP BY flow ORDER BY sum(packets) DESC, flow LIMIT ${most}`,
      valuesOf(selection),
    );
    return rows.map(([flow]) => String(flow));
  }
}

function valuesOf({ from, to, label, estimator, fromNs, toNs }: RowSelection): Value[] {
  return [from, to, label, estimator, fromNs, toNs];
}

interface NsSpan {
  fromNs: bigint;
  toNs: bigint;
}

const MINUTE_NS = lengthNs(60);
const HOUR_NS = lengthNs(3600);
const LONG_NS = 72n * HOUR_NS;
/** More gaps than this are read as one range. */
const MAX_GAPS = 32;
/** Most rows one question may read. */
const MAX_ROWS = 100_000;

/** Minute and hour rows of flows that are used as they are. */
class CoarseRows {
  readonly rows: FlowRow[];
  readonly #hours = new Set<string>();
  readonly #minutes = new Set<string>();

  constructor(all: readonly FlowRow[]) {
    for (const { step, flow, startNs } of all)
      (step === 3600 ? this.#hours : this.#minutes).add(`${startNs} ${flow}`);
    // An hour replaces its minutes.
    this.rows = all.filter(
      (r) => r.step === 3600 || !this.#hours.has(`${bucketOf(r.startNs, 3600)} ${r.flow}`),
    );
  }

  covers(flow: string, ns: bigint): boolean {
    return (
      this.#minutes.has(`${bucketOf(ns, 60)} ${flow}`) || this.#hours.has(`${bucketOf(ns, 3600)} ${flow}`)
    );
  }

  /** Returns the time ranges in which a flow is not covered. Only the part of the range that has rows is scanned. */
  gaps({ fromNs, toNs }: RowSelection, flows: readonly string[]): NsSpan[] {
    if (this.rows.length === 0) return [{ fromNs, toNs }];
    const isLong = toNs - fromNs > LONG_NS;
    const gaps: NsSpan[] = [];
    const add = (startNs: bigint, endNs: bigint) => {
      const last = gaps.at(-1);
      if (last && last.toNs === startNs) last.toNs = endNs;
      else gaps.push({ fromNs: startNs, toNs: endNs });
    };
    const firstNs = later(fromNs, bucketOf(this.rows.map((r) => r.startNs).reduce(earlier), 3600));
    const lastNs = earlier(toNs, this.rows.map((r) => r.endNs).reduce(later));
    if (firstNs > fromNs) add(fromNs, firstNs);
    let ns = firstNs;
    while (ns < lastNs) {
      // For long ranges, whole hours: epochs covered by minutes are then read needlessly.
      const byHours = isLong || flows.every((f) => this.#hours.has(`${bucketOf(ns, 3600)} ${f}`));
      const endNs = byHours ? bucketOf(ns, 3600) + HOUR_NS : bucketOf(ns, 60) + MINUTE_NS;
      if (
        !flows.every((f) => this.#hours.has(`${bucketOf(ns, 3600)} ${f}`) || (!isLong && this.covers(f, ns)))
      )
        add(ns, endNs);
      ns = endNs;
    }
    if (ns < toNs) add(ns, toNs);
    const [first] = gaps;
    if (!first || gaps.length <= MAX_GAPS) return gaps;
    return [{ fromNs: first.fromNs, toNs: gaps.at(-1)?.toNs ?? toNs }];
  }
}

/** The steps up to this one, except epochs. */
function coarser(step: Step): Step[] {
  return STEPS.filter((s) => s > 0 && s <= step);
}

function lengthNs(step: Step): bigint {
  return BigInt(step) * 1_000_000_000n;
}

/** SQL condition: the span does not need to be rolled up again. */
function notOpen(dialect: Dialect, step: Step): string {
  return `start_ns NOT IN (SELECT start_ns ${dialect.from("dirty")} AND ${OWN} AND step_s = ${step} AND start_ns >= $5 AND start_ns < $6)`;
}

function flowRow({ from, to, label, estimator }: Omit<RowsFrom, "startNs">, values: Value[]): FlowRow {
  const [step, start, end, flow, bytes = null, state = null] = values;
  return {
    segment: { from, to, label },
    estimator,
    step: Number(step) as Step,
    startNs: BigInt(start as bigint),
    endNs: BigInt(end as bigint),
    flow: String(flow),
    bytes: bytes === null ? null : Number(bytes),
    state: decodeState(bytesOf(state)),
  };
}
