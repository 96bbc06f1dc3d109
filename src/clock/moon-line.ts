/**
 * The line under all points that is nearest to them: Moon, Skelly and Towsley, "Estimation and Removal of Clock Skew
 * from Network Delay Measurements" (INFOCOM 1999). Their linear program (minimise the sum of vertical distances under
 * the constraint that no point lies below the line) is solved by the edge of the lower convex hull above the mean
 * abscissa, as the objective depends on the line only through its height there.
 *
 * Exact for the points given. Its error falls with 1/n where delays come down to a sharp minimum, but a single point
 * that is too low (a false match) tilts it, so callers check it against an interval that such a point cannot move.
 */
export interface Line {
  slope: number;
  /** Height at `atNs`. */
  valueNs: number;
  atNs: number;
}

/** `timeNs` in ascending order; null for fewer than two different times. */
export function moonLine(
  timeNs: ArrayLike<number>,
  valueNs: ArrayLike<number>,
  meanTimeNs: number,
): Line | null {
  const hull = lowerHull(timeNs, valueNs);
  if (hull.length < 2) return null;
  let edge = 1;
  while (edge < hull.length - 1 && timeNs[hull[edge]!]! < meanTimeNs) edge++;
  const a = hull[edge - 1]!;
  const b = hull[edge]!;
  const slope = (valueNs[b]! - valueNs[a]!) / (timeNs[b]! - timeNs[a]!);
  return { slope, valueNs: valueNs[a]!, atNs: timeNs[a]! };
}

/** Indices of the lower convex hull, left to right (monotone chain); of equal times the lowest is kept. */
export function lowerHull(x: ArrayLike<number>, y: ArrayLike<number>): number[] {
  const hull: number[] = [];
  for (let i = 0; i < x.length; i++) {
    const last = hull.at(-1);
    if (last !== undefined && x[last] === x[i]) {
      if (y[i]! >= y[last]!) continue;
      hull.pop();
    }
    while (hull.length >= 2) {
      const a = hull[hull.length - 2]!;
      const b = hull[hull.length - 1]!;
      const turn = (x[b]! - x[a]!) * (y[i]! - y[a]!) - (y[b]! - y[a]!) * (x[i]! - x[a]!);
      if (turn > 0) break;
      hull.pop();
    }
    hull.push(i);
  }
  return hull;
}
