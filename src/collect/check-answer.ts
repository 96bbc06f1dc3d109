/**
 * Checks an estimator's answer from a payload before it is combined with others: a sketch that was written wrongly, or by hand, may contain invalid numbers,
 * and a single NaN would spoil the answer over all epochs.
 */
import { FormatError } from "../base/errors.ts";
import {
  type EstimatorAnswer,
  type Interval,
  isNoAnswer,
  type KnownFlows,
  type NoAnswer,
} from "../estimators/estimator.ts";

/** The range of 64-bit nanoseconds: no delay is longer. */
const LONGEST_NS = 2 ** 63;

/** Throws a FormatError if a number of the answer is invalid or impossible. */
export function checkAnswer({ segment, flows }: EstimatorAnswer, asked: KnownFlows | null): void {
  if (segment) {
    checkInterval(segment.mean, "mean");
    checkInterval(segment.stdev, "standard deviation");
    for (const name of ["sent", "received", "lost"] as const) checkCount(segment[name], name);
    checkCount(segment.packetsUsed, "packets used");
  }
  for (const { flow, mean, stdev, packets, lost, bytes, quantiles } of flows) {
    if (!(flow >= 0 && flow < (asked?.count ?? 0)))
      throw wrong("an answer for a flow that was not asked for");
    checkInterval(mean, "mean of a flow");
    checkInterval(stdev, "standard deviation of a flow");
    checkCount(packets, "packets of a flow");
    checkCount(lost, "lost packets of a flow");
    checkCount(bytes ?? null, "bytes of a flow");
    for (const { valueNs } of quantiles ?? []) checkValue(valueNs, "quantile of a flow");
  }
}

function checkInterval(interval: Interval | NoAnswer, what: string): void {
  if (isNoAnswer(interval)) return;
  const { valueNs, lowNs, highNs, common } = interval;
  for (const ns of [valueNs, lowNs, highNs, common?.lowNs ?? 0, common?.highNs ?? 0]) checkValue(ns, what);
  // Rounding may move a value slightly out of its own interval.
  const slack = 1e-6 * (Math.abs(valueNs) + 1);
  if (lowNs > valueNs + slack || highNs < valueNs - slack)
    throw wrong(`${what} ${valueNs} ns lies outside its interval`);
}

function checkValue(ns: number, what: string): void {
  if (!(Math.abs(ns) <= LONGEST_NS)) throw wrong(`${what} is ${ns} ns`);
}

function checkCount(count: number | null, what: string): void {
  if (count !== null && !(Math.abs(count) <= Number.MAX_SAFE_INTEGER)) throw wrong(`${what}: ${count}`);
}

function wrong(what: string): FormatError {
  return new FormatError("bad-record", "payload", 0, `impossible values: ${what}`);
}
