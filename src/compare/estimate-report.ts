/**
 * One estimator's part of `estimates` in a compare report: its answers for the segment and the flows, next to the exact values. A missing answer is null, and
 * `reason` says why.
 */
import { required } from "../base/lists.ts";
import { quantileSorted } from "../base/math/regression.ts";
import { formatDuration } from "../base/time.ts";
import type { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { formatFlowKey } from "../capture/flow/flow-text.ts";
import type { ClockUncertainty } from "../clock/correction.ts";
import type {
  Estimator,
  EstimatorAnswer,
  FlowEstimate,
  Interval,
  KnownFlows,
  NoAnswer,
  ParameterValues,
  SealedEpoch,
  SegmentEstimate,
} from "../estimators/estimator.ts";
import { isNoAnswer } from "../estimators/estimator.ts";
import { formatParameters } from "../estimators/parameters.ts";
import type { PacketErrors } from "./delays.ts";
import type { FlowKeyJson, ReportView } from "./report.ts";

export interface EstimateReport {
  version: number;
  parameters: string;
  confidence: number;
  /** Total bytes that the two points exchange: payloads of both ends, and the list of flows if one is needed. */
  bytes: number;
  senderBytes: number;
  receiverBytes: number;
  flowListBytes: number;
  /** Bits exchanged per packet counted, both ends together. Null without packets. */
  bitsPerPacket: number | null;
  /** Of the segment; all null if the estimator does not answer for segments, or cannot answer here. */
  meanNs: number | null;
  lowNs: number | null;
  highNs: number | null;
  stdevNs: number | null;
  stdevLowNs: number | null;
  stdevHighNs: number | null;
  /** The part of the interval's half width that comes from the clock uncertainty of the corrected delays; 0 for delays as captured. */
  clockNs: number;
  /** Why meanNs is null; and stdevNs. */
  reason?: string;
  stdevReason?: string;
  sent: number | null;
  received: number | null;
  lost: number | null;
  packetsUsed: number;
  /** packetsUsed over received. */
  coverage: number;
  exactMeanNs: number | null;
  exactStdevNs: number | null;
  exactLost: number;
  /** (estimate - exact) / exact. */
  relativeError: number | null;
  stdevRelativeError: number | null;
  flows?: FlowEstimateReport[];
  /** Errors of flows by their number of packets. */
  flowClasses?: FlowClass[];
  /** Errors of single packets, if the estimator answers for them. */
  packets?: PacketErrors;
  notes: string[];
  /** The estimate of the reverse direction, if it has packets. */
  reverse?: EstimateReport;
}

export interface FlowEstimateReport {
  key: FlowKeyJson;
  meanNs: number | null;
  lowNs: number | null;
  highNs: number | null;
  stdevNs: number | null;
  reason?: string;
  packets: number | null;
  lost: number | null;
  exactMeanNs: number | null;
  exactLost: number | null;
  relativeError: number | null;
}

export interface FlowClass {
  /** Range of packets sent, inclusive; the last class is open-ended. */
  from: number;
  to: number | null;
  flows: number;
  answered: number;
  /** relative error| of the answered flows whose exact mean is known. */
  medianError: number | null;
  p90Error: number | null;
  /** Share of these flows whose exact mean is within [low, high]. */
  withinInterval: number | null;
}

const CLASS_EDGES = [1, 2, 10, 100, 1000, 10_000];

export interface EstimateSubject {
  estimator: Estimator;
  parameters: ParameterValues;
  seed: bigint;
  /** Null: no packet at all. */
  ends: { sender: SealedEpoch | null; receiver: SealedEpoch } | null;
  /** For an estimator that answers for single packets. */
  packets: PacketErrors | null;
  flows: KnownFlows | null;
  flowListBytes: number;
  key: FlowKeySpec;
  confidence: number;
  epochNs: number;
  /** Subtracted from the delays that the estimator saw. */
  commonNs: number;
  /** Clock uncertainty of corrected delays; null if they are as captured. */
  clock: ClockUncertainty | null;
  way: "forward" | "reverse";
  report: ReportView;
}

export function describeEstimate(subject: EstimateSubject): EstimateReport {
  const { estimator, parameters, ends, flows, confidence, epochNs, report } = subject;
  const answer: EstimatorAnswer = ends
    ? estimator.estimate({ parameters, seed: subject.seed, ...ends, flows, confidence, epochNs })
    : { segment: null, flows: [], notes: [] };
  if (subject.commonNs !== 0) putBack(answer, subject.commonNs);
  const { totalNs = 0, offsetNs = 0 } = subject.clock ?? {};
  // The remaining offset is the same in the exact values. The rest may differ: a packet near a step may be on one side of it there and on the other here.
  const sharedNs = offsetNs ?? 0;
  widen(answer, totalNs - sharedNs);
  const exact: ExactWay =
    subject.way === "forward"
      ? { segment: report.segment, flows: report.flows }
      : { segment: report.reverse, flows: report.reverseFlows };
  const packets = (ends?.sender?.packets ?? 0) + (ends?.receiver.packets ?? 0);
  const senderBytes = ends?.sender?.payload.length ?? 0;
  const receiverBytes = ends?.receiver.payload.length ?? 0;
  const bytes = senderBytes + receiverBytes + subject.flowListBytes;
  const notes = [...new Set([...(answer.segment?.notes ?? []), ...answer.notes])];
  const out: EstimateReport = {
    version: estimator.version,
    parameters: formatParameters(estimator, parameters),
    confidence,
    bytes,
    senderBytes,
    receiverBytes,
    flowListBytes: subject.flowListBytes,
    bitsPerPacket: packets > 0 ? (8 * bytes) / packets : null,
    ...segmentFields(answer.segment, exact, ends !== null),
    clockNs: totalNs,
    notes,
  };
  if (estimator.answers.includes("flow")) {
    out.flows = flowFields(answer.flows, flows, subject.key, exact);
    out.flowClasses = classes(out.flows);
  }
  for (const row of [out, ...(out.flows ?? [])]) {
    if (row.lowNs === null || row.highNs === null) continue;
    row.lowNs -= sharedNs;
    row.highNs += sharedNs;
  }
  if (totalNs > 0)
    notes.push(`intervals include the remaining clock uncertainty, ${formatDuration(totalNs)} either way`);
  if (subject.packets) out.packets = subject.packets;
  return out;
}

const relative = (estimate: number | null, exact: number | null) =>
  estimate === null || exact === null || exact === 0 ? null : (estimate - exact) / Math.abs(exact);

/** The exact values of the direction being estimated. */
interface ExactWay {
  segment: ReportView["segment"] | null;
  flows: ReportView["flows"];
}

/** The common offset is part of every delay: it is added back to the means; quantities that do not depend on it stay. */
function putBack({ segment, flows }: EstimatorAnswer, commonNs: number): void {
  for (const { mean } of segment ? [segment, ...flows] : flows) {
    if (isNoAnswer(mean)) continue;
    mean.valueNs += commonNs;
    mean.lowNs += commonNs;
    mean.highNs += commonNs;
  }
  for (const { quantiles } of flows) for (const q of quantiles ?? []) q.valueNs += commonNs;
}

/** Widens intervals by the possible error of every delay. */
function widen({ segment, flows }: EstimatorAnswer, byNs: number): void {
  if (byNs === 0) return;
  for (const { mean, stdev } of segment ? [segment, ...flows] : flows) {
    for (const interval of [mean, stdev]) {
      if (isNoAnswer(interval)) continue;
      interval.lowNs -= byNs;
      interval.highNs += byNs;
    }
    if (!isNoAnswer(stdev)) stdev.lowNs = Math.max(0, stdev.lowNs);
  }
}

function segmentFields(
  segment: SegmentEstimate | null,
  exact: ExactWay,
  packets: boolean,
): Omit<
  EstimateReport,
  | "version"
  | "parameters"
  | "confidence"
  | "bytes"
  | "senderBytes"
  | "receiverBytes"
  | "flowListBytes"
  | "bitsPerPacket"
  | "clockNs"
  | "notes"
> {
  const none: NoAnswer = packets
    ? { reason: "not-supported", text: "it answers for flows, not for the segment" }
    : { reason: "no-packets", text: "neither capture contains an IP packet" };
  const mean = segment ? segment.mean : none;
  const stdev = segment ? (isNoAnswer(mean) ? mean : segment.stdev) : none;
  const value = (i: Interval | NoAnswer) => (isNoAnswer(i) ? null : i.valueNs);
  const low = (i: Interval | NoAnswer) => (isNoAnswer(i) ? null : i.lowNs);
  const high = (i: Interval | NoAnswer) => (isNoAnswer(i) ? null : i.highNs);
  const exactMeanNs = exact.segment?.latency?.meanNs ?? null;
  const exactStdevNs = exact.segment?.latency?.stdevNs ?? null;
  return {
    meanNs: value(mean),
    lowNs: low(mean),
    highNs: high(mean),
    stdevNs: value(stdev),
    stdevLowNs: low(stdev),
    stdevHighNs: high(stdev),
    ...(isNoAnswer(mean) ? { reason: mean.text } : {}),
    ...(isNoAnswer(stdev) ? { stdevReason: stdev.text } : {}),
    sent: segment?.sent ?? null,
    received: segment?.received ?? null,
    lost: segment?.lost ?? null,
    packetsUsed: segment?.packetsUsed ?? 0,
    coverage: segment?.coverage ?? 0,
    exactMeanNs,
    exactStdevNs,
    exactLost: exact.segment?.lost ?? 0,
    relativeError: relative(value(mean), exactMeanNs),
    stdevRelativeError: relative(value(stdev), exactStdevNs),
  };
}

function flowFields(
  answers: readonly FlowEstimate[],
  flows: KnownFlows | null,
  key: FlowKeySpec,
  exactWay: ExactWay,
): FlowEstimateReport[] {
  const exact = new Map<string, { meanNs: number | null; lost: number }>();
  for (const { key: name, latency, lost } of exactWay.flows)
    exact.set(formatFlowKey(name), { meanNs: latency?.meanNs ?? null, lost });
  return answers.map((answer) => {
    const name = key.describe(required(flows, "the list of flows").keyWords, 10 * answer.flow);
    const known = exact.get(formatFlowKey(name));
    const { mean, stdev } = answer;
    const exactMeanNs = known?.meanNs ?? null;
    const meanNs = isNoAnswer(mean) ? null : mean.valueNs;
    return {
      key: name,
      meanNs,
      lowNs: isNoAnswer(mean) ? null : mean.lowNs,
      highNs: isNoAnswer(mean) ? null : mean.highNs,
      stdevNs: isNoAnswer(stdev) ? null : stdev.valueNs,
      ...(isNoAnswer(mean) ? { reason: mean.text } : {}),
      packets: answer.packets,
      lost: answer.lost === null ? null : Math.max(0, answer.lost),
      exactMeanNs,
      exactLost: known?.lost ?? null,
      relativeError: relative(meanNs, exactMeanNs),
    };
  });
}

function classes(flows: readonly FlowEstimateReport[]): FlowClass[] {
  return CLASS_EDGES.map((from, i): FlowClass => {
    const next = CLASS_EDGES[i + 1];
    const to = next === undefined ? null : next - 1;
    const members = flows.filter(
      (f) => f.packets !== null && f.packets >= from && f.packets <= (to ?? Infinity),
    );
    const errors: number[] = [];
    let within = 0;
    for (const { relativeError, lowNs, highNs, exactMeanNs } of members) {
      if (relativeError === null) continue;
      errors.push(Math.abs(relativeError));
      if (exactMeanNs === null || lowNs === null || highNs === null) continue;
      if (lowNs <= exactMeanNs && exactMeanNs <= highNs) within++;
    }
    errors.sort((a, b) => a - b);
    return {
      from,
      to,
      flows: members.length,
      answered: members.filter((f) => f.meanNs !== null).length,
      medianError: quantileSorted(errors, 0.5),
      p90Error: quantileSorted(errors, 0.9),
      withinInterval: errors.length > 0 ? within / errors.length : null,
    };
  }).filter((c) => c.flows > 0);
}
