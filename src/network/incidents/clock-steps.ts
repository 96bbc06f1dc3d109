/**
 * A clock step looks like a rise of delay: everything into the point takes longer by the step and everything out of it shorter (or vice versa), from one epoch
 * to the next. No path change does that. So if delays rise in a segment, the other segments of its two points are compared: how far did each move at that time?
 * If all segments of a point moved by the same amount, with the sign of their direction, its clock has stepped.
 *
 * How it fails: a point with a single segment cannot show whether a clock stepped or a path became longer. Two adjacent segments that change by equal and
 * opposite amounts within the same epochs pass for a step.
 */
import type { TimedEstimate } from "./path-watch.ts";

export interface ClockStep {
  /** Two if it may be either: only the segments between them show the step. */
  points: string[];
  /** Step of the first one's clock; positive: forward. That of the second would have the opposite sign. */
  stepNs: number;
}

/** Maximum number of epochs kept per segment, and of segments. */
const REMEMBERED = 120;
const MAX_SEGMENTS = 5000;
/** Numbers of epochs before and after from which the shift of a segment is computed. */
const BEFORE = 20;
const MIN_BEFORE = 5;
const MIN_AFTER = 2;
/** Shifts of one step differ by at most this share, in addition to their noise. */
const APART = 0.2;
/** If their noise is more than this share of the step, agreement means nothing: a queue that fills is not a step. */
const MOST_APART = 0.5;
/** Noise of a shift, in deviations. */
const DEVIATIONS = 4;

interface Epoch {
  startNs: bigint;
  endNs: bigint;
  meanNs: number;
}

interface Shift {
  ns: number;
  errorNs: number;
}

export class ClockSteps {
  readonly #segments = new Map<string, { from: string; to: string; epochs: Epoch[] }>();

  /** Adds an estimate of any segment, watched or not; in time order per segment. */
  add({ fromPoint: from, toPoint: to, startNs, endNs, meanNs }: TimedEstimate): void {
    if (meanNs === null) return;
    const key = `${from}\n${to}`;
    let known = this.#segments.get(key);
    if (!known) {
      if (this.#segments.size >= MAX_SEGMENTS) return;
      known = { from, to, epochs: [] };
      this.#segments.set(key, known);
    }
    const last = known.epochs.at(-1);
    if (last && startNs <= last.startNs) return;
    known.epochs.push({ startNs, endNs, meanNs });
    if (known.epochs.length > REMEMBERED) known.epochs.shift();
  }

  /** Returns whose clock stepped where the delay of this segment rose at a time; null: none. `pending`: adjacent segments have no epochs of that time yet. */
  judge(segment: { from: string; to: string }, atNs: bigint): ClockStep | "pending" | null {
    const own = this.#shift(segment.from, segment.to, atNs);
    if (!own || own === "pending") return own;
    let pending = false;
    const found: ClockStep = { points: [], stepNs: 0 };
    for (const point of [segment.to, segment.from]) {
      const into = point === segment.to ? 1 : -1;
      const expected = into * own.ns;
      const others = [...this.#segments.values()].filter(
        (s) =>
          (s.from === point || s.to === point) &&
          !(s.from === segment.from && s.to === segment.to) &&
          s.from !== s.to,
      );
      const shifts = others.flatMap((s) => {
        const shift = this.#shift(s.from, s.to, atNs);
        if (shift === "pending") pending = true;
        return shift && shift !== "pending" ? [{ ...shift, ns: s.to === point ? shift.ns : -shift.ns }] : [];
      });
      const agrees = ({ ns, errorNs }: Shift) => {
        const apart = APART * Math.abs(expected) + errorNs + own.errorNs;
        return Math.abs(ns - expected) <= apart && apart <= MOST_APART * Math.abs(expected);
      };
      if (shifts.length === 0 || !shifts.every(agrees)) continue;
      if (found.points.length === 0) found.stepNs = expected;
      found.points.push(point);
    }
    if (pending) return "pending";
    return found.points.length > 0 ? found : null;
  }

  /** Returns how far the mean of a segment moved at a time; null if too little is known before, "pending" if nothing is known after. */
  #shift(from: string, to: string, atNs: bigint): Shift | "pending" | null {
    const epochs = this.#segments.get(`${from}\n${to}`)?.epochs ?? [];
    const before = epochs.filter((e) => e.endNs <= atNs).slice(-BEFORE);
    // The epoch of the step is a mixture: the next ones show its size.
    const after = epochs.filter((e) => e.startNs > atNs).slice(0, BEFORE);
    const last = epochs.at(-1);
    if (before.length < MIN_BEFORE || !last) return null;
    // A segment that ended long before shows nothing.
    const lengthNs = last.endNs - last.startNs;
    if (after.length < MIN_AFTER) return last.endNs + BigInt(BEFORE) * lengthNs < atNs ? null : "pending";
    const [a, b] = [middleOf(before), middleOf(after)];
    const noise = Math.max(a.spread / Math.sqrt(before.length), b.spread / Math.sqrt(after.length));
    return { ns: b.middle - a.middle, errorNs: DEVIATIONS * noise };
  }
}

/** Median, and its spread by the median deviation. */
function middleOf(epochs: readonly Epoch[]): { middle: number; spread: number } {
  const middle = median(epochs.map((e) => e.meanNs));
  return { middle, spread: 1.4826 * median(epochs.map((e) => Math.abs(e.meanNs - middle))) };
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  const [low = 0, high = 0] = [sorted[(sorted.length - 1) >> 1], sorted[half]];
  return (low + high) / 2;
}
