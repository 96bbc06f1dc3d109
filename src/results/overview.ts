/**
 * All segments at a glance: the newest answer of each, and its delay and loss over a time in a few dozen steps, in two statements whatever their number. The newest answer is exact, by the rules of
 * all answers; a step's mean is weighted by packets, and its low and high are the lowest and the highest of the answers in it: made to be looked at. Lost is sent minus received, where both
 * are known, and more than can be in flight at the ends of the time.
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
  /** End of its newest row, which may lie behind the time asked for: in the future, where clocks are wrong. */
  lastNs: string;
  latest: SeriesPoint | null;
  /** Null where there is too little to know. */
  normal: Normal | null;
  sent: number | null;
  lost: number | null;
  epochs: number;
  missing: number;
  refused: number;
  /** One value per step; null where there is no answer. */
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
  /** Null: all. */
  from: string | null;
  to: string | null;
  /** Null: to the newest, and an hour before that. */
  fromNs: bigint | null;
  toNs: bigint | null;
  /** Without `fromNs`: how long before the end it begins, instead of an hour. */
  lengthNs?: bigint | undefined;
  /** 0: none, and no sums; the newest answers alone are quick. */
  steps: number;
  /** Default: the clock of this machine. */
  nowNs?: bigint;
  /** Which estimator stands for a segment: the first of these that it has. */
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
  // Steps of a segment come one after the other.
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

/** By `normalKey`, with nothing in their steps yet. */
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

/** Clocks of taps may be ahead by so much. */
const AHEAD_NS = 60n * SECOND_NS;

/** The newest end that may be now: one point whose clock is wrong does not move all others out of sight. */
function newestOf(ends: readonly bigint[], nowNs: bigint): bigint {
  const past = ends.filter((ns) => ns <= nowNs + AHEAD_NS);
  return (past.length > 0 ? past : ends).reduce(later, 0n);
}

function exactPoint(row: SegmentRow): SeriesPoint | null {
  const made = combineRows([row], { step: 0, startNs: row.startNs, endNs: row.endNs });
  return made ? pointOf(made) : null;
}

/** `coveredNs`: how long the epochs are that a segment's packets are counted in. */
function addLoss(own: SegmentOverview, step: StepRow, coveredNs: Map<SegmentOverview, number>): void {
  const { at, sent, received } = step;
  if (sent === null || received === null) return;
  // The first and the last step may be there in part: their rate is that of the part.
  const lost = beyondFlight(sent - received, sent / step.coveredNs, step.meanNs);
  own.lossRate[at] = sent > 0 ? lost / sent : null;
  own.sent = (own.sent ?? 0) + sent;
  own.lost = (own.lost ?? 0) + sent - received;
  coveredNs.set(own, (coveredNs.get(own) ?? 0) + step.coveredNs);
}

/** Packets that are missing beyond those that may be in flight at the end of a time: rate × delay on average, a few more by chance. */
function beyondFlight(missing: number, ratePerNs: number, delayNs: number | null): number {
  const inFlight = ratePerNs * Math.abs(delayNs ?? 0);
  return missing > inFlight + 4 * Math.sqrt(inFlight) + 1 ? missing : 0;
}

/** Four digits are more than a sparkline shows. */
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

/** Rows of this step make up the steps asked for. */
function stepBelow(stepNs: bigint): Step {
  return STEPS.filter((s) => s === 0 || stepNs >= BigInt(s) * SECOND_NS).at(-1) ?? 0;
}
