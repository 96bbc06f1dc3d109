/** Composes an answer about packets from its parts, which may come from another host: groups, facts about the records, and notes. */
import { countOf, formatCount, significant } from "../../base/quantity.ts";
import { formatDuration } from "../../base/time.ts";
import { VERSION } from "../../base/version.ts";
import type { PacketAnswers } from "../../estimators/estimator.ts";
import { PACKET_ANSWER_FORMAT, type PacketAnswer } from "./answer.ts";
import { type CapturedFacts, type CapturedRows, offsetMiddle } from "./captured.ts";
import type { EpochFacts } from "./epochs.ts";
import type { PacketGroups } from "./groups.ts";
import { describePacketQuestion, formatDigest, type PacketQuestion } from "./question.ts";
import { answerBytes } from "./wire.ts";

/** Above this expected number of chance answers per packet, a note says so. */
export const NOTED_FALSE_POSITIVES = 0.01;

export interface AnswerParts {
  facts: EpochFacts;
  /** The point's clock minus the capture's. */
  offsetNs: number;
  questionBytes: number;
  notes: readonly string[];
  /** Number of epochs whose flows are not listed. */
  withoutList: number;
}

export function composeAnswer(
  question: PacketQuestion,
  all: PacketGroups,
  { facts, offsetNs, questionBytes, notes: given, withoutList }: AnswerParts,
): PacketAnswer {
  const { total } = all;
  const groups = all.results(question.top);
  const { point, asked, packets, firstNs, lastNs, refused, readBytes, costs, unchecked } = facts;
  const notes = [...given];
  if (costs !== null) notes.push(`the records asked take ${costs}`);
  if (unchecked > 0)
    notes.push(`${countOf(unchecked, "record")} not checked for damage: ask for a shorter time`);
  if (withoutList > 0) notes.push(`in ${countOf(withoutList, "epoch")} flows are not listed`);
  return {
    format: PACKET_ANSWER_FORMAT,
    hoptime: VERSION,
    question: describePacketQuestion(question),
    points: [{ name: point, role: "receiver", records: asked, packets }],
    epochs: { asked, firstNs, lastNs, offsetNs, refused },
    packets: total.packets,
    matched: total.matched,
    multi: total.multi,
    missing: total.packets - total.matched - total.multi,
    bytes: { question: questionBytes, answer: answerBytes(groups), read: readBytes },
    groups,
    notes,
  };
}

/** Adds the answers of captured packets to the groups. `from`: index of the packet that the first answer belongs to. */
export function addCaptured(
  groups: PacketGroups,
  packets: CapturedRows,
  answers: PacketAnswers,
  from = 0,
): void {
  const { originNs, timeNs, digests } = packets;
  for (let i = 0; i < answers.count; i++)
    groups.add(answers, i, {
      words: packets.wordsAt(from + i),
      name: () => formatDigest(digests[from + i]!),
      timeNs: originNs + BigInt(timeNs[from + i]!),
    });
}

export function capturedNotes(facts: CapturedFacts, total: { matched: number; multi: number }): string[] {
  const { asked, outside, falsePositives, offset } = facts;
  const notes: string[] = [];
  if (offset) {
    const { offsetNs, slackNs } = offsetMiddle(offset);
    const by = formatDuration(Math.abs(Number(offsetNs)));
    const way = offsetNs > 0n ? "behind" : "ahead of";
    notes.push(
      `the capture's clock is about ${by} ${way} the point's (±${formatDuration(Number(slackNs))}): ${offset.agree} of ${offset.tried} packets are found there, ${offset.asCaptured} at their own times; all are asked there`,
    );
  }
  if (outside > 0)
    notes.push(
      `${formatCount(outside)} of ${countOf(asked, "packet")} of the capture are outside the time covered by the records`,
    );
  const within = asked - outside;
  if (within === 0) return notes;
  // A capture may hold packets that never passed the point; any answer to them is a false positive.
  const share = falsePositives / within;
  const found = total.matched + total.multi;
  if (share > NOTED_FALSE_POSITIVES)
    notes.push(
      `a packet of the capture that never passed this point gets an answer with a probability of ${significant(100 * share, 2)} %: a smaller ‘slack’ asks fewer epochs`,
    );
  // Chance explains all answers: the packets did not pass the point, or were in epochs that were not asked.
  if (found > 0 && found <= falsePositives + 3 * Math.sqrt(falsePositives))
    notes.push(
      `the ${countOf(found, "answer")} are no more than false positives would give: the packets did not pass this point, or the clocks of capture and point differ by more than ‘slack’`,
    );
  return notes;
}
