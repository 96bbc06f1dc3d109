/** Encodes result rows for ClickHouse. */
import type { Value } from "../dialect.ts";
import type { FlowRow, SegmentRow } from "../rows.ts";
import { FLOW_COLUMNS, flowValues, SEGMENT_COLUMNS, segmentValues } from "../tables.ts";
import { RowBinary } from "./row-binary.ts";

const HOUR_NS = 3_600_000_000_000n;
/**
 * Rank of an epoch's row. A row lacking an endpoint yields to the mark that the endpoint arrived, and that to the row with both; within a rank, the
 * greater fence counts. Of minutes and hours, the row written last counts.
 */
const MISSING = 1n;
const CAME = 2n;
const WHOLE = 3n;
const KIND_SHIFT = 56n;

export interface WriteSettings {
  /** Rows to remove. */
  dropped: readonly SegmentRow[];
  fenceOf: (segment: SegmentRow["segment"]) => number;
  /** Most rows per statement. */
  most: number;
}

export const segmentColumns = (): string[] => [
  ...SEGMENT_COLUMNS.map((c) => c[0]),
  "hour",
  "version",
  "gone",
];
export const flowColumns = (): string[] => [...FLOW_COLUMNS.map((c) => c[0]), "hour", "version"];

export function* writeSegments(
  rows: readonly SegmentRow[],
  { dropped, fenceOf, most }: WriteSettings,
): Generator<Uint8Array> {
  const all = [...rows.map((row) => ({ row, gone: 0 })), ...dropped.map((row) => ({ row, gone: 1 }))];
  for (let at = 0; at < all.length; at += most) {
    const out = new RowBinary();
    for (const { row, gone } of all.slice(at, at + most)) {
      for (const [i, value] of segmentValues(row).entries()) writeValue(out, i, value);
      out.int32(Number(row.startNs / HOUR_NS));
      out
        .uint64(((gone === 1 ? CAME : kindOf(row)) << KIND_SHIFT) | BigInt(fenceOf(row.segment)))
        .uint8(gone);
    }
    yield out.bytes;
  }
}

function kindOf({ step, missing }: SegmentRow): bigint {
  return step === 0 && missing > 0 ? MISSING : WHOLE;
}

function writeValue(out: RowBinary, i: number, value: Value): void {
  const [name, , type] = SEGMENT_COLUMNS[i] ?? ["", "", "text"];
  if (name === "reason") out.textOrNull(value as string | null);
  else if (type === "text") out.text(value as string);
  else if (type === "integer") out.int32(value as number);
  else if (type === "bigint") out.int64(value as bigint);
  else if (type === "double") out.doubleOrNull(value as number | null);
  else out.blob(value as Uint8Array);
}

/** Encodes flows; the flows of one epoch are one row of arrays. */
export function* writeFlows(
  flows: readonly FlowRow[],
  { fenceOf, most }: WriteSettings,
): Generator<Uint8Array> {
  const sets = new Map<string, FlowRow[]>();
  for (const row of flows) {
    const { segment, estimator, step, startNs } = row;
    const name = JSON.stringify([segment.from, segment.to, segment.label, estimator, step, `${startNs}`]);
    const known = sets.get(name);
    if (known) known.push(row);
    else sets.set(name, [row]);
  }
  let out = new RowBinary();
  let count = 0;
  for (const rows of sets.values()) {
    writeSet(out, rows, fenceOf);
    count += rows.length;
    if (count < most) continue;
    yield out.bytes;
    out = new RowBinary();
    count = 0;
  }
  if (out.bytes.length > 0) yield out.bytes;
}

function writeSet(out: RowBinary, rows: readonly FlowRow[], fenceOf: WriteSettings["fenceOf"]): void {
  const values = rows.map(flowValues);
  const [first] = rows;
  if (!first) return;
  const { segment, estimator, step, startNs, endNs } = first;
  out.text(segment.from).text(segment.to).text(segment.label).text(estimator);
  out.int32(step).int64(startNs).int64(endNs);
  for (const [i, [, , type]] of FLOW_COLUMNS.entries()) {
    if (i < 7) continue;
    out.count(values.length);
    for (const row of values) {
      const value = row[i] ?? null;
      if (type === "text") out.text(value as string);
      else if (type === "double") out.doubleOrNull(value as number | null);
      else out.blob(value as Uint8Array);
    }
  }
  out.int32(Number(startNs / HOUR_NS)).uint64(BigInt(fenceOf(segment)));
}
