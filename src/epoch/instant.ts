/** Instants of epochs: ns since 1970, within the range of records. */
import { invalidValue } from "../base/errors.ts";
import { earlier, later } from "../base/time.ts";

/** The last instant in the range of records. */
export const LAST_NS = (1n << 63n) - 1n;
/** Far enough from the first one that the start of an epoch is still in range. */
const FIRST_NS = -(1n << 62n);

/** Returns a row's time, ns since 1970, rounded down and clamped to the range of records. */
export function instant(originNs: bigint, timeNs: number): bigint {
  if (!Number.isFinite(timeNs))
    throw invalidValue("source", timeNs, "batches with a time in ns for every row", { code: "bad-time" });
  return later(FIRST_NS, earlier(originNs + BigInt(Math.floor(timeNs)), LAST_NS));
}

export function floorTo(ns: bigint, step: bigint): bigint {
  const over = ns % step;
  return ns - (over < 0n ? over + step : over);
}
