/** How far the delays may be trusted: the worst of all findings. The levels are defined in verdict.ts. */
import type { ClockVerdict, Trust } from "./verdict.ts";

const LEVELS: readonly Trust[] = ["good", "usable", "doubtful", "unusable"];
const worst = (a: Trust, b: Trust): Trust => (LEVELS.indexOf(a) >= LEVELS.indexOf(b) ? a : b);
/** Stamps coarser than this many typical delays say nothing about delays; coarser than a tenth, little. */
const COARSE_UNUSABLE = 10;
const COARSE_USABLE = 0.1;
/** Packets out of their place in time: below this share they are strays, above it the stamps are at fault. */
const MANY_NEGATIVE = 0.01;
const MANY_BACKWARD = 0.001;
/** A drift over the whole capture below this share of the typical delay may stay. */
const SMALL_DRIFT = 0.01;
const BATCHED_SHARE = 0.01;

/** `typicalNs`: median of the envelope; `quantumNs`: the two stamps' steps together. */
export function judgeTrust(verdict: ClockVerdict, typicalNs: number | null, quantumNs: number): Trust {
  if (typicalNs === null) return "unusable";
  let level = 0;
  const atLeast = (trust: Trust) => {
    level = Math.max(level, LEVELS.indexOf(trust));
  };
  const { negative, offset, skew, steps, drift } = verdict;
  const typical = Math.abs(typicalNs);

  if (quantumNs > COARSE_UNUSABLE * typical && quantumNs > 2) atLeast("unusable");
  else if (quantumNs > COARSE_USABLE * typical && quantumNs > 2) atLeast("usable");

  if (offset.kind === "unknown") atLeast(verdict.mode === "two-way" ? "unusable" : "doubtful");
  if (verdict.swapped) atLeast("doubtful");
  if (offset.kind === "constant") atLeast(verdict.mode === "two-way" ? "usable" : "doubtful");
  if (offset.kind === "tai-utc" || offset.kind === "time-zone") atLeast("usable");
  if (negative.count > 0 && !negative.withinResolution && offset.kind === "none") {
    const explained = skew?.detected && verdict.floor !== null && verdict.floor.deskewedNs >= -quantumNs;
    atLeast(negative.share >= MANY_NEGATIVE && !explained ? "doubtful" : "usable");
  }

  if (skew?.detected && (Math.abs(skew.ppm) * skew.spanNs) / 1e6 > SMALL_DRIFT * typical) atLeast("usable");
  if (skew && (skew.reason === "step-fits-better" || skew.reason === "directions-disagree"))
    atLeast("doubtful");
  if (drift.constant === false) atLeast("doubtful");
  if (steps.some((s) => s.kind !== "delay")) atLeast("doubtful");

  for (const side of ["before", "after"] as const) {
    const backward = verdict.backward[side];
    const batched = verdict.batched[side];
    if (backward && backward.count > 0) {
      const many = backward.count > MANY_BACKWARD * (verdict.pairs.forward + verdict.pairs.reverse);
      atLeast(many && backward.largestNs > typical ? "doubtful" : "usable");
    }
    if (batched?.impossible && batched.share > BATCHED_SHARE) atLeast("usable");
  }
  return LEVELS[level]!;
}

/** A clock was set by more than packets are looked for: no pair shows it, and what pairs show is true of one part of the capture. */
export function stepBeyondPairs(verdict: ClockVerdict): ClockVerdict {
  const line =
    "A clock was set during the capture by more than the window: packets of the other part have no partner and count as lost or as outside the other capture. Compare the parts separately.";
  return { ...verdict, trust: worst(verdict.trust, "doubtful"), lines: [line, ...verdict.lines] };
}
