/**
 * The first pairs of a pass are matched before the usual delay is known: if a capture starts late, or a packet was lost, an identical packet may have been
 * matched instead. Pairs of packets that occur repeatedly are compared with the others; if one is far off, another pass expects the differences that the others
 * showed, and defers the rest until all are known (kernels/match/certain.ts).
 */
import type { ExpectedDifferences, NsRange, OpeningPair } from "../match/match-types.ts";
import type { ExactMatcher } from "../match/matcher.ts";

/** Expected differences, as captured, up to a time at BEFORE (ns since 1970). */
export interface ExpectedOpening extends Omit<ExpectedDifferences, "untilNs"> {
  untilNs: bigint;
  /** False pairs were found outside of these bounds. */
  judged: boolean;
  /** The directions of the flows were known. */
  known: boolean;
}

/** Fewer pairs do not show the usual delay. */
const ENOUGH = 16;
/** The middle part of the pairs is assumed to be right, and is extended up to the first gap wider than FAR times its width plus FAR_AT_LEAST_NS. */
const MIDDLE = 0.1;
const FAR = 2;
/** A pair of a packet that occurs repeatedly is considered false at a smaller distance. */
const FAR_AGAIN = 0.25;
const FAR_AT_LEAST_NS = 1e6;
/** At most this many packets overtake others around a clock step. */
const FEW_AMONG = 2;

type Range = NsRange;

/** Returns null if no pair seems false, or if the pairs do not show the usual delay. `known`: so are the directions of the flows. */
export function expectedOpening(
  matcher: ExactMatcher,
  originNs: bigint,
  alignNs: number,
  known: boolean,
): ExpectedOpening | null {
  const pairs = [...matcher.opening()];
  const again = pairs.some((pair) => pair.again);
  const { before, after } = matcher.repeated;
  if (before + after === 0 && !again) return null;
  const single = pairs.filter((pair) => !pair.again);
  if (single.length < Math.max(ENOUGH, pairs.length / 2)) return null;
  const ranges = rangesOf(single);
  const suspects = pairs.filter((pair) => {
    const range = ranges(pair);
    return isEarly(pair, range) || (pair.again && isFar(pair, range, FAR_AGAIN));
  });
  // If several agree, with no usual pairs among them, a clock was set: they are as right as the others.
  const among = suspects.filter((one) => isAmong(one, pairs, ranges(one)));
  const agreed = suspects.filter((one) => {
    const marginNs = marginOf(ranges(one), FAR_AGAIN);
    const likeFalse = among.some((other) => Math.abs(other.differenceNs - one.differenceNs) <= marginNs);
    return !likeFalse && !isOther(one, ranges(one)) && agrees(one, pairs, ranges(one));
  });
  if (agreed.length === suspects.length) return null;
  const level = (pair: OpeningPair) => {
    const { lowNs, highNs } = ranges(pair);
    if (!agreed.includes(pair)) return widened({ lowNs, highNs }, FAR_AGAIN);
    const marginNs = marginOf({ lowNs, highNs }, FAR_AGAIN);
    return { lowNs: pair.differenceNs - marginNs, highNs: pair.differenceNs + marginNs };
  };
  const right = [...single, ...agreed];
  const ways = known ? byDirection(right, level, alignNs) : null;
  return { ...expectation(pairs, right.map(level), originNs, alignNs), ways, judged: true, known };
}

/** Returns the range of each direction; null if one of them has few pairs. */
function byDirection(
  pairs: readonly OpeningPair[],
  level: (pair: OpeningPair) => Range,
  alignNs: number,
): ExpectedOpening["ways"] {
  const [forward, reverse] = [true, false].map((way) => pairs.filter((pair) => pair.forward === way));
  if (!forward || !reverse || Math.min(forward.length, reverse.length) < ENOUGH) return null;
  const hull = (own: readonly OpeningPair[]) => {
    const levels = own.map(level);
    return {
      lowNs: Math.min(...levels.map((l) => l.lowNs)) + alignNs,
      highNs: Math.max(...levels.map((l) => l.highNs)) + alignNs,
    };
  };
  return { forward: hull(forward), reverse: hull(reverse) };
}

/** The expectation as a pass needs it: on its time axis, and aligned. */
export function alignedOpening(
  { untilNs, lowNs, highNs, gap, ways }: ExpectedOpening,
  originNs: bigint,
  alignNs: number,
): ExpectedDifferences {
  const aligned = (range: Range) => ({ lowNs: range.lowNs - alignNs, highNs: range.highNs - alignNs });
  return {
    untilNs: Number(untilNs - originNs),
    ...aligned({ lowNs, highNs }),
    gap: gap && aligned(gap),
    ways: ways && { forward: aligned(ways.forward), reverse: aligned(ways.reverse) },
  };
}

/** Expectation for a pass that reads the captures in another order: identical packets may meet before any others do. Null without identical packets. */
export function shownOpening(
  matcher: ExactMatcher,
  originNs: bigint,
  alignNs: number,
): ExpectedOpening | null {
  const { before, after } = matcher.repeated;
  if (before + after === 0) return null;
  const pairs = [...matcher.opening()];
  if (pairs.length < ENOUGH) return null;
  const ranges = pairs.map(rangesOf(pairs)).map((range) => widened(range, FAR));
  return expectation(pairs, ranges, originNs, alignNs);
}

/** Range of the pairs of each direction; of all pairs if one of the directions has few. */
function rangesOf(pairs: readonly OpeningPair[]): (pair: OpeningPair) => Range {
  const forward = pairs.filter((pair) => pair.forward);
  const back = pairs.filter((pair) => !pair.forward);
  if (forward.length < ENOUGH || back.length < ENOUGH) {
    const all = rangeOf(pairs);
    return () => all;
  }
  const [there, here] = [rangeOf(forward), rangeOf(back)];
  return (pair) => (pair.forward ? there : here);
}

function widened(range: Range, far: number): Range {
  const marginNs = marginOf(range, far);
  return { lowNs: range.lowNs - marginNs, highNs: range.highNs + marginNs };
}

function expectation(
  pairs: readonly OpeningPair[],
  ranges: readonly Range[],
  originNs: bigint,
  alignNs: number,
): ExpectedOpening {
  const [first, ...rest] = ranges.toSorted((a, b) => a.lowNs - b.lowNs);
  let highNs = first?.highNs ?? 0;
  let gap: Range | null = null;
  for (const range of rest) {
    const widthNs = gap === null ? 0 : gap.highNs - gap.lowNs;
    if (range.lowNs - highNs > widthNs) gap = { lowNs: highNs + alignNs, highNs: range.lowNs + alignNs };
    highNs = Math.max(highNs, range.highNs);
  }
  return {
    untilNs: lastOf(pairs, originNs),
    lowNs: (first?.lowNs ?? 0) + alignNs,
    highNs: highNs + alignNs,
    gap,
    ways: null,
    judged: false,
    known: false,
  };
}

/** Time at which all these pairs had been seen, ns since 1970. */
function lastOf(pairs: readonly OpeningPair[], originNs: bigint): bigint {
  const lastNs = Math.max(...pairs.map(({ atNs, differenceNs }) => atNs + Math.max(0, differenceNs)));
  return originNs + BigInt(Math.ceil(lastNs));
}

const marginOf = ({ lowNs, highNs }: Range, far: number) => far * (highNs - lowNs) + FAR_AT_LEAST_NS;

function isFar({ differenceNs }: OpeningPair, range: Range, far: number): boolean {
  const marginNs = marginOf(range, far);
  return differenceNs < range.lowNs - marginNs || differenceNs > range.highNs + marginNs;
}

/** The difference with the identical packet that was seen later is a usual one: that is the partner. */
function isOther({ otherNs, ...pair }: OpeningPair, range: Range): boolean {
  return !Number.isNaN(otherNs) && !isFar({ ...pair, otherNs, differenceNs: otherNs }, range, FAR_AGAIN);
}

/** Packets may be late, but never early. */
function isEarly(pair: OpeningPair, range: Range): boolean {
  return (
    isFar(pair, range, FAR) &&
    (pair.forward ? pair.differenceNs < range.lowNs : pair.differenceNs > range.highNs)
  );
}

function agrees(one: OpeningPair, pairs: readonly OpeningPair[], { lowNs, highNs }: Range): boolean {
  const nearNs = Math.min(highNs - lowNs, FAR_AT_LEAST_NS);
  return pairs.some(
    (other) =>
      other !== one &&
      other.forward === one.forward &&
      Math.abs(other.differenceNs - one.differenceNs) <= nearNs,
  );
}

/** Returns whether it was found between usual pairs of its direction: no clock was set there and back, but identical packets come at a steady pace. */
function isAmong(one: OpeningPair, pairs: readonly OpeningPair[], range: Range): boolean {
  const place = pairs.indexOf(one);
  const others = pairs.map(
    (pair) => !pair.again && pair.forward === one.forward && !isFar(pair, range, FAR_AGAIN),
  );
  const earlier = others.slice(0, place).filter(Boolean).length;
  const later = others.slice(place + 1).filter(Boolean).length;
  return Math.min(earlier, later) > FEW_AMONG;
}

/** Extends the middle part up to the first gap on either side. */
function rangeOf(pairs: readonly OpeningPair[]): Range {
  const sorted = pairs.map(({ differenceNs }) => differenceNs).sort((a, b) => a - b);
  let from = Math.floor(MIDDLE * sorted.length);
  let to = sorted.length - 1 - from;
  const valueAt = (i: number) => sorted[i] ?? Number.NaN;
  const farNs = () => marginOf({ lowNs: valueAt(from), highNs: valueAt(to) }, FAR);
  while (from > 0 && valueAt(from) - valueAt(from - 1) <= farNs()) from--;
  while (to < sorted.length - 1 && valueAt(to + 1) - valueAt(to) <= farNs()) to++;
  return { lowNs: valueAt(from), highNs: valueAt(to) };
}
