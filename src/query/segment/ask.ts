/**
 * Answers a question about a segment from stored records: selects the records, has the collector pair and estimate them, and combines the results.
 * Missing, damaged or unfit records are named in the answer; everything else is answered.
 */

import type { ArchiveEntry } from "../../archive/names.ts";
import { checkMethods } from "../../base/checks.ts";
import { UsageError } from "../../base/errors.ts";
import { Kernels } from "../../base/kernels.ts";
import { countOf, formatCount } from "../../base/quantity.ts";
import { formatDuration, formatTime } from "../../base/time.ts";
import { VERSION } from "../../base/version.ts";
import { openHandle } from "../../collect/archive-records.ts";
import { Collector, DEFAULT_CONFIDENCE } from "../../collect/collector.ts";
import { refusalReason } from "../../collect/estimate.ts";
import type { RecordHandle } from "../../collect/record-handle.ts";
import type { RecordStore } from "../../collect/record-store.ts";
import { isDirectionPair, parseDirectionLabel } from "../../epoch/direction-label.ts";
import type { Estimator } from "../../estimators/estimator.ts";
import { ESTIMATORS } from "../../estimators/table.ts";
import type { FlowRecord } from "../../flow-records/flow-records.ts";
import type { Answer, MissingEpoch, PointSummary, RefusedEpoch } from "./answer.ts";
import { EstimatorQuestion } from "./ask-estimator.ts";
import { forwardLabel } from "./direction.ts";
import { EpochFacts } from "./epoch-facts.ts";
import { FlowQuestion, OtherFlows } from "./flow-question.ts";
import { isFlowKey } from "./groups.ts";
import { sharedNotes } from "./note-folder.ts";
import { asksForFlows, checkQuestion, describeQuestion, type Question } from "./question.ts";
import { askedFlows, rankFlows } from "./rank-flows.ts";

export interface AskOptions {
  table?: readonly Estimator[];
  kernels?: Kernels;
  /** Packets per flow from another source, for epochs without a list of flows. */
  flowRecords?: readonly FlowRecord[] | undefined;
  /** Notes about these: sampled, incomplete. */
  flowRecordNotes?: readonly string[];
}

/** Lists in an answer are for reading: longer ones are cut, with a note. */
const MAX_LISTED = 1000;

export function askArchive(store: RecordStore, question: Question, options: AskOptions = {}): Answer {
  checkMethods("store", store, ["list", "readHead", "readRecord", "points"]);
  checkQuestion(question);
  const table = options.table ?? ESTIMATORS;
  const { entries, foreign } = select(store, question, table);
  const notes: string[] = [];
  const segment =
    chooseSegment(entries, question) ?? chooseDirection(store, entries, question, options, notes);
  const damaged: Damaged[] = [];
  const inSegment = entries.filter((e) => e.segment === segment);
  const asked = chooseEstimators(inSegment, question, table, notes);
  const handles = openAll(store, inSegment, table, damaged);
  const kernels = options.kernels ?? new Kernels();
  const { wanted, named } = rankFlows(handles, question, table);
  const others = new OtherFlows(kernels, question, options.flowRecords, named);
  const [from, to] = question.between;
  const collector = new Collector({
    segments: [{ from, to, label: segment }],
    table,
    estimators: asked.map((e) => e.name),
    confidence: question.confidence ?? DEFAULT_CONFIDENCE,
    parameters: question.parameters,
    flows: (record) => others.of(record),
    asked: askedFlows(question, asksForFlows(question) ? mainKey(handles, to) : null, wanted),
  });
  const facts = new EpochFacts();
  const questions = new Map(
    asked.map((estimator) => {
      const able = asksForFlows(question) && (estimator.answers.includes("flow") || estimator.flowList);
      const flows = able ? new FlowQuestion(question, mainKey(handles, to), facts, wanted) : null;
      return [estimator.name, new EstimatorQuestion(estimator, question, facts, flows)];
    }),
  );
  for (const handle of handles) collector.offer(handle);
  for (const event of collector.finish()) questions.get(event.estimator)?.take(event);
  const parts = [...questions.values()];
  for (const one of parts) one.complete();
  for (const path of foreign.slice(0, 10)) notes.push(`${path} is not a record`);
  if (foreign.length > 10)
    notes.push(`${formatCount(foreign.length - 10)} more files in the archive are not records`);
  const lists = collector.listsFlows;
  notes.push(...flowNotes(parts, question, lists || options.flowRecords !== undefined, lists));
  return compose(parts, { ...describeQuestion(question), segment }, damaged, [
    ...notes,
    ...(options.flowRecordNotes ?? []),
  ]);
}

/** A record with an unreadable head; its path shows what it should be. */
interface Damaged {
  point: string;
  refused: RefusedEpoch;
}

/** Opens all records. Damaged ones are reported and left out. */
function openAll(
  store: RecordStore,
  entries: readonly ArchiveEntry[],
  table: readonly Estimator[],
  damaged: Damaged[],
): RecordHandle[] {
  return entries.flatMap((entry) => {
    if (!table.some((e) => e.name === entry.estimator)) return [];
    const handle = openHandle(store, entry, ({ estimator, epoch, file, point }, error) => {
      const [startNs, endNs] = [`${epoch.startNs}`, `${epoch.endNs}`];
      damaged.push({ point, refused: { estimator, startNs, endNs, file, reason: refusalReason(error) } });
    });
    return handle ? [handle] : [];
  });
}

/** Returns the key by which most packets were distinguished. */
function mainKey(handles: readonly RecordHandle[], receiver: string): string {
  const packets = new Map<string, number>();
  for (const { point, key, packets: n } of handles)
    if (point === receiver) packets.set(key, (packets.get(key) ?? 0) + n + 1);
  const ranked = [...packets].sort((a, b) => b[1] - a[1]).map(([key]) => key);
  return ranked.find(isFlowKey) ?? "5tuple";
}

function compose(
  parts: readonly EstimatorQuestion[],
  question: Record<string, unknown>,
  damaged: readonly Damaged[],
  notes: readonly string[],
): Answer {
  const used = new Set(parts.flatMap((a) => a.usedStarts));
  // Every estimator observed the same packets, so the points' counts come from the estimator with the most epochs.
  const byEpochs = [...parts].sort((a, b) => b.usedStarts.length - a.usedStarts.length);
  const [widest] = byEpochs;
  const points = (["sender", "receiver"] as const).flatMap((role) => pointOf(byEpochs, role));
  // A damaged record exists: it counts as refused, not as missing.
  const place = (point: string, e: RefusedEpoch | MissingEpoch) =>
    [point, e.estimator, e.startNs, e.endNs].join("\n");
  const there = new Set(damaged.map((d) => place(d.point, d.refused)));
  const missing = parts.flatMap((a) => a.missing).filter((m) => !there.has(place(m.point, m)));
  const refused = [...damaged.map((d) => d.refused), ...parts.flatMap((a) => a.refused)];
  refused.sort((a, b) => Number(BigInt(a.startNs) - BigInt(b.startNs)));
  const overlapping = parts.flatMap((a) => [...a.overlapping.values()]);
  const all = [...notes];
  for (const [what, list] of [
    ["missing", missing],
    ["refused", refused],
  ] as const) {
    if (list.length > MAX_LISTED)
      all.push(`${countOf(list.length, "epoch")} ${what}; the first ${MAX_LISTED} are listed`);
    list.splice(MAX_LISTED);
  }
  if (overlapping.length > 0) {
    const epochs = overlapping.reduce((n, o) => n + o.epochs, 0);
    all.push(
      `${countOf(epochs, "epoch")} with another cut or other settings cover the same time and are not counted twice`,
    );
  }
  const shared = sharedNotes(parts.map((a) => [a.name, a.noteFolder]));
  return {
    format: "hoptime.answer/1",
    hoptime: VERSION,
    question,
    points,
    epochs: {
      used: used.size,
      edges: widest?.edges ?? 0,
      merged: widest?.merged ?? 0,
      firstNs: widest?.firstNs?.toString() ?? null,
      lastNs: widest?.lastNs?.toString() ?? null,
      missing,
      refused,
      overlapping,
    },
    estimates: Object.fromEntries(parts.map((a) => [a.name, a.segmentAnswer(shared.kinds)])),
    groups: parts.flatMap((a) => a.groupAnswers()),
    notes: [...all, ...pointNotes(points, widest), ...shared.notes],
  };
}

/** Returns the point's summary from the estimator with the most epochs that has records there: some keep nothing at the sender. */
function pointOf(byEpochs: readonly EstimatorQuestion[], role: "sender" | "receiver"): PointSummary[] {
  const summaries = byEpochs.map((a) => a.point(role));
  const own = summaries.find((p) => p.records > 0) ?? summaries[0];
  return own ? [own] : [];
}

/** Notes on what limits the answer. */
function pointNotes(points: readonly PointSummary[], widest: EstimatorQuestion | undefined): string[] {
  const notes: string[] = [];
  if (widest && widest.edges > 0)
    notes.push(
      `in ${countOf(widest.edges, "epoch")} a capture began or ended: packets missing there may never have been captured`,
    );
  for (const { name, dropped, short } of points) {
    if (dropped)
      notes.push(
        `${name}: the capture dropped ${countOf(dropped, "packet")}: part of the loss may be capture loss`,
      );
    if (short > 0)
      notes.push(
        `${name}: ${countOf(short, "packet")} captured with fewer bytes than packets are matched on: use a smaller ‘cover’ at both points`,
      );
  }
  notes.push(...clockNotes(points, widest));
  const [from, to] = points;
  if (from && to && from.records > 0 && to.records > 0 && from.filter !== to.filter)
    notes.push(`the points were observed with different filters: '${from.filter}' and '${to.filter}'`);
  return notes;
}

/** Notes on how far the points' clocks may be apart and which are not synchronised; none if the points share a clock. */
function clockNotes(points: readonly PointSummary[], widest: EstimatorQuestion | undefined): string[] {
  const errorNs = widest?.clockErrorNs ?? 0;
  if (errorNs === 0) return [];
  const estimated = points.reduce((sum, { clock }) => sum + (clock?.estimatedErrorNs ?? 0), 0);
  const loose = points.filter(({ clock }) => clock && !clock.synchronised).map(({ name }) => name);
  return [
    `the points have different clocks, up to ${formatDuration(errorNs)} apart (estimated: ${formatDuration(estimated)}): included in every interval of the mean`,
    ...(loose.length > 0
      ? [`not synchronised: the clock of ${loose.join(" and ")}; start chronyd or ptp4l and phc2sys there`]
      : []),
  ];
}

function flowNotes(
  parts: readonly EstimatorQuestion[],
  question: Question,
  known: boolean,
  listed: boolean,
): string[] {
  if (!asksForFlows(question)) return [];
  const names = parts.map((a) => a.name).join(", ");
  if (parts.every((a) => !a.answersFlows))
    return [
      `none of the estimators observed (${names}) measures flows: observe with ‘estimators lda,lds’ too`,
    ];
  if (!known && question.flows === undefined)
    return ["no list of flows was kept: observe with ‘with-flows’ too, or ask for a ‘flow’"];
  const unlisted = Math.max(0, ...parts.map((a) => a.unlisted));
  return [
    ...(listed && unlisted > 0 && question.flows === undefined
      ? [`no list of flows in ${countOf(unlisted, "epoch")}`]
      : []),
    ...new Set(parts.flatMap((a) => a.flowNotes)),
  ];
}
function select(archive: RecordStore, question: Question, table: readonly Estimator[]) {
  const points = archive.points();
  const [sender, receiver] = question.between;
  // Some estimators keep nothing at the sender, so it need not have been observed.
  const alone = () =>
    archive
      .list({ points: [receiver] })
      .entries.some((e) => table.some((t) => t.name === e.estimator && !t.needs.sender));
  for (const point of question.between) {
    if (points.includes(point) || (point === sender && points.includes(receiver) && alone())) continue;
    const known = points.length > 0 ? `there are: ${points.join(", ")}` : "there are no records";
    throw new UsageError("no-records", `${archive.directory}: no records of point '${point}'`, known);
  }
  const { fromNs, toNs } = question;
  const listing = archive.list({ points: question.between, fromNs, toNs });
  if (listing.entries.length > 0) return listing;
  const all = archive.list({ points: question.between }).entries;
  const [first, last] = [all[0], all.at(-1)];
  const none = `${archive.directory}: no records of ${question.between.join(" or ")}`;
  if (!first || !last) throw new UsageError("no-records", none, "observe both points first");
  const span = `${formatTime(first.epoch.startNs, 3)} to ${formatTime(last.epoch.endNs, 3)}`;
  throw new UsageError("no-records", `${none} between ‘from’ and ‘to’`, `they cover ${span}`);
}

/**
 * Returns the label of the records: the requested one; else A:B if both points have it; else none; else the only common one. Null: the labels are
 * the two directions of a link, still to be distinguished.
 */
function chooseSegment(entries: readonly ArchiveEntry[], { between, segment }: Question): string | null {
  const labels = between.map(
    (point) => new Set(entries.filter((e) => e.point === point).map((e) => e.segment)),
  );
  const [own = new Set<string>(), other = new Set<string>()] = labels;
  const common = commonLabels(entries, own, other);
  const wanted = segment ?? [between.join(":"), ""].find((l) => common.includes(l));
  if (wanted !== undefined && (common.includes(wanted) || labels.some((l) => l.has(wanted)))) return wanted;
  const [only, ...more] = common;
  if (segment === undefined && only !== undefined && more.length === 0) return only;
  if (segment === undefined && isDirectionPair(common)) return null;
  // An estimator that keeps nothing at the sender needs no label there.
  const either = [...new Set([...own, ...other])];
  const [single, ...others] = either;
  if (segment === undefined && single !== undefined && others.length === 0) return single;
  if (segment === undefined && isDirectionPair(either)) return null;
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

/**
 * Returns the labels of both points. A link that was idle when observation began has records of all packets first and per direction later: then
 * only the directions count.
 */
function commonLabels(
  entries: readonly ArchiveEntry[],
  own: ReadonlySet<string>,
  other: ReadonlySet<string>,
): string[] {
  const common = [...own].filter((l) => other.has(l));
  const directions = common.filter((l) => l !== "");
  if (directions.length === common.length || !isDirectionPair(directions)) return common;
  const lastNs = (whole: boolean) =>
    entries.reduce(
      (last, e) => ((e.segment === "") === whole && e.epoch.endNs > last ? e.epoch.endNs : last),
      0n,
    );
  return lastNs(false) > lastNs(true) ? directions : common;
}

/** Decides which of two labels is the direction from the first point to the second, by comparing their means. */
function chooseDirection(
  store: RecordStore,
  entries: readonly ArchiveEntry[],
  question: Question,
  options: AskOptions,
  notes: string[],
): string {
  const labels = [...new Set(entries.map((e) => e.segment))].filter((l) => parseDirectionLabel(l) !== null);
  const { between, fromNs, toNs, confidence } = question;
  const candidates = labels.map((label) => ({
    label,
    answer: askArchive(store, { between, fromNs, toNs, confidence, segment: label }, options),
  }));
  const { label, note } = forwardLabel(between, candidates);
  notes.push(note);
  return label;
}

function chooseEstimators(
  entries: readonly ArchiveEntry[],
  { estimators }: Question,
  table: readonly Estimator[],
  notes: string[],
): Estimator[] {
  const there = [...new Set(entries.map((e) => e.estimator))];
  for (const name of estimators ?? []) {
    if (there.includes(name)) continue;
    throw new UsageError("no-records", `no records of estimator '${name}'`, `there are: ${there.join(", ")}`);
  }
  const known = table.filter((e) => there.includes(e.name));
  for (const name of there) {
    if (known.every((e) => e.name !== name))
      notes.push(`records of the unknown estimator '${name}' are ignored`);
  }
  // Estimators without answers, such as flow tables, are left out unless named.
  return known.filter((e) => (estimators ? estimators.includes(e.name) : e.answers.length > 0));
}
