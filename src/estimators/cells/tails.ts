/**
 * Flows far from the common mean. A normal prior shrinks all flows towards the common mean, although some are four times as slow: their answers come out
 * too low, and their intervals do not hold. Student's t prior with few degrees of freedom has the tails that delays have. It is a normal prior whose
 * variance differs by flow, V_f = V (nu + E[theta^2] / V) / (nu + 1), found by solving again. Jitter also grows with the level.
 */
import type { Jitter } from "./jitter.ts";

const FREEDOM = 4;
/** Below this factor, solving again gains nothing. */
const WORTHWHILE = 1.3;

/** Returns the variances between flows that the first answers call for, or null if no flow is far off. `theta`: distance from the common mean. */
export function heavyTails(
  theta: Float64Array,
  variance: ArrayLike<number>,
  flowVariance: number,
): Float64Array | null {
  if (!(flowVariance > 0)) return null;
  let far = false;
  const out = theta.map((t, f) => {
    const v = variance[f]!;
    const square = Number.isNaN(v) ? flowVariance : t * t + v;
    const factor = (FREEDOM + square / flowVariance) / (FREEDOM + 1);
    if (factor > WORTHWHILE) far = true;
    return flowVariance * Math.max(1, factor);
  });
  return far ? out : null;
}

/** Returns the same jitter, with the part lent by other flows scaled to each flow's level: slow flows vary more. */
export function jitterByLevel(jitter: Jitter, levelNs: ArrayLike<number>): Jitter {
  const { variance, freedom, shared, common } = jitter;
  let [squares, total] = [0, 0];
  for (let f = 0; f < variance.length; f++) {
    const own = freedom[f]! - shared;
    squares += own * levelNs[f]! ** 2;
    total += own;
  }
  if (!(squares > 0 && total > 0)) return jitter;
  const perLevel = (common * total) / squares;
  return {
    ...jitter,
    variance: variance.map((v, f) => {
      const lent = Math.max(common, perLevel * levelNs[f]! ** 2);
      return v + (shared / freedom[f]!) * (lent - common);
    }),
  };
}
