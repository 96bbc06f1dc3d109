/**
 * Which way packets go. A flow's direction is first guessed by the sign of its first difference; here the guesses of a whole pass are
 * checked against what does not depend on the clocks: of two flows that answer each other, the one with the larger difference (after -
 * before) goes from BEFORE to AFTER, because the difference is delay + offset one way and -delay + offset the other. Where nothing goes both ways, all
 * packets are taken to go from BEFORE to AFTER, and negative delays are the clock doctor's business.
 */
import type { ClockVerdict } from "../clock/verdict.ts";
import type { ExactMatcher, TotalResult } from "../estimators/exact/matcher.ts";
import type { CompareReport, SegmentReport } from "./compare-report.ts";

export interface Directions {
  matched: number;
  /** Packets go both ways in these captures. */
  twoWay: boolean;
  /** The threshold that tells them apart (compare-pass.ts); another pass is due when it is not the one used. */
  thresholdNs: number;
  /** Flows that answer each other; null where it was not looked at. */
  peers: number | null;
}

/** Flows looked at for answering each other: enough to be sure, few enough to be quick. */
const MOST_PAIRS = 20_000;

export function tellDirections(matcher: ExactMatcher, thresholdNs: number): Directions {
  const forward = matcher.total(1);
  const reverse = matcher.total(2);
  const matched = forward.matched + reverse.matched;
  const flows = matcher.flowCount;
  if (thresholdNs === Number.NEGATIVE_INFINITY || reverse.matched === 0) {
    return { matched, twoWay: false, thresholdNs, peers: null };
  }
  // Differences (after - before) of flows that answer each other.
  let answering = 0;
  let forwardLeast = Number.POSITIVE_INFINITY;
  let reverseMost = Number.NEGATIVE_INFINITY;
  for (let id = 0; id < flows && answering < MOST_PAIRS; id++) {
    if (matcher.flows.matched(id) === 0) continue;
    const other = matcher.reverseOf(id);
    if (other <= id || matcher.flows.matched(other) === 0) continue;
    answering++;
    const [a, b] = [differences(matcher.flow(id)), differences(matcher.flow(other))];
    const [ahead, back] = a.mean >= b.mean ? [a, b] : [b, a];
    forwardLeast = Math.min(forwardLeast, ahead.least);
    reverseMost = Math.max(reverseMost, back.most);
  }
  if (answering > 0) {
    const middle = (forwardLeast + reverseMost) / 2;
    // 0 is as good as the middle wherever it separates the two.
    const separates = reverseMost < thresholdNs && forwardLeast >= thresholdNs;
    return { matched, twoWay: true, thresholdNs: separates ? thresholdNs : middle, peers: answering };
  }
  // Signs alone: believed only where flows are of one mind and both kinds are there.
  const inconsistent = forward.negative + reverse.negative;
  const byTtl =
    forward.ttl.lower > 0.9 * forward.matched &&
    reverse.ttl.higher > 0.9 * reverse.matched &&
    forward.matched > 0;
  if (
    forward.matched > 0 &&
    (byTtl || inconsistent < 0.02 * matched) &&
    Math.min(forward.matched, reverse.matched) > 0.001 * matched
  ) {
    return { matched, twoWay: true, thresholdNs, peers: 0 };
  }
  return { matched, twoWay: false, thresholdNs: Number.NEGATIVE_INFINITY, peers: null };
}

/** A reverse flow's delays are kept with their sign turned. */
function differences(flow: ReturnType<ExactMatcher["flow"]>): { mean: number; least: number; most: number } {
  const d = flow.delay!;
  return flow.direction === 2
    ? { mean: -d.meanNs, least: -d.maxNs, most: -d.minNs }
    : { mean: d.meanNs, least: d.minNs, most: d.maxNs };
}

/** Which capture is the earlier point, from what does not depend on the clocks, and from them. */
export function judgeDirection(
  total: TotalResult,
  segment: SegmentReport,
  verdict: ClockVerdict,
  twoWay: boolean,
): CompareReport["direction"] {
  const evidence: string[] = [];
  if (total.matched === 0) return { order: "unclear", evidence: ["no packet was seen at both points"] };
  let score = 0;
  const { lower, higher } = total.ttl;
  if (lower > 0.9 * total.matched) {
    evidence.push("TTLs are lower in the second capture: it is the later point");
    score += 3;
  } else if (higher > 0.9 * total.matched) {
    evidence.push("TTLs are higher in the second capture: it is the earlier point");
    score -= 3;
  }
  const allNegative = total.negative > 0.9 * total.matched;
  if (twoWay) {
    evidence.push("packets go both ways; flows that answer each other tell the directions apart");
    score += 1;
  }
  if (allNegative) {
    evidence.push(
      `${total.negative} of ${total.matched} delays are negative: the second capture is the earlier point, or its clock is behind`,
    );
    score -= 2;
  } else if (total.negative === 0 && verdict.offset.kind === "none") {
    evidence.push("all delays are positive");
    score += 1;
  }
  const missing = segment.lost;
  const extra = segment.appeared;
  if (missing + extra > 20 && Math.max(missing, extra) > 5 * Math.min(missing, extra)) {
    if (extra > missing) {
      evidence.push(
        `${extra} packets are only in the second capture and ${missing} only in the first: loss points the other way`,
      );
      score -= 1;
    } else {
      evidence.push(
        `${missing} packets are only in the first capture and ${extra} only in the second, as loss on the way makes it`,
      );
      score += 1;
    }
  }
  return { order: score > 0 ? "as-given" : score < 0 ? "swapped" : "unclear", evidence };
}
