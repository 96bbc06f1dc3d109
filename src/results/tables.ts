/** The tables of the results: their columns, and the rows' values in column order. */
import type { CutMode } from "../epoch/record.ts";
import type { ColumnType, Value } from "./dialect.ts";
import type { FlowRow, SegmentRow, Step } from "./rows.ts";
import { decodeState, encodeState } from "./state-bytes.ts";

export const SEGMENT_COLUMNS: readonly (readonly [string, string, ColumnType])[] = [
  ["from_point", "VARCHAR", "text"],
  ["to_point", "VARCHAR", "text"],
  ["label", "VARCHAR", "text"],
  ["estimator", "VARCHAR", "text"],
  ["step_s", "INTEGER", "integer"],
  ["start_ns", "BIGINT", "bigint"],
  ["end_ns", "BIGINT", "bigint"],
  ["mode", "VARCHAR", "text"],
  ["epochs", "INTEGER", "integer"],
  ["missing", "INTEGER", "integer"],
  ["refused", "INTEGER", "integer"],
  ["edges", "INTEGER", "integer"],
  ["merged", "INTEGER", "integer"],
  ["sent", "DOUBLE", "double"],
  ["received", "DOUBLE", "double"],
  ["lost", "DOUBLE", "double"],
  ["dropped", "DOUBLE", "double"],
  ["bytes", "DOUBLE", "double"],
  ["cut_shift", "DOUBLE", "double"],
  ["reason", "VARCHAR", "text"],
  ["mean_ns", "DOUBLE", "double"],
  ["low_ns", "DOUBLE", "double"],
  ["high_ns", "DOUBLE", "double"],
  ["stdev_ns", "DOUBLE", "double"],
  ["state", "BLOB", "bytes"],
  // New columns go last: they are added to existing tables.
  ["missing_from", "INTEGER", "integer"],
  ["missing_to", "INTEGER", "integer"],
  ["clock_ns", "DOUBLE", "double"],
];
export const ADDED = ["missing_from", "missing_to", "clock_ns"];
export const FLOW_COLUMNS: typeof SEGMENT_COLUMNS = [
  ...SEGMENT_COLUMNS.slice(0, 7),
  ["flow", "VARCHAR", "text"],
  ["packets", "DOUBLE", "double"],
  ["lost", "DOUBLE", "double"],
  ["bytes", "DOUBLE", "double"],
  ["mean_ns", "DOUBLE", "double"],
  ["low_ns", "DOUBLE", "double"],
  ["high_ns", "DOUBLE", "double"],
  ["state", "BLOB", "bytes"],
];
export const KEY = ["from_point", "to_point", "label", "estimator", "step_s", "start_ns"];
/** Row order of exported files: the same for every store. */
export const EXPORT_ORDER = {
  segments: "start_ns, step_s, from_point, to_point, label, estimator",
  flows: "start_ns, step_s, from_point, to_point, label, estimator, flow",
};
/** Mean, interval and standard deviation for human readers of the table; null if unknown. */
function readable(state: SegmentRow["state"]): Value[] {
  if (state.weight === 0) return [null, null, null, null];
  const low = Math.hypot(state.errorLow, state.repeatingLow) + state.commonLow;
  const high = Math.hypot(state.errorHigh, state.repeatingHigh) + state.commonHigh;
  const stdev =
    state.whyStdev === null && state.spreadWeight > 0 ? Math.sqrt(state.spreadM2 / state.spreadWeight) : null;
  return [state.meanNs, state.meanNs - low / state.weight, state.meanNs + high / state.weight, stdev];
}

/** Possible error of both points' clocks, as part of the mean's interval; null if unknown. */
export function clockNs({ weight, commonLow, commonHigh }: SegmentRow["state"]): number | null {
  return weight > 0 && commonLow + commonHigh > 0 ? Math.max(commonLow, commonHigh) / weight : null;
}

const blob = (bytes: Uint8Array) => bytes as unknown as Value;

export function segmentValues(row: SegmentRow): Value[] {
  const { segment, estimator, step, startNs, endNs, mode, epochs, missing, refused, edges, merged } = row;
  const { sent, received, lost, dropped, bytes, cutShift, reason, state } = row;
  return [
    ...[segment.from, segment.to, segment.label, estimator, step, startNs, endNs, mode],
    ...[epochs, missing, refused, edges, merged, sent, received, lost, dropped, bytes, cutShift, reason],
    ...readable(state),
    blob(encodeState(state)),
    ...[row.missingFrom, row.missingTo, clockNs(state)],
  ];
}

export function flowValues({
  segment,
  estimator,
  step,
  startNs,
  endNs,
  flow,
  bytes,
  state,
}: FlowRow): Value[] {
  return [
    ...[segment.from, segment.to, segment.label, estimator, step, startNs, endNs, flow],
    ...[state.packets, state.lost === null ? null : Math.max(0, state.lost), bytes],
    ...readable(state).slice(0, 3),
    blob(encodeState(state)),
  ];
}

export function readSegmentRow(values: Value[]): SegmentRow {
  const text = (i: number) => String(values[i]);
  const number = (i: number) => Number(values[i]);
  const orNull = (i: number) => (values[i] === null ? null : Number(values[i]));
  return {
    segment: { from: text(0), to: text(1), label: text(2) },
    estimator: text(3),
    step: number(4) as Step,
    startNs: BigInt(values[5] as bigint),
    endNs: BigInt(values[6] as bigint),
    mode: text(7) as CutMode,
    ...{ epochs: number(8), missing: number(9), refused: number(10), edges: number(11), merged: number(12) },
    ...{
      sent: orNull(13),
      received: orNull(14),
      lost: orNull(15),
      dropped: orNull(16),
      bytes: number(17),
      cutShift: orNull(18),
    },
    reason: values[19] === null ? null : text(19),
    state: decodeState(bytesOf(values[24] ?? null)),
    missingFrom: number(25),
    missingTo: number(26),
  };
}

/** Converts a bytes value as the database returns it: an object in DuckDB, hex text in ClickHouse. */
export function bytesOf(value: Value): Uint8Array {
  if (typeof value === "string") return Buffer.from(value, "hex");
  return (value as { bytes: Uint8Array }).bytes;
}
