/**
 * Logarithmic centres (MAPLE, section 3.1): the range of delays is divided into decades, each decade into equal sub-ranges, and a centre is in the middle of
 * its sub-range. Needs no knowledge of the traffic: the error of a packet within the range is at most half a sub-range, 45 % / (k per decade) of the decade's
 * start. Delays outside belong to the first or last centre.
 */
import { UsageError } from "../../../base/errors.ts";
import { type Centres, nearestCentres } from "./centres.ts";

export interface LogarithmicRange {
  lowNs: number;
  highNs: number;
}

/** The paper's range: 0.1 to 10,000 µs. */
export const PAPER_RANGE: LogarithmicRange = { lowNs: 100, highNs: 10_000_000 };

export function logarithmicCentres(k: number, range: LogarithmicRange = PAPER_RANGE): Centres {
  const { lowNs, highNs } = range;
  const decades = Math.log10(highNs / lowNs);
  if (!(lowNs > 0 && decades > 0)) {
    throw new UsageError(
      "bad-parameter",
      `delays from ${lowNs} to ${highNs} ns are not a range`,
      "the low end must be above 0 and below the high end",
    );
  }
  const parts = Math.max(1, Math.ceil(decades - 1e-9));
  const values: number[] = [];
  for (let part = 0; part < parts; part++) {
    const from = lowNs * 10 ** part;
    const to = Math.min(highNs, from * 10);
    // If the division leaves a remainder, the later decades get it, where sub-ranges are widest.
    const centres = Math.floor(((part + 1) * k) / parts) - Math.floor((part * k) / parts);
    for (let i = 0; i < centres; i++) values.push(from + ((i + 0.5) * (to - from)) / centres);
  }
  return nearestCentres(values);
}
