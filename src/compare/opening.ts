/**
 * The first pairs of a pass are matched before the usual delay is known: if a capture starts late, or a packet was lost, an identical packet may have been
 * matched instead. Pairs of packets that occur repeatedly are compared with the others; if one is far off, another pass expects the differences that the others
 * showed, and defers the rest until all are known (kernels/match/certain.ts).
 */
import type { OpeningPair } from "../match/match-types.ts";
import type { ExactMatcher } from "../match/matcher.ts";

/** Expected differences, as captured, up to a time at BEFORE (ns since 1970). */
export interface ExpectedOpening {
  untilNs: bigint;
  lowNs: number;
  highNs: number;
}

/** Fewer pairs do not show the usual delay. */
const ENOUGH = 16;
/** The middle part of the pairs is assumed to be right, and is extended up to the first gap wider than FAR times its width plus FAR_AT_LEAST_NS. */
const MIDDLE = 0.1;
const FAR = 2;
/** A pair of a packet that occurs repeatedly is considered false at a smaller distance. */
const FAR_AGAIN = 0.25;
const FAR_AT_LEAST_NS = 1e6;

interface Range {
  lowNs: number;
  highNs: number;
}

/** Returns null if no pair seems false, or if the pairs do not show the usual delay. */
export function expectedOpening(
  matcher: ExactMatcher,
  originNs: bigint,
  alignNs: number,
): ExpectedOpening | null {
  const pairs = [...matcher.opening()];
  const again = pairs.some((pair) => pair.again);
  const { before, after } = matcher.repeated;
  if (before + after === 0 && !again) return null;
  const single = pairs.filter((pair) => !pair.again).map(({ differenceNs }) => differenceNs);
  if (single.length < Math.max(ENOUGH, pairs.length / 2)) return null;
  const range = rangeOf(single);
  const suspects = pairs.filter(
    (pair) => isEarly(pair, range) || (pair.again && isFar(pair, range, FAR_AGAIN)),
  );
  // If several agree, a clock was set: they are as right as the others.
  const agreed = suspects.filter((one) => agrees(one, pairs, range));
  if (agreed.length === suspects.length) return null;
  const seenNs = agreed.map(({ differenceNs }) => differenceNs);
  const marginNs = marginOf(range, FAR_AGAIN);
  const lastNs = Math.max(...pairs.map(({ atNs, differenceNs }) => atNs + Math.max(0, differenceNs)));
  return {
    untilNs: originNs + BigInt(Math.ceil(lastNs)),
    lowNs: Math.min(range.lowNs, ...seenNs) - marginNs + alignNs,
    highNs: Math.max(range.highNs, ...seenNs) + marginNs + alignNs,
  };
}

const marginOf = ({ lowNs, highNs }: Range, far: number) => far * (highNs - lowNs) + FAR_AT_LEAST_NS;

function isFar({ differenceNs }: OpeningPair, range: Range, far: number): boolean {
  const marginNs = marginOf(range, far);
  return differenceNs < range.lowNs - marginNs || differenceNs > range.highNs + marginNs;
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
  return pairs.some((other) => other !== one && Math.abs(other.differenceNs - one.differenceNs) <= nearNs);
}

/** Extends the middle part up to the first gap on either side. */
function rangeOf(differencesNs: readonly number[]): Range {
  const sorted = [...differencesNs].sort((a, b) => a - b);
  let from = Math.floor(MIDDLE * sorted.length);
  let to = sorted.length - 1 - from;
  const valueAt = (i: number) => sorted[i] ?? Number.NaN;
  const farNs = () => marginOf({ lowNs: valueAt(from), highNs: valueAt(to) }, FAR);
  while (from > 0 && valueAt(from) - valueAt(from - 1) <= farNs()) from--;
  while (to < sorted.length - 1 && valueAt(to + 1) - valueAt(to) <= farNs()) to++;
  return { lowNs: valueAt(from), highNs: valueAt(to) };
}
