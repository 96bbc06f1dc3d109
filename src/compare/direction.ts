/**
 * Directions of packets. A flow's direction is first guessed from the sign of its first difference; here the guesses of a whole pass are checked against
 * evidence that does not depend on the clocks: of two flows that answer each other, the one with the larger difference (after - before) goes from BEFORE to
 * AFTER, because the difference is delay + offset in one direction and -delay + offset in the other, whatever the offset. If nothing goes both ways, all
 * packets are assumed to go from BEFORE to AFTER, and negative delays are left to the clock diagnosis.
 */

import { required } from "../base/lists.ts";
import { lgamma } from "../base/math/special.ts";
import { countOf, formatCount } from "../base/quantity.ts";
import type { ClockVerdict } from "../clock/verdict.ts";
import type { TotalResult } from "../match/match-types.ts";
import type { ExactMatcher } from "../match/matcher.ts";
import type { PassResult } from "./pass.ts";
import { type Directions, type PassPlan, splitNs, type Ways } from "./plan.ts";
import type { CompareReport, SegmentReport } from "./report.ts";
import { partsLikeHosts } from "./unmatched-ways.ts";
import { maybeBothWays } from "./ways.ts";

/** Maximum number of pairs of flows that answer each other: enough to be sure, few enough to be quick. */
const MAX_PAIRS = 20_000;
/** Without other evidence of two directions: maximum number of flows checked for an answering flow. */
const MAX_ASKED = 10_000;
/** Two groups of differences are two directions if delays of one direction would be split like this with at most this probability. */
const CHANCE = 0.01;

/** Share of the matched packets that the evidence must cover to conclude one direction. */
const COVERED = 0.9;
/** Returns the directions that a pass shows: per flow if the evidence was gathered, otherwise by one split for all flows. */
export function directionsOf(result: PassResult, plan: PassPlan): Directions {
  const { matcher, ways, limited } = result;
  const matched = matcher.total(1).matched + matcher.total(2).matched;
  const plain = { matched, peers: null, lateAnswers: false, decidedBy: null, open: false };
  if (plan.ways.kind === "known") return { ...plain, twoWay: true, ways: plan.ways };
  const guess = findDirections(matcher, plan, {
    mayAnswer: !plan.settled.noAnswers,
    settled: !limited && plan.gatherWays === "to-the-end",
  });
  if (limited || matched === 0 || plan.ways.kind === "one-way") return guess;
  if (ways === null) return { ...guess, lateAnswers: maybeBothWays(matcher) };
  const verdict = ways.decide();
  // Packets that were not clearly paired are not in the evidence, and may be those of the other direction.
  const covered = ways.seen > COVERED * matched;
  if (verdict.kind === "unknown")
    return { ...guess, open: verdict.open && !(guess.twoWay && partsLikeHosts(matcher)) };
  if (verdict.kind === "one-way" && !covered) return guess;
  if (verdict.kind === "one-way") {
    const split = matcher.total(2).matched > 0;
    return { ...plain, twoWay: false, ways: split ? { kind: "one-way" } : plan.ways };
  }
  const { known, decidedBy } = verdict;
  const { flows } = matcher;
  const stands = known.ways.every(
    (way, id) => way === 0 || flows.matched(id) === 0 || flows.direction(id) === way,
  );
  // Flows without matched packets go the way of their hosts.
  if (stands) {
    const turned = new Map<number, 1 | 2>();
    for (const [id, way] of known.ways.entries())
      if (way !== 0 && flows.direction(id) === 0) turned.set(id, way as 1 | 2);
    matcher.turnUnmatched(turned);
  }
  return { ...plain, twoWay: true, ways: stands ? plan.ways : { kind: "known", flows: known }, decidedBy };
}

/**
 * `plan`: the pass's directions, and the alignment subtracted from its differences. `mayAnswer`: false if a look ahead found no flows that answer each other;
 * then they are checked again only if something indicates two directions (checking a million flows needs a table of them). `settled`: no later packet can
 * change the result.
 */
export function findDirections(
  matcher: ExactMatcher,
  { ways, alignNs }: { ways: Ways; alignNs: number },
  { mayAnswer = true, settled = false } = {},
): Directions {
  const forward = matcher.total(1);
  const reverse = matcher.total(2);
  const matched = forward.matched + reverse.matched;
  const plain = { matched, lateAnswers: false, decidedBy: null, open: false };
  if (matched === 0) return { ...plain, twoWay: false, ways: waysOfAlike(matcher, ways), peers: null };
  if (ways.kind === "one-way") return { ...plain, twoWay: false, ways, peers: null };
  // If the clocks had to be aligned first, the sign of a difference means nothing.
  const signs = alignNs === 0 && forward.matched > 0 && reverse.matched > 0;
  const maxAsked = signs || alignNs !== 0 ? Number.POSITIVE_INFINITY : mayAnswer ? MAX_ASKED : 0;
  const peers = comparePeers(matcher, maxAsked);
  const found = peers
    ? waysOfPeers(peers, ways, alignNs, signs)
    : waysWithoutPeers(matcher, ways, alignNs, signs);
  if (found) return { ...plain, twoWay: true, ways: found, peers: peers?.pairs ?? 0 };
  const forwardOnly: Ways = { kind: settled ? "one-way" : "assumed-forward" };
  return { ...plain, twoWay: false, ways: reverse.matched === 0 ? ways : forwardOnly, peers: null };
}

/** If only packets that look alike were matched, the signs of their differences show nothing. */
function waysOfAlike(matcher: ExactMatcher, ways: Ways): Ways {
  return matcher.ambiguous > 0 && ways.kind === "split" ? { kind: "assumed-forward" } : ways;
}

/** Returns the split that flows which answer each other show; null if they do not show two directions. */
function waysOfPeers(peers: Peers, ways: Ways, alignNs: number, signs: boolean): Ways | null {
  const middleNs = splitOf(peers) ?? (signs ? (peers.forwardMin + peers.reverseMax) / 2 : null);
  if (middleNs === null) return null;
  // Keep the split in use if it separates the two, too.
  const usedNs = splitNs(ways) + alignNs;
  const separates = peers.reverseMax < usedNs && peers.forwardMin >= usedNs;
  return separates ? ways : { kind: "split", atNs: middleNs - alignNs };
}

function waysWithoutPeers(matcher: ExactMatcher, ways: Ways, alignNs: number, signs: boolean): Ways | null {
  const forward = matcher.total(1);
  const reverse = matcher.total(2);
  const matched = forward.matched + reverse.matched;
  const byTtl = forward.ttl.lower > 0.9 * forward.matched && reverse.ttl.higher > 0.9 * reverse.matched;
  const both = Math.min(forward.matched, reverse.matched) > 0.001 * matched;
  // Signs alone are accepted only if the packets of each flow agree and both signs occur.
  const ofOneMind = signs && forward.negative + reverse.negative < 0.02 * matched;
  if (both && (byTtl || ofOneMind)) return ways;
  const gapNs = ttlGoesBothWays(forward, reverse) ? widestGap(matcher) : null;
  // If this split was used already, the directions do not separate at the gap.
  if (gapNs === null || gapNs - alignNs === splitNs(ways)) return null;
  return { kind: "split", atNs: gapNs - alignNs };
}

/** Routers decrement the TTL: if it is lower for some packets and higher for others, packets go both ways. */
function ttlGoesBothWays(...totals: TotalResult[]): boolean {
  const sum = (pick: (t: TotalResult) => number) => totals.reduce((n, t) => n + pick(t), 0);
  const [lower, higher] = [sum((t) => t.ttl.lower), sum((t) => t.ttl.higher)];
  const matched = sum((t) => t.matched);
  return lower + higher > 0.9 * matched && Math.min(lower, higher) > 0.02 * matched;
}

/** Returns the middle of the widest gap between the flows' mean differences; null with fewer than two. */
function widestGap(matcher: ExactMatcher): number | null {
  const means: number[] = [];
  for (let id = 0; id < matcher.flowCount && means.length < 2 * MAX_PAIRS; id++) {
    if (matcher.flows.matched(id) > 0) means.push(differences(matcher.flow(id)).mean);
  }
  means.sort((a, b) => a - b);
  let widest = 0;
  for (let i = 2; i < means.length; i++) {
    if (means[i]! - means[i - 1]! > means[widest + 1]! - means[widest]!) widest = i - 1;
  }
  return means.length < 2 ? null : (means[widest]! + means[widest + 1]!) / 2;
}

/** Differences (after - before) of flows that answer each other: of each pair the larger is assumed to go from BEFORE to AFTER. */
interface Peers {
  pairs: number;
  forwardPackets: number;
  reversePackets: number;
  forwardMin: number;
  reverseMax: number;
  /** The same for the flows' means, which an outlier does not move. */
  forwardMinMean: number;
  reverseMaxMean: number;
}

function comparePeers(matcher: ExactMatcher, maxAsked: number): Peers | null {
  const peers: Peers = {
    pairs: 0,
    forwardPackets: 0,
    reversePackets: 0,
    forwardMin: Number.POSITIVE_INFINITY,
    reverseMax: Number.NEGATIVE_INFINITY,
    forwardMinMean: Number.POSITIVE_INFINITY,
    reverseMaxMean: Number.NEGATIVE_INFINITY,
  };
  for (const [id, other] of matcher.peers(maxAsked)) {
    if (peers.pairs === MAX_PAIRS) break;
    const [a, b] = [differences(matcher.flow(id)), differences(matcher.flow(other))];
    const [ahead, back] = a.mean >= b.mean ? [a, b] : [b, a];
    peers.pairs++;
    peers.forwardPackets += ahead.count;
    peers.reversePackets += back.count;
    peers.forwardMin = Math.min(peers.forwardMin, ahead.minimum);
    peers.reverseMax = Math.max(peers.reverseMax, back.maximum);
    peers.forwardMinMean = Math.min(peers.forwardMinMean, ahead.mean);
    peers.reverseMaxMean = Math.max(peers.reverseMaxMean, back.mean);
  }
  return peers.pairs > 0 ? peers : null;
}

/**
 * Returns the middle between two groups of differences of answering flows, or null if there are not two. In one direction all differences are delays, and which
 * flow of a pair has the larger one is random: n and m packets of k pairs are split like this with probability 2^k / C(n + m, n).
 */
function splitOf(peers: Peers): number | null {
  const { pairs, forwardPackets: n, reversePackets: m } = peers;
  const apart = (upper: number, lower: number, above: number, below: number) =>
    upper > lower && pairs * Math.LN2 - lnChoose(above + below, below) < Math.log(CHANCE);
  if (apart(peers.forwardMin, peers.reverseMax, n, m)) return (peers.forwardMin + peers.reverseMax) / 2;
  if (apart(peers.forwardMinMean, peers.reverseMaxMean, pairs, pairs))
    return (peers.forwardMinMean + peers.reverseMaxMean) / 2;
  return null;
}

function lnChoose(n: number, k: number): number {
  return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1);
}

/** A reverse flow's delays are stored with the opposite sign. */
function differences(flow: ReturnType<ExactMatcher["flow"]>) {
  const { count, meanNs, minNs, maxNs } = required(flow.delay, "the delay of a flow with matched packets");
  return flow.direction === 2
    ? { count, mean: -meanNs, minimum: -maxNs, maximum: -minNs }
    : { count, mean: meanNs, minimum: minNs, maximum: maxNs };
}

const LONGEST_DELAY_NS = 10e9;
const TOGETHER_PPM = 0.01;
const SMALL_NS = 1e5;
/** Well-known offsets come from the clocks, not from the order of the files. */
const NAMED: ReadonlySet<string> = new Set(["tai-utc", "time-zone"]);

/** Judges which capture is the earlier point, from evidence that does not depend on the clocks, and from the clocks. */
export function judgeDirection(
  total: TotalResult,
  segment: SegmentReport,
  verdict: ClockVerdict,
  { twoWay, open, matched }: Pick<Directions, "twoWay" | "open" | "matched">,
): CompareReport["direction"] {
  if (matched === 0) {
    const alike = segment.matched > 0 ? "all packets seen at both points look alike" : null;
    return { order: "unclear", evidence: [alike ?? "no packet was seen at both points"] };
  }
  if (open)
    return {
      order: "unclear",
      evidence: ["hosts send to each other, and too few packets show which of them go from BEFORE to AFTER"],
    };
  // If packets go both ways, their directions are known: the clocks are not needed as evidence.
  const ways = twoWay ? TWO_WAY : clockFinding(total, verdict);
  const findings = [ttlFinding(total), ways, lossFinding(segment)];
  const known = findings.filter((f) => f !== null);
  const score = known.reduce((sum, f) => sum + f.score, 0);
  return {
    // Packets that only the second capture contains may also come from a time when the first was not running.
    order: score > 0 ? "as-given" : score < -1 ? "swapped" : "unclear",
    evidence: known.map((f) => f.evidence),
  };
}

/** `score` above 0: the captures are in the order of the packets. */
interface Finding {
  evidence: string;
  score: number;
}

const TWO_WAY: Finding = {
  evidence: "packets go both ways; directions are known from flows and their replies",
  score: 4,
};

function ttlFinding({ ttl, matched }: TotalResult): Finding | null {
  if (matched === 0) return null;
  if (ttl.lower > 0.9 * matched)
    return { evidence: "TTLs are lower in the second capture: it is the later point", score: 3 };
  if (ttl.higher > 0.9 * matched)
    return { evidence: "TTLs are higher in the second capture: it is the earlier point", score: -3 };
  return null;
}

function clockFinding(
  { negative, matched, delay }: TotalResult,
  { offset, swapped, skew }: ClockVerdict,
): Finding | null {
  if (negative > 0.9 * matched) {
    const many = `${formatCount(negative)} of ${formatCount(matched)} delays are negative`;
    // If the captures were swapped, the offset would be as large with the opposite sign: still not a delay.
    if ((delay?.maxNs ?? 0) < -LONGEST_DELAY_NS || NAMED.has(offset.kind))
      return { evidence: `${many}, by more than a delay can explain: the second clock is behind`, score: 0 };
    // Delays have a sharp lower edge and a long upper tail: the opposite shape shows swapped captures. So do timestamps with so little skew that a single clock
    // made both.
    const together =
      skew !== null &&
      Math.max(Math.abs(skew.lowPpm), Math.abs(skew.highPpm)) < TOGETHER_PPM &&
      (delay?.minNs ?? 0) > -SMALL_NS;
    return swapped || together
      ? {
          evidence: `${many}, and look like delays with the opposite sign: the second capture is the earlier point`,
          score: -2,
        }
      : {
          evidence: `${many}: the second clock is behind, or the second capture is the earlier point`,
          score: 0,
        };
  }
  const plain = offset.kind === "none" || offset.kind === "not-measurable";
  return negative === 0 && plain ? { evidence: "no delay is negative", score: 1 } : null;
}

function lossFinding({ lost, appeared }: SegmentReport): Finding | null {
  if (lost + appeared <= 20 || Math.max(lost, appeared) <= 5 * Math.min(lost, appeared)) return null;
  return appeared > lost
    ? {
        evidence: `${countOf(appeared, "packet")} only in the second capture and ${formatCount(lost)} only in the first: loss in the other direction`,
        score: -1,
      }
    : {
        evidence: `${countOf(lost, "packet")} only in the first capture and ${formatCount(appeared)} only in the second: loss in this direction`,
        score: 1,
      };
}
