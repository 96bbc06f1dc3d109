/** Merges records of one tap: adjacent ones (a delimiter was lost at the other end), or parts of one epoch (several taps). */
import { UsageError } from "../base/errors.ts";
import { joinClocks } from "../capture/source/clock-state.ts";
import { mergeDelayErrors } from "../delays/delay-error.ts";
import type { Estimator, ParameterValues } from "../estimators/estimator.ts";
import { parseParameters } from "../estimators/parameters.ts";
import { checkGeometry } from "./compatible.ts";
import type { EpochBounds, EpochRecord, RecordCounters } from "./record.ts";
import { hasGap, joinSpans } from "./spans.ts";

/** Merges two records into one. Times are relative to a's reference. */
export function mergeRecords(a: EpochRecord, b: EpochRecord, estimator: Estimator): EpochRecord {
  checkGeometry(a, b);
  const parameters = parseParameters(estimator, a.parameters);
  for (const record of [a, b]) {
    if (record.void !== null) throw cannot(a, b, `the epoch is void: ${record.void}`);
    if (record.role !== a.role) throw cannot(a, b, `one is ${a.role}, the other ${b.role}`);
  }
  const other = rebaseRecord(b, a.epoch.referenceNs, estimator, parameters);
  const merged = estimator.merge(sealed(a), sealed(other), parameters);
  const spans = joinSpans(a.spans, b.spans);
  const clock = joinClocks(a.clock, b.clock);
  return {
    ...a,
    ...(spans.length > 0 ? { spans } : {}),
    ...(clock ? { clock } : {}),
    ...(a.effort && b.effort
      ? {
          effort: { cpuNs: a.effort.cpuNs + b.effort.cpuNs, queue: Math.max(a.effort.queue, b.effort.queue) },
        }
      : {}),
    epoch: joinBounds(a.epoch, b.epoch),
    counters: addCounters(a.counters, b.counters, merged.packets),
    payload: merged.payload,
    delayError: mergeDelayErrors(
      { error: a.delayError, packets: a.counters.packets },
      { error: b.delayError, packets: b.counters.packets },
    ),
  };
}

/**
 * Merges two parts of one epoch that one point observed one after the other (parts.ts), as if it had been observed at once. The epoch's flags show what may
 * still be missing before, after or between them.
 */
export function mergeParts(a: EpochRecord, b: EpochRecord, estimator: Estimator): EpochRecord {
  const merged = mergeRecords(a, b, estimator);
  const spans = joinSpans(a.spans, b.spans);
  const from = (r: EpochRecord) => r.spans?.[0]?.firstNs ?? r.epoch.startNs;
  const to = (r: EpochRecord) => r.spans?.at(-1)?.lastNs ?? r.epoch.endNs;
  const [first, last] = [from(a) <= from(b) ? a : b, to(a) > to(b) ? a : b];
  const epoch = {
    ...merged.epoch,
    cutHead: first.epoch.cutHead,
    cutTail: last.epoch.cutTail || hasGap(spans),
  };
  return { ...merged, epoch, spans };
}

/** Returns the same record with its times relative to another instant. */
export function rebaseRecord(
  record: EpochRecord,
  referenceNs: bigint,
  estimator: Estimator,
  parameters: ParameterValues,
): EpochRecord {
  const earlierNs = Number(record.epoch.referenceNs - referenceNs);
  if (earlierNs === 0) return record;
  const { payload } = estimator.rebase(sealed(record), earlierNs, parameters);
  return { ...record, epoch: { ...record.epoch, referenceNs }, payload };
}

export function sealed(record: EpochRecord): { payload: Uint8Array; packets: number } {
  return { payload: record.payload, packets: record.counters.packets };
}

function joinBounds(a: EpochBounds, b: EpochBounds): EpochBounds {
  const [first, last] = a.startNs <= b.startNs ? [a, b] : [b, a];
  const sameEpoch = a.startNs === b.startNs && a.endNs === b.endNs;
  return {
    mode: a.mode,
    startNs: first.startNs,
    endNs: last.endNs,
    referenceNs: a.referenceNs,
    startId: first.startId,
    endId: last.endId,
    cutHead: sameEpoch ? a.cutHead || b.cutHead : first.cutHead,
    cutTail: sameEpoch ? a.cutTail || b.cutTail : last.cutTail,
  };
}

export function addCounters(a: RecordCounters, b: RecordCounters, packets?: number): RecordCounters {
  const skipped = { ...a.skipped };
  for (const [reason, n] of Object.entries(b.skipped)) skipped[reason] = (skipped[reason] ?? 0) + n;
  return {
    frames: a.frames + b.frames,
    packets: packets ?? a.packets + b.packets,
    short: a.short + b.short,
    backward: a.backward + b.backward,
    skipped,
    dropped: a.dropped === null && b.dropped === null ? null : (a.dropped ?? 0) + (b.dropped ?? 0),
  };
}

function cannot(a: EpochRecord, b: EpochRecord, why: string): UsageError {
  return new UsageError("mismatch", `${a.point} and ${b.point} (${a.estimator}) cannot be merged: ${why}`);
}
