/** Counts of one direction of the segment: which unmatched packets are lost, which appeared, and which are before or after the other capture. */
import type { FlowKeySpec } from "../capture/flow/flow-key.ts";
import type { EdgeCounts, FlowResult, WaySums } from "../match/flow-result.ts";
import type { TotalResult } from "../match/match-types.ts";
import type { ExactMatcher } from "../match/matcher.ts";
import { latencyOf } from "./latency.ts";
import type { SegmentReport } from "./report.ts";

/** A run of unmatched packets at an end is attributed to the capture only if loss alone would produce it with less than this probability. */
const CHANCE = 1e-4;
const EDGES = ["headBefore", "tailBefore", "headAfter", "tailAfter"] as const;

/** One direction's report, and which unmatched packets at the captures' ends are attributed to the captures instead of loss. */
export interface Way {
  way: "forward" | "reverse";
  report: SegmentReport;
  real: Record<keyof EdgeCounts, boolean>;
}

/**
 * Returns the unmatched packets at the ends that are evidence of a capture's start or end. Neighbour discovery, router advertisements and the like never leave
 * their link: their absence elsewhere means nothing.
 */
export function eligibleEdges(
  matcher: ExactMatcher,
  twoWay: boolean,
  key: FlowKeySpec,
  sums: { forward: WaySums; reverse: WaySums; edgesOnly: number[] },
): { forward: EdgeCounts; reverse: EdgeCounts } {
  const eligible = { forward: { ...sums.forward.withMatch }, reverse: { ...sums.reverse.withMatch } };
  for (const id of sums.edgesOnly) {
    const { words, at } = matcher.keyWords(id);
    if (key.isLinkScoped(words, at)) continue;
    const flow = matcher.flow(id);
    const counts = twoWay && flow.direction === 2 ? eligible.reverse : eligible.forward;
    for (const edge of EDGES) counts[edge] += flow[edge];
  }
  return eligible;
}

/**
 * Unmatched packets at the ends count as head and tail if the other capture cannot have been running, otherwise as lost or appeared. Reverse flows have their
 * ends swapped.
 */
export function buildSegment(
  sums: WaySums,
  eligible: EdgeCounts,
  total: TotalResult,
  way: "forward" | "reverse",
): Way {
  const forward = way === "forward";
  const { matched } = sums;
  const lostInside = forward ? sums.lost : sums.appeared;
  const newInside = forward ? sums.appeared : sums.lost;
  const rate = (unmatched: number) => (unmatched + 1) / (matched + unmatched + 2);
  const judge = (edge: keyof EdgeCounts): boolean => {
    const p = rate(edge.endsWith("Before") === forward ? lostInside : newInside);
    return eligible[edge] > 0 && eligible[edge] * Math.log(p) < Math.log(CHANCE);
  };
  const real = {
    headBefore: judge("headBefore"),
    tailBefore: judge("tailBefore"),
    headAfter: judge("headAfter"),
    tailAfter: judge("tailAfter"),
  };
  const counts = settle(sums, real, way);
  const sent = forward ? sums.sent : sums.received;
  const received = forward ? sums.received : sums.sent;
  const latency = latencyOf(total.delay, total.histogram, total.jitterNs);
  const report: SegmentReport = {
    sent,
    received,
    matched,
    lost: counts.lost,
    lossRate: matched + counts.lost > 0 ? counts.lost / (matched + counts.lost) : null,
    appeared: counts.appeared,
    duplicates: counts.duplicates,
    // The order of arrival is tracked only where AFTER is read.
    reordered: forward ? total.reordered : null,
    reorderExtent:
      total.reordered > 0 ? { max: total.extentMax, mean: total.extentSum / total.reordered } : null,
    head: counts.head,
    tail: counts.tail,
    // If nothing was seen at both points, the usual delay is unknown: any packet may have passed while the other capture was not running.
    undecided:
      matched === 0
        ? counts.lost + counts.appeared
        : sums.undecided + EDGES.reduce((n, edge) => n + (real[edge] ? 0 : sums[edge]), 0),
    ambiguous: sums.ambiguous,
    linkLocal: sums.linkLocal,
    mirrored: sums.mirrored,
    latency,
    ...(latency ? {} : { reason: noMatchReason(sent, received, matched) }),
  };
  return { way, report, real };
}

/** Returns the counts of a flow, or of all, with the unmatched packets at the ends attributed. */
export function settle(
  f: EdgeCounts & Pick<FlowResult, "lost" | "appeared" | "duplicates">,
  real: Way["real"],
  way: Way["way"],
): { lost: number; appeared: number; duplicates: number; head: number; tail: number } {
  const onlyBefore = f.lost + (real.headBefore ? 0 : f.headBefore) + (real.tailBefore ? 0 : f.tailBefore);
  const onlyAfter = f.appeared + (real.headAfter ? 0 : f.headAfter) + (real.tailAfter ? 0 : f.tailAfter);
  const head = (real.headBefore ? f.headBefore : 0) + (real.headAfter ? f.headAfter : 0);
  const tail = (real.tailBefore ? f.tailBefore : 0) + (real.tailAfter ? f.tailAfter : 0);
  if (way === "forward")
    return { lost: onlyBefore, appeared: onlyAfter, duplicates: f.duplicates, head, tail };
  // In the reverse direction, a packet seen only at BEFORE has appeared there, and one seen only at AFTER was lost on the way.
  return { lost: onlyAfter, appeared: onlyBefore, duplicates: f.duplicates, head, tail };
}

export function noMatchReason(sent: number, received: number, matched: number): string {
  if (matched > 0)
    return "none of the packets seen at both points has a delay of its own: they look alike, or were merged";
  if (sent === 0 && received === 0) return "no packets at either point";
  if (sent === 0) return "no packets at the first point";
  if (received === 0) return "no packets at the second point";
  return "no packet was seen at both points within the window";
}
