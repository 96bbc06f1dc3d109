/** Streams of identical packets through the matcher, for tests of how they are paired. */
import type { ExactMatcher } from "../../src/match/matcher.ts";
import { type Packet, runMatcher } from "./run-matcher.ts";

export const run = (before: Packet[], after: Packet[], thresholdNs = Number.NEGATIVE_INFINITY) =>
  runMatcher(before, after, { windowNs: 10e9, epochNs: 1e9, thresholdNs });

/** Returns the counts of the forward direction, and what one point alone has seen. */
export function sums(matcher: ExactMatcher) {
  const { forward } = matcher.flows.survey(false);
  return {
    ...forward,
    onlyBefore: forward.lost + forward.headBefore + forward.tailBefore,
    onlyAfter: forward.appeared + forward.duplicates + forward.headAfter + forward.tailAfter,
  };
}

export const byTime = (packets: Packet[]) => packets.sort((a, b) => a.timeNs - b.timeNs);
