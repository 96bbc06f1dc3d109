/**
 * Result rows: what is stored of each epoch after estimating, one row per segment, estimator and epoch, and likewise per minute and hour. A row has
 * the numbers people read and the state by which rows are combined (collect/combine.ts), so an hour row yields what its epochs yield together. An
 * epoch without an answer has a row too, with the reason.
 */

import { grouped } from "../base/grouped.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { formatFlowKey } from "../capture/flow/flow-text.ts";
import type { Collected, CollectedSegment } from "../collect/collector.ts";
import {
  Combination,
  type CombinationState,
  type Contribution,
  segmentContribution,
} from "../collect/combine.ts";
import { CutEdges, deviationInFlight } from "../collect/cut-edges.ts";
import type { EpochEstimate } from "../collect/estimate.ts";
import { arrivedOfFlow } from "../collect/in-flight.ts";
import { LossTotal } from "../collect/loss.ts";
import { limitsOf } from "../collect/tracks.ts";
import type { CutMode } from "../epoch/record.ts";
import { isNoAnswer, type KnownFlows, type NoAnswer, type SegmentEstimate } from "../estimators/estimator.ts";
import { bucketOf } from "./row-selection.ts";

/** Lengths of rows in seconds; 0: one epoch. */
export const STEPS = [0, 60, 3600] as const;
export type Step = (typeof STEPS)[number];

export interface RowSpan {
  step: Step;
  startNs: bigint;
  endNs: bigint;
}

export interface SegmentRow extends RowSpan {
  segment: CollectedSegment;
  estimator: string;
  mode: CutMode;
  /** Number of epochs in it, and how many are missing. */
  epochs: number;
  missing: number;
  /** Of these, missing at the sender and at the receiver. */
  missingFrom: number;
  missingTo: number;
  refused: number;
  /** Epochs in which a capture began or ended. */
  edges: number;
  merged: number;
  sent: number | null;
  received: number | null;
  lost: number | null;
  /** Packets dropped by the captures, if they report it. */
  dropped: number | null;
  /** Size of the records. */
  bytes: number;
  /** Correction for delays that crossed aligned cuts within it (cut-edges.ts); null if nothing is left out at a cut. */
  cutShift: number | null;
  /** Why it, or part of it, has no answer. */
  reason: string | null;
  state: CombinationState;
}

export interface FlowRow extends RowSpan {
  segment: CollectedSegment;
  estimator: string;
  /** The flow as text. */
  flow: string;
  bytes: number | null;
  state: CombinationState;
}

/** Makes a row from an event of the collector. Returns null for an event about no epoch of its own (another cut answers for its time). */
export function segmentRow(event: Collected): SegmentRow | null {
  const { segment, estimator } = event;
  const base = {
    segment,
    estimator,
    step: 0 as const,
    epochs: 1,
    missing: 0,
    missingFrom: 0,
    missingTo: 0,
    refused: 0,
    edges: 0,
    merged: 0,
  };
  const none = { sent: null, received: null, lost: null, dropped: null, bytes: 0, cutShift: null };
  if (event.kind === "overlapping") return null;
  if (event.kind === "unpaired") {
    const { entry, missing, reason } = event.unpaired;
    const { startNs, endNs, mode } = entry.epoch;
    const text = `${missing === "sender" ? segment.from : segment.to}: ${reason}`;
    const limits = limitsOf({ senders: [entry], receivers: [] });
    const state = unanswered(entry.packets, limits, { reason: "no-packets", text });
    const where = missing === "sender" ? { missingFrom: 1 } : { missingTo: 1 };
    return {
      ...{ ...base, ...none, startNs, endNs, mode, missing: 1, ...where },
      ...{ bytes: entry.bytes, reason: text, state },
    };
  }
  if (event.kind === "refused") {
    const { startNs, endNs, packets, limits, reason } = event.refusal;
    const state = unanswered(packets, limits, { reason: "no-usable-cells", text: reason });
    return { ...base, ...none, startNs, endNs, mode: "aligned", refused: 1, reason, state };
  }
  return estimateRow(event.segment, event.estimator, event.estimate);
}

function estimateRow(
  segment: CollectedSegment,
  estimator: string,
  estimate: EpochEstimate,
): SegmentRow | null {
  const own = estimate.answer.segment;
  if (!own) return null;
  const { startNs, endNs, mode, edge, merged, sender, receiver } = estimate;
  const contribution = segmentContribution(own, Number(endNs - startNs));
  const combination = new Combination();
  combination.add({
    ...contribution,
    bounds: isNoAnswer(contribution.mean) && estimate.limits ? { valueNs: null, ...estimate.limits } : null,
  });
  const drops = [sender?.counters.dropped, receiver?.counters.dropped].filter(
    (d) => d !== null && d !== undefined,
  );
  const cut =
    mode === "aligned" &&
    sender !== null &&
    receiver !== null &&
    own.packetsUsed < (contribution.packets ?? 0);
  return {
    ...{ segment, estimator, step: 0, startNs, endNs, mode, epochs: 1, missing: 0, refused: 0, merged },
    ...{ missingFrom: 0, missingTo: 0 },
    edges: edge ? 1 : 0,
    ...{ sent: own.sent, received: own.received, lost: own.lost },
    dropped: drops.length === 0 ? null : drops.reduce((a, b) => a + b, 0),
    bytes: (sender?.bytes ?? 0) + (receiver?.bytes ?? 0),
    cutShift: cut ? 0 : null,
    reason: isNoAnswer(own.mean) ? `${own.mean.reason}: ${own.mean.text}` : null,
    state: combination.state(),
  };
}

/** Stands in the estimator column for measurements reported by a router. */
const REPORTED = "reported";

/** One epoch of a segment as reported by a router (docs/formats/msp.md). */
export interface ReportedEpoch {
  from: string;
  to: string;
  startNs: bigint;
  endNs: bigint;
  /** Packets that crossed the segment, and packets lost on it. */
  packets: number;
  lost: number;
  delay: { meanNs: number; lowNs: number; highNs: number } | null;
}

/** Makes a row without a record behind it: how the router measured is unknown. */
export function reportedRow({ from, to, delay, ...epoch }: ReportedEpoch): SegmentRow {
  const { startNs, endNs, packets, lost } = epoch;
  const none: NoAnswer = { reason: "no-packets", text: "the router reports no delay" };
  const unknown: NoAnswer = {
    reason: "not-supported",
    text: "the router reports a standard deviation without an interval, or none",
  };
  const combination = new Combination();
  combination.add({
    mean: delay ? { valueNs: delay.meanNs, lowNs: delay.lowNs, highNs: delay.highNs } : none,
    stdev: unknown,
    ...{ packets: packets + lost, arrived: packets, lost, used: delay ? packets : 0 },
  });
  return {
    ...{ segment: { from, to, label: `${from}:${to}` }, estimator: REPORTED, mode: "aligned" },
    ...{ step: 0, startNs, endNs, epochs: 1, missing: 0, missingFrom: 0, missingTo: 0, refused: 0 },
    ...{ edges: 0, merged: 0, sent: packets + lost, received: packets, lost, dropped: null, bytes: 0 },
    ...{ cutShift: null, reason: delay ? null : none.text, state: combination.state() },
  };
}

function unanswered(
  packets: number,
  limits: { lowNs: number; highNs: number } | null,
  why: NoAnswer,
): CombinationState {
  const combination = new Combination();
  const bounds = limits ? { valueNs: null, ...limits } : null;
  combination.add({ mean: why, stdev: why, packets, lost: null, used: 0, bounds });
  return combination.state();
}

/**
 * Returns the flows of an epoch with the most packets, followed by flows that arrived in it but sent no packet in it: theirs were in flight when it
 * began.
 */
export function flowRows(event: Extract<Collected, { kind: "estimate" }>, most: number): FlowRow[] {
  const rows = sentFlowRows(event, most);
  return [...rows, ...inFlightRows(event, most - rows.length)];
}

function inFlightRows(event: Extract<Collected, { kind: "estimate" }>, most: number): FlowRow[] {
  const { estimate, receiverOnly, segment, estimator } = event;
  const { startNs, endNs, answer, key } = estimate;
  const mean = answer.segment?.inFlight;
  if (!receiverOnly || !mean) return [];
  const spec = FlowKeySpec.parse(key);
  const stdev = deviationInFlight(mean);
  return Array.from({ length: Math.min(Math.max(0, most), receiverOnly.count) }, (_, i) => {
    const flow = formatFlowKey(spec.describe(receiverOnly.keyWords.subarray(10 * i, 10 * i + 10)));
    const arrived = numberAt(receiverOnly.packets, i);
    const lost = arrived === null ? null : -arrived;
    const combination = new Combination();
    combination.add({ mean, stdev, packets: 0, arrived, lost, used: 0, modelled: true }, undefined, flow);
    return { segment, estimator, step: 0, startNs, endNs, flow, bytes: null, state: combination.state() };
  });
}

function sentFlowRows(event: Extract<Collected, { kind: "estimate" }>, most: number): FlowRow[] {
  const { estimate, flows, segment, estimator } = event;
  if (!flows || estimate.answer.flows.length === 0) return [];
  const { startNs, endNs, answer, limits } = estimate;
  const spec = FlowKeySpec.parse(estimate.key);
  const sized = answer.flows.map((answered) => ({
    answered,
    packets: answered.packets ?? numberAt(flows.packets, answered.flow),
  }));
  sized.sort((a, b) => (b.packets ?? 0) - (a.packets ?? 0));
  return sized.slice(0, most).map(({ answered, packets }) => {
    const flow = formatFlowKey(
      spec.describe(flows.keyWords.subarray(10 * answered.flow, 10 * answered.flow + 10)),
    );
    const arrived = arrivedOfFlow(answered, packets, numberAt(flows.received, answered.flow));
    const bounds = isNoAnswer(answered.mean) && limits ? { valueNs: null, ...limits } : null;
    const one: Contribution = {
      mean: answered.mean,
      stdev: answered.stdev,
      packets,
      arrived,
      lost: answered.lost,
      lostLow: answered.lostLow,
      used: arrived ?? 0,
      bounds,
    };
    const combination = new Combination();
    combination.add(one, undefined, flow);
    const bytes = numberAt(flows.bytes, answered.flow) ?? answered.bytes ?? null;
    return { segment, estimator, step: 0, startNs, endNs, flow, bytes, state: combination.state() };
  });
}

function numberAt(values: KnownFlows["packets"] | undefined, i: number): number | null {
  const value = values?.[i];
  return value === undefined || Number.isNaN(value) ? null : value;
}

const SUMMED = [
  "epochs",
  "missing",
  "missingFrom",
  "missingTo",
  "refused",
  "edges",
  "merged",
  "bytes",
] as const;

/** Combines rows of one segment and estimator, in order of time. Returns null if there are none. */
export function combineRows(
  rows: readonly SegmentRow[],
  span: RowSpan,
): { row: SegmentRow; combination: Combination; edges: CutEdges } | null {
  const [first] = rows;
  if (!first) return null;
  if (rows.length === 1) return alone(first, span);
  const combination = new Combination();
  const loss = new LossTotal();
  const edges = new CutEdges();
  const sums = {
    ...{ epochs: 0, missing: 0, missingFrom: 0, missingTo: 0 },
    ...{ refused: 0, edges: 0, merged: 0, bytes: 0 },
  };
  const known: Record<"sent" | "received" | "dropped", number | null> = {
    sent: null,
    received: null,
    dropped: null,
  };
  let reason: string | null = null;
  let cut = false;
  for (const row of rows) {
    combination.addState(row.state);
    for (const name of SUMMED) sums[name] += row[name];
    for (const name of ["sent", "received", "dropped"] as const)
      if (row[name] !== null) known[name] = (known[name] ?? 0) + row[name];
    if (row.epochs > row.missing + row.refused) loss.add(asSegment(row), row);
    reason ??= row.reason;
    if (row.cutShift === null || row.state.weight === 0) continue;
    cut = true;
    edges.addPart(edgeOf(row), row.cutShift);
  }
  const { segment, estimator, mode } = first;
  const { lost } = loss;
  const cutShift = cut ? edges.shift : null;
  const row = {
    ...span,
    segment,
    estimator,
    mode,
    ...sums,
    ...known,
    lost,
    cutShift,
    reason,
    state: combination.state(),
  };
  return { row, combination, edges };
}

/** A single row needs no combining; an hour of epochs has thousands of these. */
function alone(row: SegmentRow, { step, startNs, endNs }: RowSpan) {
  const combination = new Combination();
  combination.addState(row.state);
  const edges = new CutEdges();
  if (row.cutShift !== null && row.state.weight > 0) edges.addPart(edgeOf(row), row.cutShift);
  const same = row.step === step && row.startNs === startNs && row.endNs === endNs;
  return { row: same ? row : { ...row, step, startNs, endNs }, combination, edges };
}

/** The input of the correction for packets that crossed the cuts. */
function edgeOf({ startNs, endNs, state }: SegmentRow) {
  const { meanNs, weight, spreadM2, spreadWeight, whyStdev } = state;
  const stdevNs = whyStdev !== null || spreadWeight === 0 ? null : Math.sqrt(spreadM2 / spreadWeight);
  return { startNs, endNs, packets: weight, meanNs, stdevNs };
}

/** The input of the loss sums. */
function asSegment({ sent, received, lost, state }: SegmentRow): SegmentEstimate {
  const none: NoAnswer = state.why ?? { reason: "no-packets", text: "" };
  const mean =
    state.weight === 0 ? none : { valueNs: state.meanNs, lowNs: state.meanNs, highNs: state.meanNs };
  return { mean, stdev: none, sent, received, lost, packetsUsed: state.used, coverage: 0, notes: [] };
}

/** Combines rows of one flow. */
export function combineFlow(
  rows: readonly FlowRow[],
  span: RowSpan,
): { row: FlowRow; combination: Combination } | null {
  const [first] = rows;
  if (!first) return null;
  const combination = new Combination();
  if (rows.length === 1) {
    combination.addState(first.state, first.flow);
    return { row: { ...first, ...span }, combination };
  }
  let bytes: number | null = null;
  for (const row of rows) {
    combination.addState(row.state, row.flow);
    if (row.bytes !== null) bytes = (bytes ?? 0) + row.bytes;
  }
  const { segment, estimator, flow } = first;
  return { row: { ...span, segment, estimator, flow, bytes, state: combination.state() }, combination };
}

/**
 * Combines rows of one flow into minutes, and minutes into hours, as far as `step` allows, as the store rolls them up: a sum is the same to the last
 * digit whether they are rolled up yet or not. `rows` in order of time.
 */
export function asRolledUp(rows: readonly FlowRow[], step: Step): FlowRow[] {
  let parts = [...rows];
  for (const next of STEPS) {
    if (next === 0 || next > step) continue;
    const lengthNs = BigInt(next) * 1_000_000_000n;
    const groups = grouped(parts, ({ startNs }) => bucketOf(startNs, next));
    parts = [...groups].flatMap(([startNs, list]) => {
      const [first] = list;
      // Already a minute or hour.
      if (first && list.length === 1 && first.step >= next) return [first];
      return combineFlow(list, { step: next, startNs, endNs: startNs + lengthNs })?.row ?? [];
    });
  }
  return parts;
}
