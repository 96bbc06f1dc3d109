/** Trust in the delays: the worst of all findings. verdict.ts defines the levels. */
import { type CorrectionMode, clockUncertainty, followed, removesStep } from "./correction.ts";
import { LONGEST_DELAY_NS } from "./offset.ts";
import type { ClockVerdict, Trust } from "./verdict.ts";

const LEVELS: readonly Trust[] = ["good", "usable", "doubtful", "unusable"];
const worst = (a: Trust, b: Trust): Trust => (LEVELS.indexOf(a) >= LEVELS.indexOf(b) ? a : b);
/** With a resolution coarser than this many typical delays the delays mean nothing; coarser than a tenth, little. */
const COARSE_UNUSABLE = 10;
const COARSE_USABLE = 0.1;
/** Packets out of order in time: below this share they are outliers, above it the timestamps are at fault. */
const MANY_NEGATIVE = 0.01;
const MANY_BACKWARD = 0.001;
/** A drift over the whole capture below this share of the typical delay may remain. */
const SMALL_DRIFT = 0.01;
const BATCHED_SHARE = 0.01;
/** A drift that cannot be excluded does not matter below this share of the typical delay. */
const UNCERTAIN_USABLE = 0.25;

/**
 * Judges the delays as reported, with the correction of `mode` applied. `typicalNs`: median of the envelope without offset and drift; `quantumNs`: resolutions
 * of both timestamps together.
 */
export function judgeTrust(
  verdict: ClockVerdict,
  typicalNs: number | null,
  quantumNs: number,
  mode: CorrectionMode,
): Trust {
  if (typicalNs === null) return "unusable";
  const typical = Math.abs(typicalNs);
  return [
    byResolution(quantumNs, typical),
    byOffset(verdict, mode, typical),
    byNegativeDelays(verdict, quantumNs, mode),
    byDrift(verdict, mode, typical),
    byUncertainty(verdict, mode, typical),
    byImpossible(verdict, mode, typical),
    byTimestamps(verdict, "before", typical),
    byTimestamps(verdict, "after", typical),
  ].reduce(worst);
}

function byResolution(quantumNs: number, typical: number): Trust {
  if (quantumNs <= 2) return "good";
  if (quantumNs > COARSE_UNUSABLE * typical) return "unusable";
  return quantumNs > COARSE_USABLE * typical ? "usable" : "good";
}

function byOffset(verdict: ClockVerdict, mode: CorrectionMode, typical: number): Trust {
  const { mode: ways, swapped, pieces, steps } = verdict;
  const twoWay = ways === "two-way";
  // In one direction the pieces are brought to the level of the first.
  const joined = !twoWay && steps.some((s) => removesStep(verdict, s.kind, mode));
  const offset = (joined ? pieces[0]?.offset : null) ?? verdict.offset;
  const order: Trust = swapped ? "doubtful" : "good";
  if (followed(verdict, mode)) return worst(order, "usable");
  switch (offset.kind) {
    case "unknown":
      return worst(order, twoWay ? "unusable" : mode === "relative" ? "usable" : "doubtful");
    case "constant":
      if (!twoWay) return worst(order, mode === "relative" ? "usable" : "doubtful");
      return worst(order, mode === "asis" ? leftIn(offset.estimateNs, typical) : "usable");
    case "tai-utc":
    case "time-zone":
      return worst(order, mode === "asis" ? leftIn(offset.estimateNs, typical) : "usable");
    case "not-measurable":
      return worst(order, "usable");
    case "none":
      return mode === "relative" ? order : worst(order, unseenOffset(offset, typical));
  }
}

/** Both directions agree with equal clocks, but also with any offset up to the minimum delay of either direction. */
function unseenOffset({ lowNs, highNs }: ClockVerdict["offset"], typical: number): Trust {
  const boundNs = Math.max(Math.abs(lowNs ?? 0), Math.abs(highNs ?? 0));
  return boundNs > UNCERTAIN_USABLE * typical ? "usable" : "good";
}

/** A known offset that is still in the delays. */
function leftIn(offsetNs: number, typical: number): Trust {
  const size = Math.abs(offsetNs);
  if (size > LONGEST_DELAY_NS) return "unusable";
  return size > typical ? "doubtful" : "usable";
}

function byNegativeDelays(verdict: ClockVerdict, quantumNs: number, mode: CorrectionMode): Trust {
  const { negative, offset, skew, floor, steps } = verdict;
  const shown = offset.kind !== "none" && offset.kind !== "not-measurable";
  if (negative.count === 0 || negative.withinResolution || shown || followed(verdict, mode)) return "good";
  const set = steps.some((s) => removesStep(verdict, s.kind, mode));
  const explained = set || (skew?.detected && floor !== null && floor.deskewedNs >= -quantumNs);
  return negative.share >= MANY_NEGATIVE && !explained ? "doubtful" : "usable";
}

function byDrift(verdict: ClockVerdict, mode: CorrectionMode, typical: number): Trust {
  const { skew, drift, steps } = verdict;
  const path = followed(verdict, mode);
  if (path) return path.roughNs > typical ? "doubtful" : "usable";
  if (drift.constant === false) return "doubtful";
  if (drift.wanderNs !== null && drift.wanderNs > UNCERTAIN_USABLE * typical) return "doubtful";
  if (steps.some((s) => s.kind !== "delay" && !removesStep(verdict, s.kind, mode))) return "doubtful";
  const removed: Trust = steps.some((s) => s.kind !== "delay") ? "usable" : "good";
  return worst(removed, bySkew(skew, mode, typical));
}

function bySkew(skew: ClockVerdict["skew"], mode: CorrectionMode, typical: number): Trust {
  if (!skew) return "good";
  if (skew.reason === "step-fits-better" || skew.reason === "directions-disagree") return "doubtful";
  const driftNs = (Math.abs(skew.ppm) * skew.spanNs) / 1e6;
  if (!skew.detected || driftNs <= SMALL_DRIFT * typical) return "good";
  return mode === "asis" && driftNs > typical ? "doubtful" : "usable";
}

/** Compares the possible remaining drift, visible or not, with the delays. */
function byUncertainty(verdict: ClockVerdict, mode: CorrectionMode, typical: number): Trust {
  const { skewNs } = clockUncertainty(verdict, mode);
  if (skewNs === null || skewNs <= UNCERTAIN_USABLE * typical) return "good";
  return skewNs > typical ? "doubtful" : "usable";
}

/** Unexplained delays below 0: a few may be false matches. */
function byImpossible(verdict: ClockVerdict, mode: CorrectionMode, typical: number): Trust {
  const { byNs, share, mode: of } = verdict.impossible;
  if (byNs === 0 || of !== mode) return "good";
  return share >= MANY_NEGATIVE && byNs > typical ? "doubtful" : "usable";
}

function byTimestamps(
  { backward, batched, pairs }: ClockVerdict,
  side: "before" | "after",
  typical: number,
): Trust {
  const back = backward[side];
  const inBatches = batched[side];
  if (back && back.count > 0) {
    const many = back.count > MANY_BACKWARD * (pairs.forward + pairs.reverse);
    if (many && back.largestNs > typical) return "doubtful";
    return "usable";
  }
  return inBatches?.impossible && inBatches.share > BATCHED_SHARE ? "usable" : "good";
}

/** A clock was set by more than the matching window: no pair shows it, and what pairs show applies to one part of the capture. */
export function stepBeyondPairs(verdict: ClockVerdict): ClockVerdict {
  const line =
    "A clock was set during the capture by more than the window: packets of one part are unmatched and count as lost or as outside the other capture. Compare the parts separately.";
  return { ...verdict, trust: worst(verdict.trust, "doubtful"), lines: [line, ...verdict.lines] };
}

/** Too few packets show their direction: the delays of one direction may be of both, or of the other. */
export function openDirections(verdict: ClockVerdict): ClockVerdict {
  const line =
    "Directions: not measurable. Hosts send to each other, and too few packets show which of them go from BEFORE to AFTER: delays, loss and offset may belong to the other direction, or to both. Capture for longer, or select one direction with a filter (src or dst).";
  return { ...verdict, trust: worst(verdict.trust, "doubtful"), lines: [line, ...verdict.lines] };
}
