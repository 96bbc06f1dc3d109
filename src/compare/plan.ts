/**
 * How a pass over two captures reads them, and what changes after it. A pass starts from assumptions (how many bytes of each packet both captures contain, the
 * clock offset, which way packets go). `nextPlan` takes its evidence, and confirms the plan or returns what the next pass does differently. Pure: only
 * compare.ts reads files.
 */
import type { CaptureStatistics } from "../capture/reader.ts";
import { type Alignment, MIN_PAIRS } from "../clock/alignment.ts";
import { type Correction, type CorrectionMode, correction } from "../clock/correction.ts";
import type { ClockVerdict } from "../clock/verdict.ts";
import type { DelaySums } from "../match/flow-result.ts";
import type { CorrectionPieces, KnownWays } from "../match/match-types.ts";
import type { SampledAlignment } from "./alignment.ts";
import type { ExpectedOpening } from "./opening.ts";
import type { DecidedBy } from "./ways.ts";

/** Part of the captures that a pass reads: the first packets of each, or everything. */
export type Extent = { kind: "look-ahead"; rows: number } | { kind: "whole" };

/** Direction of a flow when its first packet is matched. */
export type Ways =
  /** From BEFORE to AFTER, until a pass shows otherwise. */
  | { kind: "assumed-forward" }
  /** From BEFORE to AFTER: settled. */
  | { kind: "one-way" }
  /** From BEFORE to AFTER if its first difference (after - before, as aligned) is at least this; else the other way. */
  | { kind: "split"; atNs: number }
  /** As an earlier pass showed for each flow (ways.ts). */
  | { kind: "known"; flows: KnownWays };

export type ClockCorrection = { kind: "none" } | ({ kind: "line" } & CorrectionLine);

/** delay = difference - offset - slope * (time at AFTER - pivot) - offset of its piece; minus `reverseNs` in the reverse direction. */
export interface CorrectionLine {
  offsetNs: number;
  slope: number;
  pivotNs: number;
  reverseNs: number;
  /** Pieces between clock steps. */
  pieces: CorrectionPieces | null;
}

export interface PassPlan {
  /** Digest coverage that both captures contain. */
  cover: number;
  /** AFTER's clock minus BEFORE's, as far as it must be removed for packets to match within the window; added back to the delays. */
  alignNs: number;
  ways: Ways;
  correction: ClockCorrection;
  /** Expected first differences, if an identical packet was matched without them. */
  expected: ExpectedOpening | null;
  /** Maximum time by which BEFORE is read ahead of AFTER: long enough for AFTER clocks that are behind, short enough for the cache. */
  leadNs: number;
  extent: Extent;
  /** How long evidence of directions is gathered if hosts do not answer each other: an answer may come late. */
  gatherWays: "while-on-trial" | "to-the-end";
  /** Results of earlier passes. */
  settled: {
    /** Equal digests were searched anywhere in both captures. */
    alignment: boolean;
    /** Enough packets matched, and no two flows answered each other. */
    noAnswers: boolean;
    /** Number of passes made to apply a clock correction. */
    corrections: number;
  };
}

/** What the directions of a pass's flows show (direction.ts). */
export interface Directions {
  matched: number;
  /** Packets go both ways in these captures. */
  twoWay: boolean;
  /** The ways that separate the directions; if they differ from the plan's, another pass is due. */
  ways: Ways;
  /** Flows that answer each other; null if that was not examined. */
  peers: number | null;
  /** Hosts answer each other, but the evidence was not gathered. */
  lateAnswers: boolean;
  /** Packets may go one way or both, or the directions may be swapped: too few packets show it. */
  open: boolean;
  /** How the directions of flows were decided, if they were decided one by one. */
  decidedBy: DecidedBy | null;
}

/** Whether both captures were searched completely for equal packets, and the result. */
export type AlignmentEvidence = { kind: "not-sampled" } | { kind: "sampled"; found: SampledAlignment | null };

/** The evidence of a pass. */
export interface PassEvidence {
  before: Pick<CaptureStatistics, "ipPackets" | "shorts">;
  after: Pick<CaptureStatistics, "ipPackets" | "shorts">;
  /** Delays from BEFORE to AFTER; null if none was matched. */
  forward: DelaySums | null;
  directions: Directions;
  rereadable: boolean;
  /** The pass ended at its limit, not at the captures' ends. */
  limited: boolean;
  alignment: AlignmentEvidence;
  /** The directions of all flows, if packets go both ways. */
  knownWays: () => KnownWays;
  /** Expected first differences, if the first pairs contradict them; null otherwise. */
  opening: () => ExpectedOpening | null;
  /** What the first pairs show, if there are identical packets; null otherwise. */
  shown: () => ExpectedOpening | null;
  verdict: () => ClockVerdict;
}

/** Options of the caller. */
export interface PlanWishes {
  windowNs: number;
  mode: CorrectionMode;
  /** The coverage was set by the user: it stays. */
  fixedCover: boolean;
}

export type Decision =
  | { kind: "stands"; plan: PassPlan }
  /** Needs a search of both captures for equal packets: call again with its result. */
  | { kind: "sample-alignment" }
  | { kind: "again"; plan: PassPlan; why: Revision };
export type Revision = "coverage" | "alignment" | "directions" | "lead" | "extent" | "repeats" | "correction";

export const LOOK_AHEAD = 16_384;
/** An IPv4 header and 8 bytes: fewer bytes do not identify a packet. Packets captured with less are hashed as far as they go. */
const MIN_COVER = 28;
/** If at most this share of packets is captured shorter than the others, they do not reduce the coverage of the rest. */
const ODD_SHARE = 0.001;
/** With this many matched packets in the look ahead, flows that answer each other would have shown. */
const ENOUGH_MATCHED = 1000;
const SHORT_LEAD_NS = 8e6;
/** Below this share of matches (of the possible ones) a clock offset is suspected. */
const FEW_MATCHES = 0.05;
/** Matched packets may be identical ones, a window or more away from their true partners: below this share of matches, the distinct packets are located. */
const FEW_DISTINCT = 0.5;
/** If more than this share of packets has no partner, and the clocks differ by this fraction of the window, partners are searched beyond it. */
const BEYOND = 0.02;
const FAR_OFF = 4;
/** BEFORE is ahead of AFTER by at least this fraction of the lead (pair-feed.ts). */
const SURE_LEAD = 4;

export function firstPlan(cover: number, windowNs: number): PassPlan {
  return {
    cover,
    alignNs: 0,
    ways: { kind: "split", atNs: 0 },
    correction: { kind: "none" },
    expected: null,
    leadNs: Math.min(windowNs / 8, SHORT_LEAD_NS),
    extent: { kind: "whole" },
    gatherWays: "while-on-trial",
    settled: { alignment: false, noAnswers: false, corrections: 0 },
  };
}

export function correctionLine(correction: ClockCorrection): CorrectionLine {
  return correction.kind === "line"
    ? correction
    : { offsetNs: 0, slope: 0, pivotNs: 0, reverseNs: 0, pieces: null };
}

export function sameWays(a: Ways, b: Ways): boolean {
  return a.kind === b.kind && (a.kind !== "split" || b.kind !== "split" || a.atNs === b.atNs);
}

/** The smallest difference of a flow that goes from BEFORE to AFTER. */
export function splitNs(ways: Ways): number {
  return ways.kind === "split" ? ways.atNs : Number.NEGATIVE_INFINITY;
}

/** Returns the plan after a pass: the same, or with the first thing changed that the pass shows to be wrong. */
export function nextPlan(plan: PassPlan, evidence: PassEvidence, wishes: PlanWishes): Decision {
  const settled = { ...plan.settled };
  if (evidence.limited) settled.noAnswers ||= showsNoAnswers(evidence.directions);
  settled.alignment ||= evidence.alignment.kind === "sampled";
  const known: PassPlan = { ...plan, settled };
  // A corrected pass is the last: its evidence was seen through the correction.
  if (plan.correction.kind === "none") {
    const cover = wishes.fixedCover ? plan.cover : commonCover(plan.cover, evidence);
    if (cover < plan.cover) return { kind: "again", plan: { ...known, cover }, why: "coverage" };
    const expected = isJudged(plan) ? plan.expected : (evidence.opening() ?? plan.expected);
    if (expected !== plan.expected) return { kind: "again", plan: { ...known, expected }, why: "repeats" };
    if (evidence.alignment.kind === "not-sampled" && needsAlignment(plan, evidence, wishes.windowNs))
      return { kind: "sample-alignment" };
    const decision =
      alignedPlan(known, evidence, wishes.windowNs) ??
      matchedPlan(known, evidence.directions, evidence.forward, wishes.windowNs);
    if (decision) return informed(decision, evidence);
  }
  if (plan.extent.kind === "look-ahead" && evidence.limited)
    return { kind: "again", plan: { ...known, extent: { kind: "whole" } }, why: "extent" };
  return correctedPlan(known, evidence, wishes.mode) ?? { kind: "stands", plan: known };
}

/** Once the directions of flows are known, their first differences are judged by those of their direction. */
function isJudged({ expected, ways }: PassPlan): boolean {
  return expected?.judged === true && (expected.known || ways.kind !== "known");
}

/** A pass that reads the captures in another order starts with the expectation from this pass's first pairs. */
function informed(decision: Decision, { shown }: PassEvidence): Decision {
  if (decision.kind !== "again" || decision.why !== "lead" || decision.plan.expected !== null)
    return decision;
  const expected = shown();
  const { kind } = decision.plan.ways;
  // With one direction only, packets may be later than the first ones by any amount.
  const late = expected && (kind === "one-way" || kind === "assumed-forward");
  const bounds = late ? { ...expected, highNs: Number.POSITIVE_INFINITY } : expected;
  return { ...decision, plan: { ...decision.plan, expected: bounds } };
}

export function showsNoAnswers({ peers, matched }: Directions): boolean {
  return peers === null && matched >= ENOUGH_MATCHED;
}

/** Bytes from the IP header on that (nearly) all packets of both captures contain, up to the requested coverage. */
function commonCover(cover: number, { before, after }: PassEvidence): number {
  return Math.max(MIN_COVER, Math.min(visibleTo(before, cover), visibleTo(after, cover)));
}

function visibleTo({ shorts, ipPackets }: PassEvidence["before"], cover: number): number {
  let cut = 0;
  for (const [size, packets] of shorts) {
    cut += packets;
    if (cut > ODD_SHARE * ipPackets) return size;
  }
  return cover;
}

function needsAlignment({ settled, alignNs }: PassPlan, evidence: PassEvidence, windowNs: number): boolean {
  const { before, after, directions, forward, rereadable, limited } = evidence;
  const packets = Math.min(before.ipPackets, after.ipPackets);
  if (settled.alignment || limited || !rereadable || packets < MIN_PAIRS) return false;
  if (directions.matched < FEW_DISTINCT * packets) return true;
  // The clock is off by a large part of the window, and was set: packets beyond the window have no partner in either capture.
  const offNs = Math.abs((forward?.meanNs ?? 0) - alignNs);
  return offNs > windowNs / FAR_OFF && packets - directions.matched > BEYOND * packets;
}

/** An offset within the window does not keep packets from matching. */
function alignedPlan(plan: PassPlan, evidence: PassEvidence, windowNs: number): Decision | null {
  const { alignment } = evidence;
  const found = alignment.kind === "sampled" ? alignment.found : null;
  if (!found) return null;
  const far = Math.abs(found.offsetNs) > windowNs && outdoes(found, evidence);
  const alignNs = middleOfPieces(found, windowNs) ?? (far ? found.offsetNs : null);
  if (alignNs === null) return null;
  return { kind: "again", plan: { ...plan, alignNs, ways: { kind: "assumed-forward" } }, why: "alignment" };
}

/** Hardly anything was matched, or only identical packets: hardly any of the distinct ones is within the window. */
function outdoes({ distinct, within }: SampledAlignment, evidence: PassEvidence): boolean {
  const share = evidence.directions.matched / Math.min(evidence.before.ipPackets, evidence.after.ipPackets);
  if (share < FEW_MATCHES || share >= FEW_DISTINCT) return true;
  return distinct >= MIN_PAIRS && within < FEW_MATCHES * distinct;
}

/** If a clock was set, and only one of the two offsets is within the window: the alignment that brings both into it. */
function middleOfPieces(
  { offsetNs, runnerUp, runnerUpNs, total }: Alignment,
  windowNs: number,
): number | null {
  if (runnerUpNs === null || runnerUp < Math.max(MIN_PAIRS, BEYOND * total)) return null;
  const [nearNs, farNs] = [offsetNs, runnerUpNs].map(Math.abs).sort((a, b) => a - b) as [number, number];
  if (nearNs > windowNs || farNs <= windowNs || Math.abs(offsetNs - runnerUpNs) > windowNs) return null;
  return Math.round((offsetNs + runnerUpNs) / 2);
}

/** Returns a plan with other directions, aligned clocks or a longer lead, if the matched packets show that it is needed. */
export function matchedPlan(
  plan: PassPlan,
  { ways, lateAnswers }: Directions,
  forward: DelaySums | null,
  windowNs: number,
): Decision | null {
  if (lateAnswers) return { kind: "again", plan: { ...plan, gatherWays: "to-the-end" }, why: "directions" };
  if (!sameWays(ways, plan.ways)) {
    // What was expected without the directions may be the range of the other one.
    const unknown = plan.expected?.judged === true && !plan.expected.known;
    const expected = ways.kind === "known" && unknown ? null : plan.expected;
    return { kind: "again", plan: { ...plan, ways, expected }, why: "directions" };
  }
  // Packets that arrive before they are sent, by their timestamps: BEFORE must be read further ahead to see their order.
  const { minNs = plan.alignNs, meanNs = plan.alignNs } = forward ?? {};
  const earlyNs = -Math.min(0, minNs - plan.alignNs);
  // If that lead would take several windows of memory, the clocks are aligned instead.
  if (earlyNs > windowNs / SURE_LEAD && meanNs - plan.alignNs < -windowNs / (2 * SURE_LEAD)) {
    const shifted: Ways = ways.kind === "split" ? { kind: "split", atNs: ways.atNs + earlyNs } : ways;
    return { kind: "again", plan: { ...plan, alignNs: plan.alignNs - earlyNs, ways: shifted }, why: "lead" };
  }
  const leadNs = Math.min(windowNs, 8 * earlyNs);
  return leadNs > plan.leadNs ? { kind: "again", plan: { ...plan, leadNs }, why: "lead" } : null;
}

/** The first correction may change which packets are paired, and so the evidence: then a second one follows. */
const MAX_CORRECTIONS = 2;

function waysShown(ways: Ways, { twoWay, matched }: Directions, knownWays: () => KnownWays): Ways {
  if (ways.kind === "known" || matched === 0) return ways;
  return twoWay ? { kind: "known", flows: knownWays() } : { kind: "one-way" };
}

function correctedPlan(
  plan: PassPlan,
  { verdict, directions, knownWays }: PassEvidence,
  mode: CorrectionMode,
): Decision | null {
  if (plan.settled.corrections === MAX_CORRECTIONS || mode === "asis") return null;
  const judged = verdict();
  const applied = correction(judged, mode);
  const { offsetNs, slope, pivotNs, reverseNs } = applied;
  const pieces = piecesOf(judged, applied);
  const line: CorrectionLine = { offsetNs, slope, pivotNs, reverseNs, pieces };
  const removed = (c: CorrectionLine) => c.pieces?.list.length ?? 0;
  const nothing = offsetNs === 0 && slope === 0 && pieces === null;
  // A corrected pass may additionally show a step that could not be distinguished from a path change before.
  if (plan.correction.kind === "none" ? nothing : removed(line) <= removed(plan.correction)) return null;
  const settled = { ...plan.settled, corrections: plan.settled.corrections + 1 };
  // Keep the directions that the delays as captured showed: the correction was derived with them.
  const ways = directions.open ? plan.ways : waysShown(plan.ways, directions, knownWays);
  return {
    kind: "again",
    plan: { ...plan, ways, correction: { kind: "line", ...line }, settled },
    why: "correction",
  };
}

/**
 * Accuracy of a step's position as a share of the capture, by times at BEFORE of forward packets: those that arrive after it. Reverse packets meet it up to a
 * round trip later.
 */
const STEP_PLACE = 1 / 512;
/** With few packets, the accuracy in packets. */
const STEP_PACKETS = 4;
const ROUND_TRIPS = 4;

/** The steps as the matcher needs them; null if none is removed. */
function piecesOf(verdict: ClockVerdict, { pieces, offsetNs, slope }: Correction): CorrectionPieces | null {
  // Times at AFTER, from which the slope is computed, move with the step.
  const list = pieces.flatMap(({ fromNs, removedNs }) =>
    fromNs === null ? [] : [{ fromNs, offsetNs: (1 - slope) * (removedNs - offsetNs) }],
  );
  // A wandering clock changes little from piece to piece: the exact position does not matter.
  if (list.length > 0 && verdict.pieces.length === 0)
    return { list, guardNs: 0, usualNs: { forward: 0, reverse: 0 } };
  const [first] = verdict.pieces;
  if (list.length === 0 || !first) return null;
  const { levelNs, reverseLevelNs } = first;
  const roundTripNs = levelNs !== null && reverseLevelNs !== null ? levelNs + reverseLevelNs : 0;
  const unseenNs = Math.max(...verdict.pieces.map((piece) => piece.unseenNs));
  return {
    list,
    guardNs:
      (STEP_PLACE + STEP_PACKETS / Math.max(1, verdict.pairs.forward)) * verdict.spanNs +
      ROUND_TRIPS * Math.max(0, roundTripNs) +
      unseenNs,
    usualNs: {
      forward: (first.levelNs ?? offsetNs) - offsetNs,
      reverse: -(first.reverseLevelNs ?? -offsetNs) - offsetNs,
    },
  };
}
