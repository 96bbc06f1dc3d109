/**
 * `hoptime compare`: two captures in, one-way latency out. One pass over both starts on trial. If the first packets or the whole pass
 * show that its plan was wrong (captures contain less of each packet than assumed, clocks further apart than the window, directions
 * separated wrongly, or a clock correction was requested), another pass follows, provided that the inputs can be read again. It never
 * refuses: what could not be corrected is in `notes`.
 */
import { Kernels } from "../base/kernels.ts";
import { compileFilter } from "../capture/filter/filter.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { DEFAULT_COVER, DEFAULT_SEED } from "../capture/reader.ts";
import { isStandardInput, parseCapturePath } from "../capture/source/capture-path.ts";
import type { CorrectionMode } from "../clock/correction.ts";
import { diagnose } from "../clock/diagnose.ts";
import { openDirections, stepBeyondPairs } from "../clock/trust.ts";
import type { ClockVerdict } from "../clock/verdict.ts";
import { worthParallel } from "../match/feed-thread.ts";
import type { ExactMatcher } from "../match/matcher.ts";
import { FeedThread } from "../match/parallel-feed.ts";
import { sampleAlignment } from "./alignment.ts";
import { buildReport } from "./build.ts";
import { checkOptions } from "./check-options.ts";
import { stepBeyondWindow } from "./clock-step.ts";
import { ComparedPackets } from "./compared-packets.ts";
import { directionsOf } from "./direction.ts";
import { DEFAULT_EPOCH_NS } from "./epoch-length.ts";
import { exhausted } from "./exhausted.ts";
import type { FlowChoice } from "./flows.ts";
import { explainUnmatched } from "./offload.ts";
import { expectedOpening, shownOpening } from "./opening.ts";
import { type PassOptions, type PassResult, runPass } from "./pass.ts";
import {
  type Decision,
  firstPlan,
  LOOK_AHEAD,
  nextPlan,
  type PassEvidence,
  type PassPlan,
  type PlanWishes,
} from "./plan.ts";
import type { CompareReport, ReportView } from "./report.ts";
import { Trial } from "./trial.ts";
import { type UnmatchedCauses, unmatchedCauses } from "./unmatched.ts";
import { orientUnmatched } from "./unmatched-ways.ts";
import { unmended } from "./unmended.ts";

export interface CompareOptions {
  before: string;
  after: string;
  windowNs?: number;
  /** Length of intervals, 1 s by default; "by-length": 10 ms to 1 s, by the length of the first capture. */
  epochNs?: number | "by-length";
  clock?: CorrectionMode;
  key?: string;
  filter?: string | undefined;
  inner?: boolean;
  /** Match without addresses and ports, because NAT changes them on the way. */
  nat?: boolean;
  cover?: number;
  seed?: bigint;
  /** Keep the outcome of every packet, for `Comparison.packets`: 32 bytes per packet. */
  everyPacket?: boolean;
  /** Flow rows in the report: all, or the top ones by a measure. */
  flows?: FlowChoice;
  onProgress?: PassOptions["onProgress"];
  /** Read and decode in a second thread (default: if the captures are large enough). The report is the same. */
  parallel?: boolean;
}

/** Captures up to this size together are small enough to keep every packet for a report's series: some 50 MB of memory. */
export const SMALL_CAPTURES_BYTES = 128 << 20;

export const DEFAULT_WINDOW_NS = 10e9;
/** Coverage, alignment, repeats, directions, lead and correction may each need one more pass, after a first look ahead. */
const MAX_PASSES = 9;
/** Below this share of the matched packets, unmatched ones are too few to look for a common cause (MIN_UNMATCHED in unmatched.ts is larger). */
const FEW_UNMATCHED = 0.02;
/** Offsets above this are removed before estimators run, and added back to their answers. */
const LARGE_OFFSET_NS = 1e9;

/** With fewer matched packets, all of one direction beside flows of the other, the direction is not certain. */
const FEW_MATCHED = 24;

const ONLY_THERE =
  "no packet from the second point to the first was seen at both points: 'reverse' has counts but no delay, and its loss is not measurable";

/** Two compared captures, with the records from which flows are read. */
export interface Comparison {
  /** The report; its flows are computed while they are iterated. */
  view(flows: FlowChoice): ReportView;
  /** How the captures were read in the last pass. */
  readonly reading: Reading;
  /** Every packet, if `everyPacket` was set. */
  packets: ComparedPackets | null;
  /** Frees the records: views must not be used afterwards. */
  free(): void;
}

/** What is needed to read the captures again and see the same packets as the comparison. */
export interface Reading {
  kernels: Kernels;
  plan: PassPlan;
  matcher: ExactMatcher;
  /** The key by which packets were counted. */
  flowKey: FlowKeySpec;
  twoWay: boolean;
  /** ns since 1970 of time 0 of the plan's clock correction. */
  originNs: bigint;
  /** AFTER's clock minus BEFORE's as far as it remains in the delays, if it exceeds any delay; usually 0. */
  commonNs: number;
}

export async function compareCaptures(options: CompareOptions): Promise<CompareReport> {
  return reportOf(await openComparison(options), options);
}

/** Compares several pairs one after the other; one thread reads them all. */
export async function compareInTurn(pairs: readonly CompareOptions[]): Promise<CompareReport[]> {
  const thread = pairs.some(isParallel) ? FeedThread.start() : null;
  try {
    const reports: CompareReport[] = [];
    for (const options of pairs) {
      checkOptions(options);
      reports.push(reportOf(await compareWith(options, isParallel(options) ? thread : null), options));
    }
    return reports;
  } finally {
    thread?.close();
  }
}

function reportOf(comparison: Comparison, { flows = "all" }: CompareOptions): CompareReport {
  try {
    return wholeReport(comparison.view(flows));
  } finally {
    comparison.free();
  }
}

/** Returns a view with its flows as lists: a report that no longer needs the records. */
export function wholeReport(view: ReportView): CompareReport {
  return { ...view, flows: [...view.flows], reverseFlows: [...view.reverseFlows] };
}

/** For results of any length: flows one by one instead of a list (`options.flows` is ignored). */
export async function openComparison(options: CompareOptions): Promise<Comparison> {
  checkOptions(options);
  // Started first, so that it starts up while the first packets are read.
  const thread = isParallel(options) ? FeedThread.start() : null;
  try {
    return await compareWith(options, thread);
  } finally {
    thread?.close();
  }
}

const isParallel = ({ parallel, before, after }: CompareOptions) =>
  parallel ?? worthParallel(fileOf(before), fileOf(after));

const fileOf = (path: string) => parseCapturePath(path).file;

/** What stays the same in all passes. */
interface Run {
  options: CompareOptions;
  kernels: Kernels;
  /** The key of the report's flows. */
  key: FlowKeySpec;
  /** The key by which packets are counted: the report's key and the five-tuple, because only a five-tuple has one direction. */
  flowKey: FlowKeySpec;
  pass: PassOptions;
  wishes: PlanWishes;
}

function openRun(options: CompareOptions, thread: FeedThread | null): Run {
  const kernels = thread?.kernels ?? new Kernels();
  const key = FlowKeySpec.parse(options.key);
  const flowKey = key.isFiveTuple ? key : FlowKeySpec.parse(`${key.text},5tuple`);
  const windowNs = options.windowNs ?? DEFAULT_WINDOW_NS;
  const pass: PassOptions = {
    before: options.before,
    after: options.after,
    windowNs,
    epochNs: options.epochNs ?? DEFAULT_EPOCH_NS,
    capture: {
      inner: options.inner ?? false,
      nat: options.nat ?? false,
      key: flowKey,
      seed: options.seed ?? DEFAULT_SEED,
      filter: options.filter === undefined ? undefined : compileFilter(options.filter, kernels),
    },
    filterText: options.filter,
    thread,
    everyPacket: options.everyPacket,
    ...(options.onProgress ? { onProgress: options.onProgress } : {}),
  };
  const wishes: PlanWishes = {
    windowNs,
    mode: options.clock ?? "asis",
    fixedCover: options.cover !== undefined,
  };
  return { options, kernels, key, flowKey, pass, wishes };
}

async function compareWith(options: CompareOptions, thread: FeedThread | null): Promise<Comparison> {
  try {
    return await comparePasses(options, thread);
  } catch (error) {
    throw exhausted(error, { windowNs: DEFAULT_WINDOW_NS, ...options }) ?? error;
  }
}

async function comparePasses(options: CompareOptions, thread: FeedThread | null): Promise<Comparison> {
  const run = openRun(options, thread);
  const once = isStandardInput(options.before) || isStandardInput(options.after);
  // The first pass covers the whole captures at once, on trial for as long as a look ahead would take.
  let plan = firstPlan(options.cover ?? DEFAULT_COVER, run.pass.windowNs);
  const trial = once ? null : new Trial(plan, run.wishes);
  for (let pass = 1; ; pass++) {
    const result = await runPass(run.kernels, pass === 1 && trial ? { ...run.pass, trial } : run.pass, plan);
    if (trial?.noAnswers) plan = { ...plan, settled: { ...plan.settled, noAnswers: true } };
    if (result === null) {
      plan = { ...plan, extent: { kind: "look-ahead", rows: LOOK_AHEAD } };
      continue;
    }
    const evidence = evidenceOf(run, result, plan);
    let decision = nextPlan(plan, evidence, run.wishes);
    if (decision.kind === "sample-alignment") {
      evidence.alignment = { kind: "sampled", found: await sampleOf(run, plan, result) };
      decision = nextPlan(plan, evidence, run.wishes);
    }
    if (decision.kind === "again" && pass < MAX_PASSES && result.rereadable) {
      result.matcher.free();
      plan = decision.plan;
      continue;
    }
    return conclude(run, { plan, result, evidence, decision });
  }
}

function evidenceOf({ options, wishes }: Run, result: PassResult, plan: PassPlan): PassEvidence {
  // Two interfaces of one file.
  const oneClock = fileOf(options.before) === fileOf(options.after);
  let verdict: ClockVerdict | null = null;
  return {
    before: result.before,
    after: result.after,
    forward: result.matcher.total(1).delay,
    directions: directionsOf(result, plan),
    rereadable: result.rereadable,
    limited: result.limited,
    alignment: { kind: "not-sampled" },
    knownWays: () => result.matcher.knownWays(),
    opening: () => expectedOpening(result.matcher, result.originNs, plan.alignNs, plan.ways.kind === "known"),
    shown: () => shownOpening(result.matcher, result.originNs, plan.alignNs),
    verdict: () => {
      verdict ??= diagnose({ observer: result.observer, ...result.quality, mode: wishes.mode, oneClock });
      return verdict;
    },
  };
}

function sampleOf({ kernels, options, pass }: Run, plan: PassPlan, { originNs }: PassResult) {
  const capture = { ...pass.capture, cover: plan.cover };
  return sampleAlignment(kernels, options, capture, originNs, pass.windowNs);
}

interface Outcome {
  plan: PassPlan;
  result: PassResult;
  evidence: PassEvidence;
  /** "again" if no further pass could be made. */
  decision: Decision;
}

/** Makes the report after the last pass, with notes on what could not be corrected. */
async function conclude(run: Run, { plan, result, evidence, decision }: Outcome): Promise<Comparison> {
  const { options, key, pass, wishes } = run;
  const { directions } = evidence;
  const notes: string[] = [];
  if (decision.kind === "again") {
    notes.push(...unmended(plan, decision, directions, result.rereadable, wishes.windowNs));
    // Packets that this pass counted in the reverse direction stay there if the pass cannot be repeated.
    if (result.matcher.total(2).matched > 0) directions.twoWay = true;
  }
  const back = orientUnmatched(result.matcher, directions.twoWay);
  if (directions.twoWay || back) result.matcher.correctIntervals();
  const explained = await explainUnmatched(run.kernels, options, pass.capture, result, pass.windowNs);
  notes.push(...explained.notes);
  const causes = await commonCauses(run, result);
  notes.push(...causes.notes);
  if (directions.matched === 0) {
    observeAdded(result);
    directions.matched = result.matcher.pairCount;
  }
  const stepped = causes.beyondWindow
    ? null
    : await stepBeyondWindow(result, directions.matched, pass.windowNs, () => sampleOf(run, plan, result));
  if (stepped !== null) notes.push(stepped);
  const judged = stepped === null ? evidence.verdict() : stepBeyondPairs(evidence.verdict());
  // Some flows go back and none of them was matched: the few matched packets may be theirs.
  directions.open ||= back && !directions.twoWay && isUnshown(result.matcher, directions.matched);
  const verdict = directions.open ? openDirections(judged) : judged;
  if (back && !directions.twoWay) {
    directions.twoWay = true;
    notes.push(ONLY_THERE);
  }
  const { view, packets } = buildReport({
    result,
    windowNs: pass.windowNs,
    directions,
    verdict,
    mode: wishes.mode,
    key,
    flowKey: run.flowKey,
    notes,
    lossCause: stepped ?? causes.lossCause ?? explained.lossCause,
    options: describeOptions(options, plan, key, result.epochNs),
    epochNs: result.epochNs,
  });
  const reading: Reading = {
    kernels: run.kernels,
    plan,
    matcher: result.matcher,
    flowKey: run.flowKey,
    twoWay: directions.twoWay,
    originNs: result.originNs,
    commonNs: commonOffset(verdict, plan),
  };
  return {
    view,
    reading,
    packets:
      packets && new ComparedPackets(packets, options, { ...pass.capture, cover: plan.cover }, run.flowKey),
    free: () => result.matcher.free(),
  };
}

/** So few packets were matched, and so few of them with a lower TTL at AFTER, that they may as well go the other way. */
function isUnshown(matcher: ExactMatcher, matched: number): boolean {
  return matched > 0 && matched < FEW_MATCHED && matcher.total(1).ttl.lower <= matched / 2;
}

/** If only merged or fragmented packets were matched, they are the evidence of the clocks. */
function observeAdded({ matcher, observer, plan }: PassResult): void {
  for (const [way, take] of [
    [1, observer.observe.bind(observer)],
    [2, observer.observeReverse.bind(observer)],
  ] as const) {
    const pairs = matcher.added.filter(({ flow }) => matcher.flows.direction(flow) === way);
    const differences = pairs.map(({ beforeNs, afterNs }) => afterNs - beforeNs + plan.alignNs);
    take(
      Float64Array.from(pairs, (p) => p.beforeNs),
      Float64Array.from(differences),
      pairs.length,
    );
  }
}

/** Looks for common causes of unmatched packets, if there are enough of them. */
async function commonCauses({ kernels, options, pass }: Run, result: PassResult): Promise<UnmatchedCauses> {
  const { matcher } = result;
  if (matcher.aloneCount < FEW_UNMATCHED * matcher.pairCount)
    return { notes: [], lossCause: null, beyondWindow: false };
  return unmatchedCauses({
    kernels,
    files: options,
    capture: pass.capture,
    result,
    windowNs: pass.windowNs,
  });
}

/** Estimators work on differences of two clocks: an offset above any delay would cost them precision. */
function commonOffset({ floor }: ClockVerdict, { correction }: PassPlan): number {
  const levelNs = correction.kind === "none" ? (floor?.levelNs ?? 0) : 0;
  return Math.abs(levelNs) > LARGE_OFFSET_NS ? Math.round(levelNs) : 0;
}

function describeOptions(
  options: CompareOptions,
  plan: PassPlan,
  key: FlowKeySpec,
  epochNs: number,
): Record<string, unknown> {
  return {
    windowNs: options.windowNs ?? DEFAULT_WINDOW_NS,
    epochNs,
    clock: options.clock ?? "asis",
    key: key.text,
    filter: options.filter ?? null,
    inner: options.inner ?? false,
    ...(options.nat ? { nat: true } : {}),
    digestCoverBytes: plan.cover,
    alignedByNs: plan.alignNs,
  };
}
