/** Instants of epochs: ns since 1970, within what records can tell. */
import { invalidValue } from "../base/errors.ts";
import { earlier, later } from "../base/time.ts";

/** The last instant that records can tell. */
export const LAST_NS = (1n << 63n) - 1n;
/** So far from the first one that the epoch's start is none before it. */
const FIRST_NS = -(1n << 62n);

/** A row's time, ns since 1970, rounded down; within what records can tell. */
export function instant(originNs: bigint, timeNs: number): bigint {
  if (!Number.isFinite(timeNs))
    throw invalidValue("source", timeNs, "batches with a time in ns for every row", { code: "bad-time" });
  return later(FIRST_NS, earlier(originNs + BigInt(Math.floor(timeNs)), LAST_NS));
}

export function floorTo(ns: bigint, step: bigint): bigint {
  const over = ns % step;
  return ns - (over < 0n ? over + step : over);
}
