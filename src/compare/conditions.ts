/**
 * Conditions on a comparison, for scripts: `p99>20ms`, `loss>1%`, `lost>=10` apply to all packets, `flow.p99>20ms` to every flow, `reverse.loss>1%` to the
 * reverse direction. A condition that holds, or whose measure has no value, is a failure.
 */
import { invalidValue } from "../base/errors.ts";
import { formatCount, formatShare } from "../base/quantity.ts";
import { formatDuration } from "../base/time.ts";
import { formatFlowKey } from "../capture/flow/flow-text.ts";
import { MEASURE_NAMES, MEASURES, type MeasuredRow } from "./columns.ts";
import { isLargeShare, type MeasureCondition, readCondition, SIGNS } from "./condition-form.ts";
import type { ReportView } from "./report.ts";

export interface Condition extends MeasureCondition {
  text: string;
}

const EXPECTED = `MEASURE>VALUE such as p99>20ms, loss>1% or flow.p99>20ms; measures: ${MEASURE_NAMES.join(", ")}`;

const A_SHARE = "a share with its unit, such as loss>1%, or of at most 1, such as loss>0.01";

export function parseCondition(text: string): Condition {
  const condition = readCondition(text);
  if (condition === null) throw invalidValue("fail-if", text, isLargeShare(text) ? A_SHARE : EXPECTED);
  return { text: text.trim(), ...condition };
}

/** One line per condition that holds; for flow conditions, one for each of the first few flows. */
export function failures(report: ReportView, conditions: readonly Condition[]): string[] {
  return conditions.flatMap((condition) => {
    if (condition.about === "flow") return failedFlows(report, condition);
    const segment = condition.about === "segment" ? report.segment : report.reverse;
    if (segment === null) return [`${condition.text}: no packet goes from the second capture to the first`];
    const found = judge(condition, answerOf(condition, segment));
    return found === null ? [] : [`${condition.text}: ${found}`];
  });
}

const MAX_FLOWS = 5;

function failedFlows(report: ReportView, condition: Condition): string[] {
  const lines: string[] = [];
  let failed = 0;
  let answered = false;
  if (report.flows.length + report.reverseFlows.length === 0) return [`${condition.text}: there is no flow`];
  for (const flow of eachFlow(report)) {
    const value = answerOf(condition, flow);
    // A flow seen at one point only has no delay: its loss shows that.
    if (value === null) continue;
    answered = true;
    const found = judge(condition, value);
    if (found === null) continue;
    if (failed++ < MAX_FLOWS) lines.push(`${condition.text}: ${formatFlowKey(flow.key)}: ${found}`);
  }
  if (!answered) return [`${condition.text}: no flow has an answer for ${condition.measure}`];
  if (failed > MAX_FLOWS) lines.push(`${condition.text}: ${formatCount(failed - MAX_FLOWS)} more flows`);
  return lines;
}

/** Null if not measurable. A count of 0 lost packets means nothing if no packet could have arrived. */
function answerOf({ measure }: Condition, row: MeasuredRow): number | null {
  return measure === "lost" && MEASURES.loss.value(row) === null ? null : MEASURES[measure].value(row);
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
