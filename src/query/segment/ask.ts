/**
 * A question about a segment, answered from an archive: which records, paired, estimated, combined. Records that are missing, damaged or do not fit are
 * named in the answer, and everything else is answered for.
 */

import type { ArchiveEntry } from "../../archive/names.ts";
import { UsageError } from "../../base/errors.ts";
import { Kernels } from "../../base/kernels.ts";
import { formatTime } from "../../base/time.ts";
import { VERSION } from "../../base/version.ts";
import { FlowLists } from "../../collect/flow-lists.ts";
import { pairRecords, receiverOnly } from "../../collect/pair.ts";
import type { RecordStore } from "../../collect/record-store.ts";
import type { Estimator } from "../../estimators/estimator.ts";
import { ESTIMATORS } from "../../estimators/table.ts";
import type { FlowRecord } from "../../flow-records/flow-records.ts";
import type { Answer } from "./answer.ts";
import { EstimatorQuestion } from "./ask-estimator.ts";
import { asksForFlows, checkQuestion, describeQuestion, type Question } from "./question.ts";

export interface AskOptions {
  table?: readonly Estimator[];
  kernels?: Kernels;
  /** Packets per flow from elsewhere, for epochs without a list of flows. */
  flowRecords?: readonly FlowRecord[] | undefined;
  /** What is to be said of them: sampled, incomplete. */
  flowRecordNotes?: readonly string[];
}

/** Lists in an answer are for reading: the first so many, and a note. */
const MAX_LISTED = 1000;

export function askArchive(archive: RecordStore, question: Question, options: AskOptions = {}): Answer {
  checkQuestion(question);
  const table = options.table ?? ESTIMATORS;
  const [from, to] = question.between;
  const { entries, foreign } = select(archive, question, table);
  const segment = chooseSegment(entries, question);
  const inSegment = entries.filter((e) => e.segment === segment);
  const lists = new FlowLists(archive, table, inSegment);
  const kernels = options.kernels ?? new Kernels();
  const { flowRecords } = options;
  const notes: string[] = [];
  const asked: EstimatorQuestion[] = [];
  for (const name of chooseEstimators(inSegment, question, table, notes)) {
    const estimator = table.find((e) => e.name === name)!;
    const own = inSegment.filter((e) => e.estimator === name);
    const receivers = own.filter((e) => e.point === to);
    const pairing = estimator.needs.sender
      ? pairRecords(
          own.filter((e) => e.point === from),
          receivers,
        )
      : receiverOnly(receivers);
    const one = new EstimatorQuestion({ archive, estimator, question, lists, kernels, flowRecords });
    one.run(pairing);
    asked.push(one);
  }
  const used = [...new Set(asked.flatMap((a) => a.usedStarts))].sort((a, b) => (a < b ? -1 : 1));
  // Every estimator saw the same packets: the one with the most epochs tells of the points.
  const [widest] = [...asked].sort((a, b) => b.usedStarts.length - a.usedStarts.length);
  const missing = asked.flatMap((a) => a.missing);
  const refused = asked.flatMap((a) => a.refused);
  for (const [what, list] of [
    ["missing", missing],
    ["refused", refused],
  ] as const) {
    if (list.length > MAX_LISTED)
      notes.push(`${list.length} epochs are ${what}; the first ${MAX_LISTED} are listed`);
    list.splice(MAX_LISTED);
  }
  for (const path of foreign.slice(0, 10)) notes.push(`${path} is not a record`);
  if (foreign.length > 10) notes.push(`${foreign.length - 10} more files in the archive are not records`);
  if (asksForFlows(question)) {
    const names = asked.map((a) => a.name).join(", ");
    if (asked.every((a) => !a.answersFlows))
      notes.push(`none of the estimators observed (${names}) measures flows`);
    else if (lists.empty && question.flows === undefined && !flowRecords) {
      notes.push("no list of flows was kept: observe with a flow table too, or ask for a ‘flow’");
    }
  }
  return {
    format: "hoptime.answer/1",
    hoptime: VERSION,
    question: { ...describeQuestion(question), segment },
    points: widest?.points() ?? [],
    epochs: {
      used: used.length,
      edges: widest?.edges ?? 0,
      merged: widest?.merged ?? 0,
      firstNs: widest?.firstNs?.toString() ?? null,
      lastNs: widest?.lastNs?.toString() ?? null,
      missing,
      refused,
    },
    estimates: Object.fromEntries(asked.map((a) => [a.name, a.segmentAnswer()])),
    groups: asked.flatMap((a) => a.groupAnswers()),
    notes: [...notes, ...(widest?.notes() ?? []), ...(options.flowRecordNotes ?? [])],
  };
}

function select(archive: RecordStore, question: Question, table: readonly Estimator[]) {
  const points = archive.points();
  const [sender, receiver] = question.between;
  // Some estimators keep nothing at the sender: then it need not have been observed.
  const alone = () =>
    archive
      .list({ points: [receiver] })
      .entries.some((e) => table.some((t) => t.name === e.estimator && !t.needs.sender));
  for (const point of question.between) {
    if (points.includes(point) || (point === sender && points.includes(receiver) && alone())) continue;
    const known = points.length > 0 ? `there are: ${points.join(", ")}` : "there are none at all";
    throw new UsageError("no-records", `${archive.directory}: no records of point '${point}'`, known);
  }
  const { fromNs, toNs } = question;
  const listing = archive.list({ points: question.between, fromNs, toNs });
  if (listing.entries.length > 0) return listing;
  const all = archive.list({ points: question.between }).entries;
  const [first, last] = [all[0], all.at(-1)];
  const span =
    first && last ? `${formatTime(first.epoch.startNs)} to ${formatTime(last.epoch.endNs)}` : "nothing";
  throw new UsageError(
    "no-records",
    `${archive.directory}: no records of ${question.between.join(" or ")} in the time asked for`,
    `they cover ${span}`,
  );
}

/** The label of the records: as asked, or A:B where both ends have it, or none, or the only one in common. */
function chooseSegment(entries: readonly ArchiveEntry[], { between, segment }: Question): string {
  const labels = between.map(
    (point) => new Set(entries.filter((e) => e.point === point).map((e) => e.segment)),
  );
  const common = [...labels[0]!].filter((l) => labels[1]!.has(l));
  const wanted = segment ?? [between.join(":"), ""].find((l) => common.includes(l));
  if (wanted !== undefined && (common.includes(wanted) || labels.some((l) => l.has(wanted)))) return wanted;
  if (segment === undefined && common.length === 1) return common[0]!;
  // An estimator that keeps nothing at the sender needs no label there.
  const either = [...new Set([...labels[0]!, ...labels[1]!])];
  if (segment === undefined && either.length === 1) return either[0]!;
  const shown = (label: string) => (label === "" ? "all packets" : `'${label}'`);
  const list = either.map(shown).join(", ");
  if (segment !== undefined) {
    throw new UsageError("no-records", `no records of segment or class '${segment}'`, `there are: ${list}`);
  }
  throw new UsageError(
    "bad-question",
    `${between.join(" and ")} were observed by several segments or classes`,
    `name one with ‘segment’: ${list}`,
    { parameter: "segment" },
  );
}

function chooseEstimators(
  entries: readonly ArchiveEntry[],
  { estimators }: Question,
  table: readonly Estimator[],
  notes: string[],
): string[] {
  const there = [...new Set(entries.map((e) => e.estimator))];
  for (const name of estimators ?? []) {
    if (there.includes(name)) continue;
    throw new UsageError("no-records", `no records of estimator '${name}'`, `there are: ${there.join(", ")}`);
  }
  const known = table.filter((e) => there.includes(e.name));
  for (const name of there) {
    if (known.every((e) => e.name !== name))
      notes.push(`records of '${name}', which this program does not know, are left out`);
  }
  // A flow table answers for nothing by itself, unless it is asked.
  const answering = known.filter((e) => (estimators ? estimators.includes(e.name) : e.answers.length > 0));
  return answering.map((e) => e.name);
}
