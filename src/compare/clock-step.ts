/** Detects a clock that was set during the capture by more than the window: the packets of one part have no partner, and agree on a different clock offset. */
import { formatDuration } from "../base/time.ts";
import type { Alignment } from "../clock/alignment.ts";
import type { PassResult } from "./pass.ts";

/** The search runs only if at least this share of the smaller capture's packets have no partner. */
const SOME_UNMATCHED = 0.005;
/** Minimum number of packets that must agree on the offset, and their minimum share of the packets without a partner. */
const MIN_AGREEING = 16;
const MOST_AGREEING = 0.5;

/** Returns a sentence with what to do; null if no clock was set by that much. `sample` searches both captures for equal packets. */
export async function stepBeyondWindow(
  { before, after, rereadable, plan }: PassResult,
  matched: number,
  windowNs: number,
  sample: () => Promise<Alignment | null>,
): Promise<string | null> {
  const missing = 1 - matched / Math.min(before.ipPackets, after.ipPackets);
  if (!rereadable || matched === 0 || missing < SOME_UNMATCHED) return null;
  const found = await sample();
  if (!found) return null;
  const agreeing = Math.max(MIN_AGREEING, MOST_AGREEING * missing * found.total);
  const offsets = [
    found.offsetNs,
    ...(found.runnerUp >= agreeing ? [found.runnerUpNs ?? found.offsetNs] : []),
  ];
  const apartNs = Math.max(...offsets.map((ns) => Math.abs(ns - plan.alignNs)));
  if (apartNs <= windowNs) return null;
  return `the timestamps of many packets differ by ${formatDuration(apartNs)} between the captures, more than the window: a clock was set during the capture; compare the parts before and after it separately (editcap -A and -B split by time)`;
}
