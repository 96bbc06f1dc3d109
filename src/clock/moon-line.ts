/** The closest line below all points: Moon, Skelly and Towsley, "Estimation and Removal of Clock Skew from Network Delay Measurements" (INFOCOM 1999). Their
 * linear program (minimise the sum of vertical distances, with no point below the line) is solved by the edge of the lower convex hull at the mean abscissa,
 * because the objective depends on the line only through its height there.
 *
 * Exact for the given points. Its error falls with 1/n if delays have a sharp minimum, but a single point that is too low (a false match) tilts it, so callers
 * check it against an interval that such a point cannot move.
 */
import { lowerHullIndices } from "../base/math/regression.ts";

export interface Line {
  slope: number;
  /** Height at `atNs`. */
  valueNs: number;
  atNs: number;
}

/** `timeNs` in ascending order; returns null for fewer than two different times. */
export function moonLine(timeNs: Float64Array, valueNs: Float64Array, meanTimeNs: number): Line | null {
  const hull = lowerHullIndices(timeNs, valueNs);
  if (hull.length < 2) return null;
  let edge = 1;
  while (edge < hull.length - 1 && timeNs[hull[edge]!]! < meanTimeNs) edge++;
  const a = hull[edge - 1]!;
  const b = hull[edge]!;
  const slope = (valueNs[b]! - valueNs[a]!) / (timeNs[b]! - timeNs[a]!);
  return { slope, valueNs: valueNs[a]!, atNs: timeNs[a]! };
}
