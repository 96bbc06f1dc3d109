/** Attributes a step to a clock or to the path: compares a shift of the forward envelope with the reverse one and with each capture's own timestamps. */
import type { EnvelopePoints } from "./envelope.ts";
import { stepOfFew, usualRoundTrip } from "./few-steps.ts";
import { cut, findShifts, type LevelShift, shiftAround, shiftNearEnd } from "./steps.ts";
import type { TimestampReport } from "./timestamp-quality.ts";
import type { StepVerdict } from "./verdict.ts";

/** Sizes must agree within this share. */
const SAME_SIZE = 0.2;
/** A jump in a capture's own timestamps belongs to a step within this share of the span. */
const SAME_TIME = 1 / 16;

export function judgeSteps(
  forward: EnvelopePoints,
  reverse: EnvelopePoints,
  quantumNs: number,
  before: TimestampReport | null,
  after: TimestampReport | null,
): StepVerdict[] {
  if (forward.length === 0) return [];
  const spanNs = forward.timeNs[forward.length - 1]! - forward.timeNs[0]!;
  const lag = usualRoundTrip(forward, reverse);
  const back = findShifts(reverse, quantumNs);
  const steps = findShifts(forward, quantumNs).map((shift) => {
    const verdict = judge(shift, reverse, lag, { spanNs, before, after });
    const both = verdict.kind === "ambiguous" && back.some((b) => isSame(forward, shift, reverse, b, lag));
    return both ? { ...verdict, kind: "clock" as const, evidence: BOTH } : verdict;
  });
  for (const step of shownByReverse(forward, reverse, back, lag))
    if (!steps.some((s) => Math.abs(s.atNs - step.atNs) <= SAME_TIME * spanNs)) steps.push(step);
  const few = steps.length === 0 ? stepOfFew(forward, reverse, quantumNs) : null;
  if (few) steps.push({ ...few, kind: "clock", evidence: BOTH });
  steps.sort((a, b) => a.atNs - b.atNs);
  // A clock that is set and set back by the same amount is rarer than a detour or a queue that comes and goes.
  const pairs = steps.flatMap((b, i) => {
    const a = steps[i - 1];
    return a?.kind === "ambiguous" && b.kind === "ambiguous" && alike(a.sizeNs, -b.sizeNs) ? [a, b] : [];
  });
  for (const step of pairs) {
    step.kind = "delay";
    step.evidence = "the same shift comes and goes, as a detour does";
  }
  return steps;
}

const BOTH = "both directions step by the same amount";

/** Returns whether shifts of both directions are one clock step: as large, and at the same time, as far as packets next to them show it. */
function isSame(
  forward: EnvelopePoints,
  there: LevelShift,
  reverse: EnvelopePoints,
  back: LevelShift,
  lagNs: number,
): boolean {
  const overlap =
    back.atNs > pointBefore(forward, there.atNs) && pointBefore(reverse, back.atNs) <= there.atNs + lagNs;
  return overlap && alike(-back.sizeNs, there.sizeNs);
}

/** Returns the time of the last point before `atNs`. */
function pointBefore({ timeNs, length }: EnvelopePoints, atNs: number): number {
  let at = 0;
  while (at < length && timeNs[at]! < atNs) at++;
  return timeNs[at - 1] ?? Number.NEGATIVE_INFINITY;
}

function judge(
  shift: LevelShift,
  reverse: EnvelopePoints,
  /** If AFTER's clock was set, the reverse direction shows it a round trip later. */
  lagNs: number,
  {
    spanNs,
    before,
    after,
  }: { spanNs: number; before: TimestampReport | null; after: TimestampReport | null },
): StepVerdict {
  const jump = jumpOf(shift, spanNs, before, after);
  if (jump) return { ...shift, kind: "clock", evidence: jump };
  const shown = shownBeside(shift.sizeNs, reverse, [shift.atNs, shift.atNs + lagNs]);
  if (shown === "same")
    return { ...shift, kind: "clock", evidence: "the reverse direction steps by the same amount" };
  if (shown === "none") return { ...shift, kind: "delay", evidence: "the reverse direction does not step" };
  const evidence =
    reverse.length === 0 ? "from one direction a clock step and a path change look the same" : UNCLEAR;
  return { ...shift, kind: "ambiguous", evidence };
}

const UNCLEAR = "the other direction has too few packets there, or too much variation, to show which";

/** Returns what the other direction shows at one of two times: the same clock step, no step, or neither because its delays vary too much or packets are too few. */
function shownBeside(
  sizeNs: number,
  other: EnvelopePoints,
  times: readonly [number, number],
): "same" | "none" | "unclear" | "few" {
  const measured = times
    .map((atNs) => shiftAround(other, atNs) ?? shiftNearEnd(other, atNs))
    .filter((found) => found !== null);
  const shifts = measured
    .filter((found) => found.noiseNs < Math.abs(sizeNs) / 2)
    .map((found) => found.sizeNs);
  // Reverse values are negated, so a clock step shows with the opposite sign in the other direction.
  if (shifts.some((otherNs) => alike(-otherNs, sizeNs))) return "same";
  if (shifts.length === 2 && shifts.every((ns) => Math.abs(ns) < SAME_SIZE * Math.abs(sizeNs))) return "none";
  return measured.length === 0 ? "few" : "unclear";
}

/**
 * Steps that the forward direction does not show, because it has too few packets there or varies too much, but the reverse direction does. The clock must be the
 * cause if the forward packets shift by the same amount in the opposite sense, or if a round trip would take less than zero otherwise. If they show no step, the
 * reverse path changed: its delays are right.
 */
function shownByReverse(
  forward: EnvelopePoints,
  reverse: EnvelopePoints,
  shifts: readonly LevelShift[],
  lagNs: number,
): StepVerdict[] {
  return shifts.flatMap(({ atNs, sizeNs }): StepVerdict[] => {
    const [there, back] = [around(forward, atNs), around(reverse, atNs)];
    const step = { atNs, sizeNs: -sizeNs, kind: "clock" as const };
    const known = Number.isFinite(there.beforeNs) ? there.beforeNs : there.afterNs;
    const lowestNs = Math.min(back.beforeNs, back.afterNs);
    if (known + lowestNs < -Math.abs(sizeNs) / 2)
      return [{ ...step, evidence: "otherwise the two directions together would take less than zero" }];
    const shown = shownBeside(sizeNs, forward, [atNs - lagNs, atNs]);
    if (shown === "none") return [];
    if (shown === "same" || (shown === "few" && alike(there.afterNs - there.beforeNs, -sizeNs)))
      return [{ ...step, evidence: "both directions step by the same amount, in opposite senses" }];
    return varyAlike(reverse, atNs) ? [{ ...step, kind: "ambiguous", evidence: UNCLEAR }] : [];
  });
}

/** Points on one side of a step may vary this much more than those on the other. */
const ALIKE = 2;

/** Hosts and queues that are not ready yet hold packets for different times; a clock, or another path, adds the same to all. */
function varyAlike(points: EnvelopePoints, atNs: number): boolean {
  const sides = [cut(points, Number.NEGATIVE_INFINITY, atNs), cut(points, atNs, Number.POSITIVE_INFINITY)];
  const [few, many] = sides
    .toSorted((a, b) => a.length - b.length)
    .map(({ valueNs }) => Math.max(...valueNs) - Math.min(...valueNs));
  return (few ?? 0) <= ALIKE * (many ?? 0);
}

/** Number of points on either side of a step from which its size is read. */
const BESIDE = 8;

/** Returns the minimum of the points next to a time, on either side; Infinity without any. */
function around({ timeNs, valueNs, length }: EnvelopePoints, atNs: number) {
  let at = 0;
  while (at < length && timeNs[at]! < atNs) at++;
  return {
    beforeNs: Math.min(...valueNs.subarray(Math.max(0, at - BESIDE), at)),
    afterNs: Math.min(...valueNs.subarray(at, Math.min(length, at + BESIDE))),
  };
}

/** A jump of the same size in one capture's own timestamps: for a negative step, AFTER backward or BEFORE forward. */
function jumpOf(
  shift: LevelShift,
  spanNs: number,
  before: TimestampReport | null,
  after: TimestampReport | null,
): string | null {
  const near = (atNs: number) => Math.abs(atNs - shift.atNs) <= SAME_TIME * spanNs + Math.abs(shift.sizeNs);
  const backward = (shift.sizeNs < 0 ? after : before)?.backward.largest ?? [];
  for (const event of backward) {
    // A gap between packets hides a part of a backward step.
    if (
      near(event.atNs) &&
      event.sizeNs > Math.abs(shift.sizeNs) / 2 &&
      event.sizeNs <= Math.abs(shift.sizeNs) * 1.2
    ) {
      return `${shift.sizeNs < 0 ? "AFTER" : "BEFORE"}'s own timestamps jump backward there`;
    }
  }
  return null;
}

function alike(a: number, b: number): boolean {
  return Math.abs(a - b) <= SAME_SIZE * Math.max(Math.abs(a), Math.abs(b));
}
