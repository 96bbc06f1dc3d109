/**
 * A pair of records becomes an estimate: read, checked against each other, neighbours merged, asked. What cannot be used is a refusal that
 * says why and names the file, and stops nothing else.
 */
import type { ArchiveEntry } from "../archive/names.ts";
import { FormatError, UsageError } from "../base/errors.ts";
import { checkCompatible } from "../epoch/compatible.ts";
import { addCounters, mergeRecords, rebaseRecord, sealed } from "../epoch/merge.ts";
import type { EpochRecord, RecordCounters } from "../epoch/record.ts";
import {
  type Estimator,
  type EstimatorAnswer,
  type KnownFlows,
  type ParameterValues,
  readsVersion,
} from "../estimators/estimator.ts";
import { parseParameters } from "../estimators/parameters.ts";
import { widenByDelayError } from "../estimators/widen.ts";
import type { RecordPair } from "./pair.ts";

/** Where records are read from: an archive, or anything that has them. */
export interface RecordSource {
  readRecord(entry: ArchiveEntry): EpochRecord;
}

/** One end of a segment in an epoch, neighbours merged. */
export interface PairEnd {
  record: EpochRecord;
  /** Records that it was made of. */
  records: number;
}

export interface ReadPair {
  sender: PairEnd | null;
  receiver: PairEnd | null;
}

export interface Refusal {
  startNs: bigint;
  endNs: bigint;
  /** The file that is to blame; null where two do not fit. */
  file: string | null;
  reason: string;
}

export interface EpochEstimate {
  startNs: bigint;
  endNs: bigint;
  /** Observation began or ended within the epoch at one of the ends: what is lost there may be the capture's edge. */
  edge: boolean;
  /** Records merged because a delimiter was lost. */
  merged: number;
  parameters: string;
  sent: RecordCounters | null;
  received: RecordCounters | null;
  answer: EstimatorAnswer;
}

export interface EstimateOptions {
  confidence: number;
  /** Parameters of the question, such as `decoder=bp`. */
  parameters?: string;
  flows: KnownFlows | null;
}

/** Both ends of a pair, read, merged and found to fit. */
export function readPair(source: RecordSource, estimator: Estimator, pair: RecordPair): ReadPair | Refusal {
  const all = [...pair.senders, ...pair.receivers];
  const startNs = all[0]!.epoch.startNs;
  const endNs = (pair.senders.at(-1) ?? pair.receivers.at(-1))!.epoch.endNs;
  let at: ArchiveEntry | null = null;
  try {
    const ends = [pair.senders, pair.receivers].map((entries): PairEnd | null => {
      let record: EpochRecord | null = null;
      for (const entry of entries) {
        at = entry;
        const next = source.readRecord(entry);
        checkUsable(next, estimator);
        record = record ? mergeRecords(record, next, estimator) : next;
      }
      return record ? { record, records: entries.length } : null;
    });
    at = null;
    const [sender, receiver] = ends as [PairEnd | null, PairEnd | null];
    if (sender && receiver) {
      // One delimiter may have crossed the grid of references on its way; the estimator may be able to move it.
      if (receiver.record.epoch.mode === "delimited") {
        const parameters = parseParameters(estimator, receiver.record.parameters);
        const { referenceNs } = sender.record.epoch;
        receiver.record = rebaseRecord(receiver.record, referenceNs, estimator, parameters);
      }
      checkCompatible(sender.record, receiver.record);
    }
    return { sender, receiver };
  } catch (error) {
    return refuse(error, startNs, endNs, at);
  }
}

export function estimatePair(
  estimator: Estimator,
  pair: ReadPair,
  options: EstimateOptions,
): EpochEstimate | Refusal {
  const { sender, receiver } = pair;
  const record = (sender ?? receiver)!.record;
  const { startNs, endNs } = record.epoch;
  try {
    const parameters = questionParameters(estimator, record.parameters, options.parameters);
    const told = estimator.estimate({
      parameters,
      seed: record.seed,
      sender: sender ? sealed(sender.record) : null,
      receiver: receiver ? sealed(receiver.record) : null,
      flows: options.flows,
      confidence: options.confidence,
      epochNs: Number(endNs - startNs),
    });
    const answer = widenByDelayError(told, receiver?.record.delayError ?? null, options.confidence);
    const ends = [sender, receiver].filter((e) => e !== null);
    return {
      startNs,
      endNs,
      edge: ends.some((e) => e.record.epoch.cutHead || e.record.epoch.cutTail),
      merged: ends.reduce((n, e) => n + e.records - 1, 0),
      parameters: record.parameters,
      sent: sender?.record.counters ?? null,
      received: receiver?.record.counters ?? null,
      answer,
    };
  } catch (error) {
    return refuse(error, startNs, endNs, null);
  }
}

export function isRefusal(value: object): value is Refusal {
  return "reason" in value;
}

/** The sketch's parameters as recorded, the question's as asked. What shapes the sketch cannot be changed afterwards. */
export function questionParameters(estimator: Estimator, recorded: string, asked = ""): ParameterValues {
  for (const part of asked.split(",")) {
    const name = part.split("=")[0]!.trim();
    const spec = estimator.parameters.find((s) => s.name === name);
    if (!spec || spec.queryOnly) continue;
    throw new UsageError(
      "bad-parameter",
      `--${estimator.name}: ${name} was fixed when the points were observed (${recorded})`,
      `a question may set: ${names(estimator) || "nothing"}`,
    );
  }
  return parseParameters(estimator, [recorded, asked].filter((t) => t !== "").join(","));
}

/** Counters of several records as one. */
export function totalCounters(counters: readonly (RecordCounters | null)[]): RecordCounters | null {
  let total: RecordCounters | null = null;
  for (const c of counters) if (c) total = total ? addCounters(total, c) : c;
  return total;
}

function names(estimator: Estimator): string {
  const open = estimator.parameters.filter((s) => s.queryOnly);
  return open.map((s) => s.name).join(", ");
}

function checkUsable(record: EpochRecord, estimator: Estimator): void {
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

/** Our own bugs go on; what is wrong with records is said. */
function refuse(error: unknown, startNs: bigint, endNs: bigint, at: ArchiveEntry | null): Refusal {
  if (error instanceof FormatError) return { startNs, endNs, file: at?.file ?? null, reason: error.message };
  if (error instanceof UsageError && error.code === "mismatch") {
    const hint = error.hint === undefined ? "" : `; ${error.hint}`;
    return { startNs, endNs, file: at?.file ?? null, reason: error.message + hint };
  }
  throw error;
}
