/**
 * Rows of flows, read. A time is covered by the coarsest rows that lie in it whole and are rolled up, by finer ones at its ends; and wherever a minute or an hour did not keep a flow (they keep those
 * with the most packets), by what is below: a flow's total is the same however it is put together.
 */
import type { ReadRows, Value } from "./duckdb.ts";
import { type FlowRow, STEPS, type Step } from "./rows.ts";
import { bucketOf, type RowSelection } from "./segment-reader.ts";
import { decodeState } from "./state-bytes.ts";
import { bytesOf } from "./tables.ts";

const OWN = "from_point = $1 AND to_point = $2 AND label = $3 AND estimator = $4";
const COLUMNS = "step_s, start_ns, end_ns, flow, bytes, state";

export class FlowReader {
  readonly #all: ReadRows;

  constructor(all: ReadRows) {
    this.#all = all;
  }

  /** Rows of these flows in a time, in order of it; each part of the time once. `step`: the coarsest that may be read. */
  async rows(selection: RowSelection, flows: readonly string[], step: Step): Promise<FlowRow[]> {
    if (flows.length === 0) return [];
    const names = flows.map((_, i) => `$${7 + i}`).join(", ");
    const parts = [`SELECT ${COLUMNS} FROM whole`];
    const covered = coarser(step).map(
      (s) =>
        `NOT EXISTS (SELECT 1 FROM whole w WHERE w.flow = f.flow AND w.step_s = ${s} AND w.step_s > f.step_s AND w.start_ns = f.start_ns - f.start_ns % ${lengthNs(s)})`,
    );
    parts.push(
      `SELECT ${COLUMNS} FROM flows f WHERE ${OWN} AND step_s = 0 AND start_ns >= $5 AND start_ns < $6 AND flow IN (${names})${covered.map((c) => ` AND ${c}`).join("")}`,
    );
    const whole = coarser(step).map(
      (s) =>
        `SELECT ${COLUMNS} FROM flows f WHERE ${OWN} AND step_s = ${s} AND start_ns >= $5 AND start_ns + ${lengthNs(s)} <= $6 AND flow IN (${names}) AND ${notOpen(s)}`,
    );
    const sql =
      whole.length === 0
        ? `${parts[1]} ORDER BY start_ns`
        : // An hour stands for its minutes.
          `WITH every AS MATERIALIZED (${whole.join(" UNION ALL ")}),
            whole AS MATERIALIZED (SELECT * FROM every f WHERE step_s = 3600 OR NOT EXISTS (SELECT 1 FROM every w WHERE w.flow = f.flow AND w.step_s = 3600 AND w.start_ns = f.start_ns - f.start_ns % ${lengthNs(3600)}))
          ${parts.join(" UNION ALL ")} ORDER BY start_ns`;
    const rows = await this.#all(sql, [...valuesOf(selection), ...flows]);
    return rows.map((row) => flowRow(selection, row));
  }

  /** All flows of a time in rows of one step; where the time begins within one, it counts whole. */
  async allRows(selection: RowSelection, step: Step, most = Number.MAX_SAFE_INTEGER): Promise<FlowRow[]> {
    const rows = await this.#all(
      `SELECT ${COLUMNS} FROM flows WHERE ${OWN} AND step_s = ${step} AND start_ns >= $5 AND start_ns < $6 ORDER BY start_ns LIMIT ${most}`,
      valuesOf({ ...selection, fromNs: bucketOf(selection.fromNs, step) }),
    );
    return rows.map((row) => flowRow(selection, row));
  }

  /** Flows by packets in a time: names only. */
  async top(selection: RowSelection, step: Step, most: number): Promise<string[]> {
    const levels = coarser(step);
    const wholes = levels.map(
      (s) =>
        `SELECT DISTINCT ${s} AS step_s, start_ns FROM segments f WHERE ${OWN} AND step_s = ${s} AND start_ns >= $5 AND start_ns + ${lengthNs(s)} <= $6 AND ${notOpen(s)}`,
    );
    const parts = [0, ...levels].map((s) => {
      const above = levels.filter((l) => l > s);
      const covered = above.map(
        (l) =>
          ` AND start_ns - start_ns % ${lengthNs(l)} NOT IN (SELECT start_ns FROM whole WHERE step_s = ${l})`,
      );
      const rolled = s === 0 ? "" : ` AND start_ns IN (SELECT start_ns FROM whole WHERE step_s = ${s})`;
      return `SELECT flow, packets FROM flows WHERE ${OWN} AND step_s = ${s} AND start_ns >= $5 AND start_ns < $6${rolled}${covered.join("")}`;
    });
    const rows = await this.#all(
      `${wholes.length === 0 ? "" : `WITH whole AS MATERIALIZED (${wholes.join(" UNION ALL ")}) `}
        SELECT flow FROM (${parts.join(" UNION ALL ")}) GROUP BY flow ORDER BY sum(packets) DESC, flow LIMIT ${most}`,
      valuesOf(selection),
    );
    return rows.map(([flow]) => String(flow));
  }
}

function valuesOf({ from, to, label, estimator, fromNs, toNs }: RowSelection): Value[] {
  return [from, to, label, estimator, fromNs, toNs];
}

/** Steps up to this one, but for the epochs themselves. */
function coarser(step: Step): Step[] {
  return STEPS.filter((s) => s > 0 && s <= step);
}

function lengthNs(step: Step): bigint {
  return BigInt(step) * 1_000_000_000n;
}

/** Not to be rolled up again. */
function notOpen(step: Step): string {
  return `NOT EXISTS (SELECT 1 FROM dirty d WHERE d.from_point = $1 AND d.to_point = $2 AND d.label = $3 AND d.estimator = $4 AND d.step_s = ${step} AND d.start_ns = f.start_ns)`;
}

function flowRow({ from, to, label, estimator }: RowSelection, values: Value[]): FlowRow {
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
