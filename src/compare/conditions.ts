/**
 * Conditions on a comparison, for scripts: `p99>20ms`, `loss>1%`, `lost>=10` about all packets; `flow.p99>20ms` about every flow, `reverse.loss>1%`
 * about the way back. A condition that holds, or whose quantity is not measurable, is a failure.
 */
import { invalidValue } from "../base/errors.ts";
import { formatCount, formatShare } from "../base/quantity.ts";
import { formatDuration, parseDuration } from "../base/time.ts";
import { formatFlowKey } from "../capture/flow/flow-text.ts";
import { MEASURE_NAMES, MEASURES, type MeasureName } from "./columns.ts";
import type { ReportView } from "./report.ts";

const SIGNS = {
  ">": (a: number, b: number) => a > b,
  "<": (a: number, b: number) => a < b,
  ">=": (a: number, b: number) => a >= b,
  "<=": (a: number, b: number) => a <= b,
} as const;
type Sign = keyof typeof SIGNS;

export interface Condition {
  text: string;
  about: "segment" | "reverse" | "flow";
  measure: MeasureName;
  sign: Sign;
  limit: number;
}

const FORM = /^\s*(?:(flow|reverse)\.)?([a-z][a-z0-9.]*)\s*(>=|<=|>|<)\s*(\S+(?:\s*\S+)?)\s*$/i;
const EXPECTED = `MEASURE>VALUE such as p99>20ms, loss>1% or flow.p99>20ms; measures: ${MEASURE_NAMES.join(", ")}`;

export function parseCondition(text: string): Condition {
  const [, about = "segment", name = "", sign = ">", value = ""] = FORM.exec(text) ?? [];
  const measure = MEASURE_NAMES.find((known) => known === name.toLowerCase());
  const limit = measure === undefined ? Number.NaN : limitOf(MEASURES[measure].unit, value);
  if (measure === undefined || Number.isNaN(limit)) throw invalidValue("fail-if", text, EXPECTED);
  return {
    text: text.trim(),
    about: about.toLowerCase() as Condition["about"],
    measure,
    sign: sign as Sign,
    limit,
  };
}

function limitOf(unit: "ns" | "share" | "count", text: string): number {
  if (unit === "ns") {
    try {
      return parseDuration(text, { signed: true });
    } catch {
      return Number.NaN;
    }
  }
  const [, number = "", percent] = /^([0-9.]+(?:e\d+)?)\s*(%?)$/.exec(text) ?? [];
  if (number === "" || (percent === "%" && unit !== "share")) return Number.NaN;
  return Number(number) / (percent === "%" ? 100 : 1);
}

/** One line per condition that holds; about flows, the first few of them. */
export function failures(report: ReportView, conditions: readonly Condition[]): string[] {
  return conditions.flatMap((condition) => {
    if (condition.about === "flow") return failedFlows(report, condition);
    const segment = condition.about === "segment" ? report.segment : report.reverse;
    if (segment === null) return [];
    const found = judge(condition, MEASURES[condition.measure].value(segment));
    return found === null ? [] : [`${condition.text}: ${found}`];
  });
}

const MAX_FLOWS = 5;

function failedFlows(report: ReportView, condition: Condition): string[] {
  const lines: string[] = [];
  let failed = 0;
  for (const flow of eachFlow(report)) {
    const value = MEASURES[condition.measure].value(flow);
    // A flow that was seen at one point only has no delay: its loss says so.
    const found = value === null ? null : judge(condition, value);
    if (found === null) continue;
    if (failed++ < MAX_FLOWS) lines.push(`${condition.text}: ${formatFlowKey(flow.key)}: ${found}`);
  }
  if (failed > MAX_FLOWS) lines.push(`${condition.text}: ${formatCount(failed - MAX_FLOWS)} more flows`);
  return lines;
}

function judge({ measure, sign, limit }: Condition, value: number | null): string | null {
  if (value === null) return `no answer for ${measure}`;
  if (!SIGNS[sign](value, limit)) return null;
  const { unit } = MEASURES[measure];
  const shown =
    unit === "ns" ? formatDuration(value) : unit === "share" ? formatShare(value) : formatCount(value);
  return `${measure} is ${shown}`;
}

function* eachFlow({ flows, reverseFlows }: ReportView) {
  yield* flows;
  yield* reverseFlows;
}
