/**
 * Conditions on a comparison, for scripts: `p99>20ms`, `loss>1%`, `lost>=10` about all packets; `flow.p99>20ms` about every flow, `reverse.loss>1%`
 * about the way back. A condition that holds, or whose quantity is not measurable, is a failure.
 */
import { invalidValue } from "../base/errors.ts";
import { formatCount, formatShare } from "../base/quantity.ts";
import { formatDuration } from "../base/time.ts";
import { formatFlowKey } from "../capture/flow/flow-text.ts";
import { MEASURE_NAMES, MEASURES } from "./columns.ts";
import { type MeasureCondition, readCondition, SIGNS } from "./condition-form.ts";
import type { ReportView } from "./report.ts";

export interface Condition extends MeasureCondition {
  text: string;
}

const EXPECTED = `MEASURE>VALUE such as p99>20ms, loss>1% or flow.p99>20ms; measures: ${MEASURE_NAMES.join(", ")}`;

export function parseCondition(text: string): Condition {
  const condition = readCondition(text);
  if (condition === null) throw invalidValue("fail-if", text, EXPECTED);
  return { text: text.trim(), ...condition };
}

/** One line per condition that holds; about flows, the first few of them. */
export function failures(report: ReportView, conditions: readonly Condition[]): string[] {
  return conditions.flatMap((condition) => {
    if (condition.about === "flow") return failedFlows(report, condition);
    const segment = condition.about === "segment" ? report.segment : report.reverse;
    if (segment === null) return [`${condition.text}: no packet goes from the second capture to the first`];
    const found = judge(condition, MEASURES[condition.measure].value(segment));
    return found === null ? [] : [`${condition.text}: ${found}`];
  });
}

const MAX_FLOWS = 5;

function failedFlows(report: ReportView, condition: Condition): string[] {
  const lines: string[] = [];
  let failed = 0;
  if (report.flows.length + report.reverseFlows.length === 0) return [`${condition.text}: there is no flow`];
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
