/** Questions about the records of two points, and their validation. */
import { checkBigNs, checkCount } from "../../base/checks.ts";
import { invalidValue } from "../../base/errors.ts";
import { formatTime } from "../../base/time.ts";
import { DEFAULT_CONFIDENCE } from "../../collect/collector.ts";

export interface Question {
  /** Sender and receiver of the segment. */
  between: readonly [string, string];
  /** Label of the records, if a point has several. */
  segment?: string | undefined;
  /** Estimator names; default: all that have records. */
  estimators?: readonly string[] | undefined;
  /** Flows, as `tcp 10.0.0.1:443 > 10.0.0.9:51000`. */
  flows?: readonly string[] | undefined;
  /** Number of groups, largest first. */
  top?: number | undefined;
  /** Key to group flows by: host, prefix/N, src, dst/N, proto … */
  group?: string | undefined;
  fromNs?: bigint | undefined;
  toNs?: bigint | undefined;
  confidence?: number | undefined;
  /** Query parameters by estimator: `decoder=bp`. */
  parameters?: Readonly<Record<string, string>> | undefined;
}

export function checkQuestion(question: Question): void {
  const code = "bad-question" as const;
  const between = question?.between;
  // Callers in plain JavaScript may pass anything.
  if (!Array.isArray(between) || between.length !== 2 || !between.every((p) => typeof p === "string"))
    throw invalidValue("between", between, "two points: sender and receiver", { code });
  const [a, b] = between;
  if (a === b) throw invalidValue("between", `${a} ${b}`, "two different points", { code });
  const { fromNs, toNs, confidence, top } = question;
  checkBigNs("from", fromNs, code);
  checkBigNs("to", toNs, code);
  if (fromNs !== undefined && toNs !== undefined && fromNs >= toNs) {
    throw invalidValue("from", formatTime(fromNs), `a time before ‘to ${formatTime(toNs)}’`, { code });
  }
  if (confidence !== undefined && !(confidence > 0 && confidence < 1)) {
    throw invalidValue("confidence", confidence, "a share between 0 and 1, e.g. 0.95", { code });
  }
  checkCount("top", top, 1, code);
}

/** Whether the question is about flows. */
export function asksForFlows({ flows, top, group }: Question): boolean {
  return flows !== undefined || top !== undefined || group !== undefined;
}

/** The question as included in its answer. */
export function describeQuestion(question: Question): Record<string, unknown> {
  return {
    between: question.between,
    segment: question.segment ?? null,
    estimators: question.estimators ?? null,
    flows: question.flows ?? null,
    top: question.top ?? null,
    group: question.group ?? null,
    fromNs: question.fromNs?.toString() ?? null,
    toNs: question.toNs?.toString() ?? null,
    confidence: question.confidence ?? DEFAULT_CONFIDENCE,
    parameters: question.parameters ?? {},
  };
}
