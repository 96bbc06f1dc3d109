/**
 * An overview of all segments in two queries, whatever their number: each one's newest answer, and its delay and loss over time in a few dozen
 * steps. The newest answer is exact, by the same rules as all answers. Steps are for display: the mean is weighted by packets, and low and high are
 * the lowest and highest bound in the step. Loss is sent minus received, if both are known and more is missing than can be in flight.
 */
import { invalidValue } from "../base/errors.ts";
import { later } from "../base/time.ts";
import { withoutSuperseded } from "../epoch/direction-label.ts";
import { type Normal, type Normals, normalKey } from "./normals.ts";
import type { ResultsStore } from "./results-store.ts";
import { combineRows, type SegmentRow, STEPS, type Step } from "./rows.ts";
import type { KnownSegment, StepRow } from "./segment-reader.ts";
import { pointOf, type SeriesPoint } from "./series.ts";

export interface SegmentOverview {
  from: string;
  to: string;
  label: string;
  estimator: string;
  estimators: string[];
  /** End of its newest row. It may lie after the requested time, or in the future if a clock is wrong. */
  lastNs: string;
  latest: SeriesPoint | null;
  /** Null if there is too little data. */
  normal: Normal | null;
  sent: number | null;
  lost: number | null;
  epochs: number;
  missing: number;
  refused: number;
  /** One value per step; null if there is no answer. */
  meanNs: (number | null)[];
  lowNs: (number | null)[];
  highNs: (number | null)[];
  lossRate: (number | null)[];
}

export interface Overview {
  fromNs: string;
  toNs: string;
  stepNs: string;
  segments: SegmentOverview[];
}

export interface OverviewQuestion {
  /** Null: any. */
  from: string | null;
  to: string | null;
  /** Null: up to the newest row, and one hour before that. */
  fromNs: bigint | null;
  toNs: bigint | null;
  /** If `fromNs` is null: length of the range, instead of an hour. */
  lengthNs?: bigint | undefined;
  /** 0: no steps and no sums, which is fast. */
  steps: number;
  /** Default: this machine's clock. */
  nowNs?: bigint;
  /** Preferred estimators; the first one that a segment has represents it. */
  preferred: readonly string[];
}

const SECOND_NS = 1_000_000_000n;
const HOUR_NS = 3600n * SECOND_NS;

export async function overview(
  store: ResultsStore,
  normals: Normals,
  question: OverviewQuestion,
): Promise<Overview> {
  const all = withoutSuperseded(await store.segments());
  const only = (name: string | null, own: string) => name === null || name === own;
  const known = all.filter((s) => only(question.from, s.from) && only(question.to, s.to));
  const newestNs = newestOf(
    all.map((s) => s.lastNs),
    question.nowNs ?? BigInt(Date.now()) * 1_000_000n,
  );
  const toNs = question.toNs ?? newestNs;
  const fromNs = question.fromNs ?? toNs - (question.lengthNs ?? HOUR_NS);
  if (fromNs >= toNs)
    throw invalidValue("since", `${fromNs}`, "a time before the end of the range", { code: "bad-question" });
  const stepNs = niceStepNs((toNs - fromNs) / BigInt(Math.max(1, question.steps)));
  const startNs = fromNs - (fromNs % stepNs);
  const length = question.steps === 0 ? 0 : Number((toNs - startNs + stepNs - 1n) / stepNs);
  const [normal, steps, newest] = await Promise.all([
    normals.before(toNs, { old: length === 0 }),
    length === 0 ? [] : store.steps({ fromNs: startNs, toNs, stepNs, step: stepBelow(stepNs) }),
    store.newestRows(fromNs, toNs),
  ]);
  const segments = emptySegments(known, question.preferred, { normal, length });
  const coveredNs = new Map<SegmentOverview, number>();
  // The steps of a segment are adjacent.
  let before: { step: StepRow; own: SegmentOverview | undefined } | null = null;
  const ownOf = (step: StepRow) => {
    const { from, to, label, estimator } = step;
    const same = before?.step;
    if (
      !before ||
      same?.from !== from ||
      same.to !== to ||
      same.label !== label ||
      same.estimator !== estimator
    )
      before = { step, own: segments.get(normalKey(from, to, label, estimator)) };
    return before.own;
  };
  for (const step of steps) {
    const { at } = step;
    const own = ownOf(step);
    if (!own || at < 0 || at >= length) continue;
    own.meanNs[at] = rounded(step.meanNs);
    own.lowNs[at] = rounded(step.lowNs);
    own.highNs[at] = rounded(step.highNs);
    addLoss(own, step, coveredNs);
    for (const name of ["epochs", "missing", "refused"] as const) own[name] += step[name];
  }
  for (const row of newest) {
    const own = segments.get(normalKey(row.segment.from, row.segment.to, row.segment.label, row.estimator));
    if (own) own.latest = exactPoint(row);
  }
  for (const own of segments.values())
    if (own.lost !== null)
      own.lost = beyondFlight(
        own.lost,
        (own.sent ?? 0) / (coveredNs.get(own) ?? Number(toNs - fromNs)),
        own.latest?.latency?.meanNs ?? 0,
      );
  const list = [...segments.values()];
  return { fromNs: `${fromNs}`, toNs: `${toNs}`, stepNs: `${stepNs}`, segments: list };
}

/** Overviews with empty steps, by `normalKey`. */
function emptySegments(
  known: readonly KnownSegment[],
  preferred: readonly string[],
  { normal, length }: { normal: ReadonlyMap<string, Normal>; length: number },
): Map<string, SegmentOverview> {
  const segments = new Map<string, SegmentOverview>();
  for (const { from, to, label, estimators, lastNs } of known) {
    const estimator = preferred.find((e) => estimators.includes(e)) ?? estimators[0] ?? "";
    const empty = () => new Array<number | null>(length).fill(null);
    segments.set(normalKey(from, to, label, estimator), {
      ...{ from, to, label, estimator, estimators, lastNs: `${lastNs}` },
      ...{ latest: null, sent: null, lost: null },
      normal: normal.get(normalKey(from, to, label, estimator)) ?? null,
      ...{ epochs: 0, missing: 0, refused: 0 },
      ...{ meanNs: empty(), lowNs: empty(), highNs: empty(), lossRate: empty() },
    });
  }
  return segments;
}

/** Allowance for tap clocks that run ahead. */
const AHEAD_NS = 60n * SECOND_NS;

/** The newest end that is not in the future: a single point with a wrong clock must not move all others out of the range. */
function newestOf(ends: readonly bigint[], nowNs: bigint): bigint {
  const past = ends.filter((ns) => ns <= nowNs + AHEAD_NS);
  return (past.length > 0 ? past : ends).reduce(later, 0n);
}

function exactPoint(row: SegmentRow): SeriesPoint | null {
  const made = combineRows([row], { step: 0, startNs: row.startNs, endNs: row.endNs });
  return made ? pointOf(made) : null;
}

/** `coveredNs`: total length of the epochs in which a segment's packets were counted. */
function addLoss(own: SegmentOverview, step: StepRow, coveredNs: Map<SegmentOverview, number>): void {
  const { at, sent, received } = step;
  if (sent === null || received === null) return;
  // The first and last step may be incomplete, so the rate uses the covered part.
  const lost = beyondFlight(sent - received, sent / step.coveredNs, step.meanNs);
  own.lossRate[at] = sent > 0 ? lost / sent : null;
  own.sent = (own.sent ?? 0) + sent;
  own.lost = (own.lost ?? 0) + sent - received;
  coveredNs.set(own, (coveredNs.get(own) ?? 0) + step.coveredNs);
}

/** Returns the missing packets, or 0 if they may be in flight at the end of the time: rate × delay on average, plus four standard deviations. */
function beyondFlight(missing: number, ratePerNs: number, delayNs: number | null): number {
  const inFlight = ratePerNs * Math.abs(delayNs ?? 0);
  return missing > inFlight + 4 * Math.sqrt(inFlight) + 1 ? missing : 0;
}

/** Four digits are more than a sparkline can show. */
function rounded(ns: number | null): number | null {
  return ns === null ? null : Number(ns.toPrecision(4));
}

const NICE_S = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400];
function niceStepNs(roughNs: bigint): bigint {
  const seconds = NICE_S.find((s) => BigInt(s) * SECOND_NS >= roughNs);
  return seconds === undefined
    ? (roughNs / (86_400n * SECOND_NS) + 1n) * 86_400n * SECOND_NS
    : BigInt(seconds) * SECOND_NS;
}

/** The coarsest rows that can make up these steps. */
function stepBelow(stepNs: bigint): Step {
  return STEPS.filter((s) => s === 0 || stepNs >= BigInt(s) * SECOND_NS).at(-1) ?? 0;
}
