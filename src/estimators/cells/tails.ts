/**
 * Flows far from the common mean. A normal prior draws them to it as it draws all others, though some flows are four times as slow as the mean: their answers come
 * out too low, and their intervals do not hold. Student's prior of few degrees of freedom has the tails that delays have; it is a normal one whose variance
 * differs from flow to flow, V_f = V (nu + E[theta^2] / V) / (nu + 1), found by solving again. Jitter grows with the level too.
 */
import type { Jitter } from "./jitter.ts";

const FREEDOM = 4;
/** Below this factor nothing is gained by solving again. */
const WORTHWHILE = 1.3;

/** Variances between flows as the first answers ask for; null where no flow is far off. `theta`: distance from the common mean. */
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

/** The same jitter, but what is lent to a flow by others is scaled to its level: slow flows vary more. */
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
