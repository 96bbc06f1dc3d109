/**
 * Number of independent samples of delays for a target error of the mean. The error is normal with standard deviation variation / sqrt(samples), as long as
 * samples are further apart than the delays' correlation; bursts make it worse.
 */
import { UsageError } from "../../base/errors.ts";

/** Mean of |z| for a standard normal z. */
const MEAN_ABSOLUTE = Math.sqrt(2 / Math.PI);

export const INDEPENDENCE_NOTE =
  "basis: samples are independent; if delays stay similar for longer than samples are apart, errors are larger";

/** Expected relative error of the mean of this many samples; null for fewer than one. */
export function sampleError(variation: number, samples: number): number | null {
  return samples < 1 ? null : (MEAN_ABSOLUTE * variation) / Math.sqrt(samples);
}

export function samplesFor(variation: number, error: number): number {
  return Math.max(1, ((MEAN_ABSOLUTE * variation) / error) ** 2);
}

/** Baselines can be sized for an error only. */
export function refuseReliability(name: string, reliability: number | null | undefined): void {
  if (reliability === undefined || reliability === null) return;
  throw new UsageError("bad-parameter", `${name} is not sized for a reliability`, "give ‘error’");
}
