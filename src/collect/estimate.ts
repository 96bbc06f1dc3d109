/**
 * Makes an estimate from a pair of records: reads, checks and merges them, and queries the estimator. What cannot be used becomes a refusal with the reason and
 * the record, and stops nothing else: a record may come from anywhere, contain anything, and still have a valid checksum.
 */
import { FormatError, UsageError } from "../base/errors.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import type { ClockState } from "../capture/source/clock-state.ts";
import { checkCompatible } from "../epoch/compatible.ts";
import { addCounters, mergeRecords, rebaseRecord, sealed } from "../epoch/merge.ts";
import type { CutMode, EpochRecord, RecordCounters } from "../epoch/record.ts";
import {
  type Estimator,
  type EstimatorAnswer,
  type KnownFlows,
  type ParameterValues,
  readsVersion,
} from "../estimators/estimator.ts";
import { parseParameters } from "../estimators/parameters.ts";
import { widenByDelayError } from "../estimators/widen.ts";
import { checkAnswer } from "./check-answer.ts";
import { withFlowLosses } from "./flow-losses.ts";
import type { RecordPair } from "./pair.ts";
import type { RecordHandle } from "./record-handle.ts";
import { type DelayLimits, limitsOf, looseLimits, packetsOf, spanOf } from "./tracks.ts";

/** One end of a segment in an epoch, with adjacent records merged. */
export interface PairEnd {
  record: EpochRecord;
  /** Number of records merged into it. */
  records: number;
}

export interface ReadPair {
  sender: PairEnd | null;
  receiver: PairEnd | null;
  /** The sender's record if there is one: settings that must be equal at both ends are in either, and epochs are the sender's. */
  record: EpochRecord;
}

export interface Refusal {
  startNs: bigint;
  endNs: bigint;
  /** From the heads of its records: packets without an answer, and the bounds of their delays. */
  packets: number;
  limits: DelayLimits | null;
  /** The record at fault; null if two records do not fit each other. */
  source: string | null;
  reason: string;
}

/** One end of an estimate, from its records. */
export interface EstimateEnd {
  startNs: bigint;
  endNs: bigint;
  records: number;
  bytes: number;
  counters: RecordCounters;
  filter: string;
  /** Clock state of a live point. */
  clock?: ClockState | undefined;
}

export interface EpochEstimate {
  /** Bounds of the delays; null if only one end has a record. */
  limits: DelayLimits | null;
  mode: CutMode;
  startNs: bigint;
  endNs: bigint;
  /** Observation began or ended within the epoch at one of the ends: loss there may come from the edge of the capture. */
  edge: boolean;
  /** Records merged because a delimiter was lost. */
  merged: number;
  parameters: string;
  /** How its flows are keyed and hashed. */
  key: string;
  seed: bigint;
  sender: EstimateEnd | null;
  receiver: EstimateEnd | null;
  /** Maximum clock offset between the ends, if they have different clocks and both report their error; not part of the answer's intervals. */
  clockErrorNs: number;
  answer: EstimatorAnswer;
}

export interface PairQuestion {
  confidence: number;
  /** Query-time parameters, such as `decoder=bp`. */
  parameters?: string | undefined;
  flows: KnownFlows | null;
}

/** Returns both ends of a pair, read, merged and checked to fit. */
export function readPair(estimator: Estimator, pair: RecordPair<RecordHandle>): ReadPair | Refusal {
  let at: RecordHandle | null = null;
  const readEnd = (handles: readonly RecordHandle[]): PairEnd | null => {
    let record: EpochRecord | null = null;
    for (const handle of handles) {
      at = handle;
      const next = handle.read();
      checkUsable(next, estimator);
      record = record ? mergeRecords(record, next, estimator) : next;
    }
    return record ? { record, records: handles.length } : null;
  };
  try {
    const sender = readEnd(pair.senders);
    const receiver = readEnd(pair.receivers);
    at = null;
    const record = sender?.record ?? receiver?.record;
    if (!record) throw new Error("a pair without records");
    if (sender && receiver) {
      // One delimiter may have crossed the grid of references on its way; the estimator may be able to move it.
      if (receiver.record.epoch.mode === "delimited") {
        const parameters = parseParameters(estimator, receiver.record.parameters);
        const { referenceNs } = sender.record.epoch;
        receiver.record = rebaseRecord(receiver.record, referenceNs, estimator, parameters);
      }
      checkCompatible(sender.record, receiver.record);
    }
    return { sender, receiver, record };
  } catch (error) {
    return refuse(error, pair, at);
  }
}

export function estimatePair(
  estimator: Estimator,
  pair: RecordPair<RecordHandle>,
  read: ReadPair,
  question: PairQuestion,
): EpochEstimate | Refusal {
  const { sender, receiver, record } = read;
  const { startNs, endNs, mode } = record.epoch;
  try {
    const parameters = questionParameters(estimator, record.parameters, question.parameters);
    const plain = estimator.estimate({
      parameters,
      seed: record.seed,
      sender: sender ? sealed(sender.record) : null,
      receiver: receiver ? sealed(receiver.record) : null,
      flows: question.flows,
      confidence: question.confidence,
      epochNs: Number(endNs - startNs),
      // If the sender's capture began within the epoch, packets in flight then are as foreign as any other packet that it never saw.
      cutInFlight: mode === "aligned" && !sender?.record.epoch.cutHead,
      cutByPackets: mode === "delimited",
    });
    checkAnswer(plain, question.flows);
    const ends = [sender, receiver].filter((e) => e !== null);
    const edge = ends.some((e) => e.record.epoch.cutHead || e.record.epoch.cutTail);
    const counted = withFlowLosses(plain, question.flows, {
      ...{ epochNs: Number(endNs - startNs), edge, byTime: mode === "aligned" },
    });
    return {
      limits: limitsOf(pair),
      mode,
      startNs,
      endNs,
      edge,
      merged: ends.reduce((n, e) => n + e.records - 1, 0),
      parameters: record.parameters,
      key: record.key,
      seed: record.seed,
      sender: endOf(sender, pair.senders),
      receiver: endOf(receiver, pair.receivers),
      clockErrorNs: clockErrorOf(sender?.record.clock, receiver?.record.clock),
      answer: widenByDelayError(counted, receiver?.record.delayError ?? null, question.confidence),
    };
  } catch (error) {
    return refuse(error, pair, null);
  }
}

/** Both clocks may be off in either direction by their reported maximum. Points of one machine share a clock. */
function clockErrorOf(a: ClockState | undefined, b: ClockState | undefined): number {
  if (!a || !b || (a.id === b.id && a.id !== 0n)) return 0;
  return a.maximumErrorNs + b.maximumErrorNs;
}

function endOf(end: PairEnd | null, handles: readonly RecordHandle[]): EstimateEnd | null {
  if (!end) return null;
  const { counters, filter, epoch, clock } = end.record;
  const { startNs, endNs } = epoch;
  const bytes = handles.reduce((n, h) => n + h.bytes, 0);
  return { startNs, endNs, records: handles.length, bytes, counters, filter, clock };
}

export function isRefusal(value: object): value is Refusal {
  return "reason" in value;
}

/** Merges the recorded parameters of the sketch and those of the query. */
function questionParameters(estimator: Estimator, recorded: string, asked = ""): ParameterValues {
  return parseParameters(estimator, [recorded, asked].filter((t) => t !== "").join(","));
}

/** Throws a UsageError before any record is read: parameters that shape the sketch cannot be changed afterwards, and those of the query must be valid. */
export function checkQuestionParameters(estimator: Estimator, asked = ""): void {
  for (const part of asked.split(",")) {
    const name = part.split("=")[0]?.trim();
    const spec = estimator.parameters.find((s) => s.name === name);
    if (!spec || spec.queryOnly) continue;
    const open = estimator.parameters.filter((s) => s.queryOnly).map((s) => s.name);
    throw new UsageError(
      "bad-parameter",
      `${name} was fixed when the points were observed`,
      `a question may set: ${open.join(", ") || "nothing"}`,
      { parameter: estimator.name, value: asked },
    );
  }
  parseParameters(estimator, asked);
}

/** Adds the counters of several records. */
export function totalCounters(counters: readonly (RecordCounters | null)[]): RecordCounters | null {
  let total: RecordCounters | null = null;
  for (const c of counters) if (c) total = total ? addCounters(total, c) : c;
  return total;
}

function checkUsable(record: EpochRecord, estimator: Estimator): void {
  FlowKeySpec.parse(record.key);
  if (record.void !== null) {
    throw new UsageError("mismatch", `the epoch is void at ${record.point}: ${record.void}`);
  }
  if (!readsVersion(estimator, record.payloadVersion)) {
    throw new UsageError(
      "mismatch",
      `the ${estimator.name} payload of ${record.point} has version ${record.payloadVersion}; this program reads ${[...(estimator.reads ?? []), estimator.version].join(" and ")}`,
    );
  }
}

/** Any error of an estimator is attributed to the record: a payload of another program, or made by hand, may break any assumption. */
export function refusalReason(error: unknown): string {
  if (error instanceof FormatError) return error.message;
  if (error instanceof UsageError)
    return error.hint === undefined ? error.message : `${error.message}; ${error.hint}`;
  return `not usable (${error instanceof Error ? error.message : String(error)})`;
}

function refuse(error: unknown, pair: RecordPair<RecordHandle>, at: RecordHandle | null): Refusal {
  return {
    ...spanOf(pair),
    packets: packetsOf(pair),
    limits: looseLimits(pair),
    source: at?.source ?? null,
    reason: refusalReason(error),
  };
}
