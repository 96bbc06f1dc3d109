/** The verdict in words: each sentence states what was found, its size and what to do. Most serious first. */
import { countOf, formatCount, significant } from "../base/quantity.ts";
import { formatDuration } from "../base/time.ts";
import { type CorrectionMode, clockUncertainty, followed, removesStep } from "./correction.ts";
import type { ClockVerdict, StepVerdict } from "./verdict.ts";

/** No clock has a steeper slope: a bound above it means nothing. */
const CLOCK_PPM = 500;

export function sentences(verdict: ClockVerdict, ignored: number, mode: CorrectionMode): string[] {
  if (verdict.mode === "no-pairs") {
    return ["Clocks: not comparable: no unique packet was seen at both points in the forward direction."];
  }
  const all = [
    ...offsetLines(verdict),
    ...stepLines(verdict, mode),
    ...negativeLines(verdict),
    ...skewLines(verdict, mode),
    ...wanderLines(verdict, mode),
  ];
  for (const side of ["before", "after"] as const) all.push(...captureLines(verdict, side));
  if (ignored > 0) all.push(`${countOf(ignored, "pair")} without a valid timestamp left out.`);
  return all;
}

function offsetLines({ offset, mode, floor, swapped, drift }: ClockVerdict): string[] {
  if (swapped) {
    return [
      "BEFORE and AFTER seem to be swapped: all forward delays are negative, and look like delays with the opposite sign. " +
        "Swap the two captures; if their order is right, their clocks differ by more than the delays.",
    ];
  }
  const by = formatDuration(Math.abs(offset.estimateNs));
  const ahead = offset.estimateNs >= 0 ? "ahead of" : "behind";
  const bounds =
    offset.lowNs === null || offset.highNs === null
      ? ""
      : ` (between ${formatDuration(offset.lowNs)} and ${formatDuration(offset.highNs)})`;
  switch (offset.kind) {
    case "none":
      if (mode === "one-way") return [`Clock offset: none; ${offset.explanation}.`];
      return [
        `Clock offset: none visible; ${offset.explanation}, and with any offset${bounds.replace(" (", " ").replace(")", "")}.`,
      ];
    case "not-measurable":
      return [`Clock offset: ${offset.explanation}. Capture both directions to bound it.`];
    case "tai-utc":
    case "time-zone": {
      const rest = (floor?.levelNs ?? 0) - offset.estimateNs;
      const left =
        rest < 0 ? ` The smallest delay is then still ${formatDuration(rest)}: use relative delays.` : "";
      return [
        `Clock offset: AFTER is ${by} ${ahead} BEFORE: ${offset.explanation}. The deskew correction removes it.${left}`,
      ];
    }
    case "constant":
      if (mode === "two-way") {
        return [
          `Clock offset: AFTER is ${by} ${ahead} BEFORE${bounds}. The deskew correction removes the middle.`,
        ];
      }
      return [
        `Clock offset: AFTER is at least ${by} behind BEFORE: ${offset.explanation}. ` +
          "How much more is not measurable from one direction: use relative delays, or capture both directions.",
      ];
    case "unknown":
      if (mode === "two-way") {
        const cause =
          drift.wanderNs === null
            ? "Check that the right packets were matched."
            : "The offset is not constant.";
        return [`Clock offset: ${offset.explanation}${bounds}. ${cause}`];
      }
      return [
        `Clock offset: the smallest delay is ${formatDuration(offset.highNs ?? 0)}; ${offset.explanation}. ` +
          "Use relative delays, or capture both directions.",
      ];
  }
}

function stepLines(verdict: ClockVerdict, mode: CorrectionMode): string[] {
  const { steps, originNs } = verdict;
  return steps.map(({ atNs, sizeNs, kind, evidence }) => {
    const what =
      kind === "clock"
        ? "A clock was set"
        : kind === "delay"
          ? "The path changed"
          : "A clock was set or the path changed";
    const size = `${sizeNs >= 0 ? "+" : ""}${formatDuration(sizeNs)}`;
    return `${what} ${formatDuration(atNs - originNs)} into the capture, by ${size}: ${evidence}. ${stepAdvice(verdict, kind, mode)}`;
  });
}

function stepAdvice(verdict: ClockVerdict, kind: StepVerdict["kind"], mode: CorrectionMode): string {
  if (kind === "delay") return "The delays are right.";
  if (verdict.pieces.length === 0) return "Compare the parts before and after it separately.";
  if (removesStep(verdict, kind, mode)) return "The correction removes it.";
  if (kind === "clock") return "The deskew correction removes it.";
  return "Compare the parts before and after it separately. If the path stayed the same, the detrend correction removes it.";
}

function negativeLines({ negative, offset, skew, floor, steps }: ClockVerdict): string[] {
  const shown = offset.kind !== "none" && offset.kind !== "not-measurable";
  if (negative.count === 0 || negative.minNs === null || shown) return [];
  const seem = negative.count === 1 ? "seems" : "seem";
  const what = `${countOf(negative.count, "packet")} (${percent(negative.share)}) ${seem} to arrive before being sent, by up to ${formatDuration(-negative.minNs)}`;
  if (negative.withinResolution) return [`${what}: within the resolution of the timestamps.`];
  if (steps.some((s) => s.kind === "clock")) return [`${what}: explained by the clock that was set.`];
  if (skew?.detected && (floor?.deskewedNs ?? -1) >= 0) return [`${what}: explained by the skew.`];
  return [
    `${what}: timestamps out of order, or false matches; check these packets before trusting the smallest delays.`,
  ];
}

function wanderLines(verdict: ClockVerdict, mode: CorrectionMode): string[] {
  const { wanderNs, path } = verdict.drift;
  if (wanderNs === null) return [];
  const what = `Clock wander: both directions show the clocks of AFTER and BEFORE moving against each other by up to ${formatDuration(wanderNs)}.`;
  if (path === null)
    return [`${what} Not corrected; delays are uncertain by that much. Compare shorter parts.`];
  if (!followed(verdict, mode))
    return [`${what} Delays are uncertain by that much; the deskew correction follows the clocks.`];
  const { totalNs } = clockUncertainty(verdict, mode);
  return [
    `${what} The correction follows them over time; delays remain uncertain by up to ${formatDuration(totalNs)}.`,
  ];
}

function skewLines(verdict: ClockVerdict, mode: CorrectionMode): string[] {
  const { skew, drift } = verdict;
  // The path that both directions show over time is more informative than a line.
  if (drift.path && !skew?.detected) return [];
  if (!skew) return [`Clock skew: unknown, ${verdict.noSkewReason}.`];
  const digits = skew.highPpm - skew.lowPpm;
  const interval = `${ppm(skew.lowPpm, digits)} to ${ppm(skew.highPpm, digits)} ppm`;
  const bound = Math.max(Math.abs(skew.lowPpm), Math.abs(skew.highPpm));
  const driftNs = (Math.abs(skew.ppm) * skew.spanNs) / 1e6;
  if (drift.constant === false && !skew.detected) {
    const [a, b] = drift.halves.map((h) => ppm((h.lowPpm + h.highPpm) / 2, h.highPpm - h.lowPpm));
    return [
      `The minimum delay drifts by ${a} ppm in the first half and by ${b} ppm in the second: a clock being disciplined, or ` +
        "load. Not corrected; compare the halves separately.",
    ];
  }
  switch (skew.reason) {
    case "detected": {
      const faster = skew.ppm > 0 ? "faster" : "slower";
      const uneven =
        drift.constant === false
          ? " It changes during the capture (a clock being disciplined): a straight line removes only its mean."
          : "";
      return [
        `Clock skew: AFTER runs ${ppm(Math.abs(skew.ppm), digits)} ppm ${faster} than BEFORE (95 %: ${interval}), ` +
          `${formatDuration(driftNs)} over the capture. The deskew correction removes it.${uneven}`,
      ];
    }
    case "interval-holds-zero":
      if (bound > CLOCK_PPM) {
        return [
          "Clock skew: not measurable; queueing varies more than any clock drifts. Capture for longer.",
        ];
      }
      return [
        `Clock skew: none detectable, below ${ppm(bound, bound)} ppm (95 %), which is ${formatDuration((bound * skew.spanNs) / 1e6)} over the capture.`,
      ];
    case "steeper-than-clocks":
      return [
        `The minimum delay changes by ${formatDuration(driftNs)} over the capture, faster than clocks drift: ` +
          "queueing. Nothing to correct.",
      ];
    case "one-direction-only":
      if (verdict.mode === "two-way") {
        return [
          `A trend of ${ppm(skew.ppm, digits)} ppm (95 %: ${interval}) in one direction only: load may explain it. Not corrected.`,
        ];
      }
      return [
        `The minimum delay ${skew.ppm > 0 ? "rises" : "falls"} by ${ppm(Math.abs(skew.ppm), digits)} ppm (95 %: ${interval}), ${formatDuration(driftNs)} over the capture: ` +
          `clock skew or load, not distinguishable from one direction. ${mode === "detrend" ? "The correction removes it, which is right if the load was constant." : "Not corrected. If the load was constant, the detrend correction removes it."}`,
      ];
    case "step-fits-better":
      return [
        `The minimum delay changes by about ${formatDuration(driftNs)}, in a step and not gradually: a route change, a queue ` +
          "or a clock that was set. Not corrected.",
      ];
    case "directions-disagree":
      return [
        `The two directions show different trends (together ${interval}): at least one is due to queueing or a route change, ` +
          "not the clocks. Not corrected.",
      ];
  }
}

function captureLines(verdict: ClockVerdict, side: "before" | "after"): string[] {
  const name = side.toUpperCase();
  const lines: string[] = [];
  const resolution = verdict.resolutionNs[side];
  const backward = verdict.backward[side];
  const batched = verdict.batched[side];
  if (resolution !== null && resolution > 1) {
    lines.push(
      `${name}'s timestamps have a resolution of ${formatDuration(resolution)}: no delay is known better than that.`,
    );
  }
  if (backward && backward.count > 0) {
    lines.push(
      `${name}'s timestamps go backward ${countOf(backward.count, "time")}, by up to ${formatDuration(backward.largestNs)}: ` +
        "packets were timestamped on several CPUs or the clock was set; delays are uncertain by that much.",
    );
  }
  if (batched?.impossible && batched.share > 0.01) {
    lines.push(
      `${name}'s packets are timestamped in batches: ${percent(batched.share)} are closer to a neighbour than frames can be on ` +
        `the wire (up to ${formatCount(batched.longestRun)} with the same timestamp). Use hardware timestamps for delays this small.`,
    );
  }
  return lines;
}

/** Prints two digits of the uncertainty. */
function ppm(value: number, uncertainty: number): string {
  if (Math.abs(value) >= 1e4) return formatCount(value);
  if (uncertainty < 1e-6) return significant(value, 2);
  return value.toFixed(Math.max(0, 1 - Math.floor(Math.log10(uncertainty))));
}

function percent(share: number): string {
  return `${significant(100 * share, 2)} %`;
}
