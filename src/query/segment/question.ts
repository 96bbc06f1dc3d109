/** What can be asked of two points' records, and what is wrong with a question. */
import { checkBigNs, checkCount } from "../../base/checks.ts";
import { invalidValue } from "../../base/errors.ts";
import { formatTime } from "../../base/time.ts";
import { DEFAULT_CONFIDENCE } from "../../collect/collector.ts";

export interface Question {
  /** Sender and receiver of the segment. */
  between: readonly [string, string];
  /** Label of the records to use, where a point has several. */
  segment?: string | undefined;
  /** Names of estimators; all that have records where none is named. */
  estimators?: readonly string[] | undefined;
  /** Flows, as `tcp 10.0.0.1:443 > 10.0.0.9:51000`. */
  flows?: readonly string[] | undefined;
  /** So many groups, those with the most packets. */
  top?: number | undefined;
  /** A key that flows are put together by: host, prefix/N, src, dst/N, proto … */
  group?: string | undefined;
  fromNs?: bigint | undefined;
  toNs?: bigint | undefined;
  confidence?: number | undefined;
  /** Parameters of the answer, by estimator: `decoder=bp`. */
  parameters?: Readonly<Record<string, string>> | undefined;
}

export function checkQuestion(question: Question): void {
  const code = "bad-question" as const;
  const between = question?.between;
  // A library's caller may have no compiler that asks for both.
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

/** Is it about flows at all? */
export function asksForFlows({ flows, top, group }: Question): boolean {
  return flows !== undefined || top !== undefined || group !== undefined;
}

/** The question as it stands in its answer. */
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
