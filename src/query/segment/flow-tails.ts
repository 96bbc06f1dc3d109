/** Quantiles of flows or groups for estimators that keep none: asks the receiver's packet records (maple) about the same flows. */
import { UsageError } from "../../base/errors.ts";
import { countOf } from "../../base/quantity.ts";
import type { PacketAnswer } from "../packet/answer.ts";
import type { PacketQuestion } from "../packet/question.ts";
import type { Answer, GroupAnswer } from "./answer.ts";
import type { Question } from "./question.ts";

const SHARE = 0.99;
/** Flows to ask for if the largest are wanted: both lists are ordered by packets, but counted by different records. */
const CANDIDATES = 500;

export const p99Of = ({ quantiles }: GroupAnswer): number | null =>
  quantiles?.find((q) => q.share === SHARE)?.valueNs ?? null;

/** Returns the question about packets that yields the quantiles; null if the answer has them already, or has no groups. */
export function tailQuestion(answer: Answer, question: Question): PacketQuestion | null {
  if (answer.groups.length === 0 || answer.groups.some((g) => p99Of(g) !== null)) return null;
  const { between, segment, fromNs, toNs, group, top, flows } = question;
  return {
    packets: flows === undefined ? { by: "listed" } : { by: "flow", flows, ipids: null },
    ...{ point: between[1], segment, fromNs, toNs, worst: 0 },
    group: group ?? "flow",
    top: top === undefined ? undefined : Math.max(CANDIDATES, 2 * top),
  };
}

export function withTails(answer: Answer, packets: PacketAnswer): Answer {
  const tails = new Map(packets.groups.map((g) => [g.text, g.latency]));
  const groups = answer.groups.map((group) => {
    const found = tails.get(group.text);
    if (!found) return group;
    const quantiles = [
      { share: 0.5, valueNs: found.p50Ns },
      { share: 0.9, valueNs: found.p90Ns },
      { share: SHARE, valueNs: found.p99Ns },
    ];
    return { ...group, quantiles };
  });
  const note = `p50, p90 and p99 of flows: from records of packets (maple), ${countOf(packets.matched, "packet")} found`;
  return { ...answer, groups, notes: [...answer.notes, note] };
}

/** Explains why flows cannot be sorted by p99. */
export function noTails(cause: unknown): UsageError {
  return new UsageError(
    "not-supported",
    `the records have no p99 of flows: ${cause instanceof Error ? cause.message : String(cause)}`,
    "observe with ‘rli quantiles=true’ or ‘maple identity=both,index=true’",
    { parameter: "sort", value: "p99", cause },
  );
}
