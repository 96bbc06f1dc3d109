/**
 * `hoptime compare`: two captures in, one-way latency out. One pass over both, on trial at first; where the first packets or the whole
 * pass show that its plan was wrong (captures see less of a packet than thought, clocks further apart than the window, directions
 * told apart wrongly, or a clock correction was asked for) another pass follows, if the inputs can be read again. Never refuses: what could
 * not be mended is said in `notes`.
 */
import { Kernels } from "../base/kernels.ts";
import { formatDuration } from "../base/time.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { compileFilter } from "../capture/filter/filter.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { type CaptureOptions, DEFAULT_COVER, DEFAULT_SEED } from "../capture/reader.ts";
import { isStandardInput, parseCapturePath } from "../capture/source/capture-path.ts";
import { type CorrectionMode, correction } from "../clock/correction.ts";
import { diagnose } from "../clock/diagnose.ts";
import { stepBeyondPairs } from "../clock/trust.ts";
import type { ClockVerdict } from "../clock/verdict.ts";
import { worthParallel } from "../match/feed-thread.ts";
import type { ExactMatcher } from "../match/matcher.ts";
import { FeedThread } from "../match/parallel-feed.ts";
import { sampleAlignment } from "./alignment.ts";
import { buildReport } from "./build.ts";
import { type Directions, tellDirections } from "./direction.ts";
import type { FlowChoice } from "./flows.ts";
import { mergedSegments } from "./offload.ts";
import { type PassOptions, type PassPlan, type PassResult, runPass } from "./pass.ts";
import type { CompareReport, ReportView } from "./report.ts";

export interface CompareOptions {
  before: string;
  after: string;
  windowNs?: number;
  epochNs?: number;
  clock?: CorrectionMode;
  key?: string;
  filter?: string | undefined;
  inner?: boolean;
  cover?: number;
  seed?: bigint;
  /** Flow rows in the report: all, or the first by packets. */
  flows?: FlowChoice;
  onProgress?: PassOptions["onProgress"];
  onBatch?: (side: 0 | 1, batch: PacketBatch, originNs: bigint) => void;
  /** A new pass begins: what taps have seen so far does not count. The plan says what is known of the clocks. */
  onRestart?: (plan: PassPlan) => void;
  /** Read and decode in a second thread: by default where the captures are large enough. The report is the same. */
  parallel?: boolean;
}

export const DEFAULT_WINDOW_NS = 10e9;
export const DEFAULT_EPOCH_NS = 1e9;
/** An IPv4 header and 8 bytes: less is no identity. Packets cut shorter are hashed as far as they go. */
const LEAST_COVER = 28;
/** So few odd packets, cut shorter than all others, do not weaken the identity of the rest. */
const ODD_SHARE = 0.001;
const LOOK_AHEAD = 16_384;
/** Packets matched in the look ahead that would have shown flows that answer each other. */
const ENOUGH_MATCHED = 1000;
const SHORT_LEAD_NS = 8e6;
/** Coverage, alignment, directions, lead and correction may each ask for one more, and a look ahead before. */
const MAX_PASSES = 8;
/** Below every difference: all packets go from BEFORE to AFTER until the pass shows better. */
const ALL_FORWARD_NS = -Number.MAX_VALUE;
/** Above this share of packets without a partner, in the capture with fewer, a clock that was set is looked for. */
const MANY_UNMATCHED = 0.2;
/** Below this share of matches (of what could match) the clocks are suspected. */
const FEW_MATCHES = 0.05;

/** Two captures compared, with the records that its flows are read from. */
export interface Comparison {
  /** The report; its flows are made while they are walked. */
  view(flows: FlowChoice): ReportView;
  /** Gives the records back: views are not to be walked any more. */
  free(): void;
}

export async function compareCaptures(options: CompareOptions): Promise<CompareReport> {
  const comparison = await openComparison(options);
  try {
    return wholeReport(comparison.view(options.flows ?? "all"));
  } finally {
    comparison.free();
  }
}

/** A view with its flows as lists: a report that stands on its own. */
export function wholeReport(view: ReportView): CompareReport {
  return { ...view, flows: [...view.flows], reverseFlows: [...view.reverseFlows] };
}

/** For answers of any length: flows one by one instead of a list (`options.flows` is not looked at). */
export async function openComparison(options: CompareOptions): Promise<Comparison> {
  const parallel = options.parallel ?? worthParallel(fileOf(options.before), fileOf(options.after));
  // Started first: it comes up while the first packets are looked at.
  const thread = parallel && !options.onBatch ? FeedThread.start() : null;
  try {
    return await compareWith(options, thread);
  } finally {
    thread?.close();
  }
}

const fileOf = (path: string) => parseCapturePath(path).file;

async function compareWith(options: CompareOptions, thread: FeedThread | null): Promise<Comparison> {
  const kernels = thread?.kernels ?? new Kernels();
  const key = FlowKeySpec.parse(options.key);
  const seed = options.seed ?? DEFAULT_SEED;
  const mode = options.clock ?? "asis";
  const capture: Omit<CaptureOptions, "cover"> = {
    inner: options.inner ?? false,
    key,
    seed,
    filter: options.filter === undefined ? undefined : compileFilter(options.filter, kernels),
  };
  const passOptions: PassOptions = {
    before: options.before,
    after: options.after,
    windowNs: options.windowNs ?? DEFAULT_WINDOW_NS,
    epochNs: options.epochNs ?? DEFAULT_EPOCH_NS,
    capture,
    filterText: options.filter,
    thread,
    ...(options.onProgress ? { onProgress: options.onProgress } : {}),
  };
  let plan: PassPlan = {
    cover: options.cover ?? DEFAULT_COVER,
    alignNs: 0,
    thresholdNs: 0,
    correction: { offsetNs: 0, slope: 0, pivotNs: 0 },
    leadNs: Math.min(passOptions.windowNs / 8, SHORT_LEAD_NS),
    limit:
      isStandardInput(options.before) || isStandardInput(options.after)
        ? Number.POSITIVE_INFINITY
        : LOOK_AHEAD,
  };
  const notes: string[] = [];
  const tried = { aligned: false, mayAnswer: true };
  let corrected = mode === "asis";
  // The whole is begun at once, on trial for as long as a look ahead would take. Taps are not: what they have seen cannot be taken back.
  const onTrial = plan.limit === LOOK_AHEAD && !options.onBatch;
  const trial: PassOptions["trial"] = {
    rows: 2 * LOOK_AHEAD,
    stands: (matcher, shorts) => {
      const directions = tellDirections(matcher, plan);
      if (directions.peers === null && directions.matched >= ENOUGH_MATCHED) tried.mayAnswer = false;
      if (shorts > 0 && options.cover === undefined) return false;
      return better(matcher, plan, directions, passOptions.windowNs) === null;
    },
  };
  if (onTrial) plan = { ...plan, limit: Number.POSITIVE_INFINITY };
  for (let pass = 1; ; pass++) {
    const whole = plan.limit === Number.POSITIVE_INFINITY;
    if (whole) options.onRestart?.(plan);
    const observed: PassOptions =
      whole && options.onBatch ? { ...passOptions, onBatch: options.onBatch } : passOptions;
    const result = await runPass(kernels, pass === 1 && onTrial ? { ...observed, trial } : observed, plan);
    if (result === null) {
      plan = { ...plan, limit: LOOK_AHEAD };
      continue;
    }
    const last = pass >= MAX_PASSES || !result.rereadable;
    const directions = tellDirections(result.matcher, plan, tried.mayAnswer);
    if (result.limited && directions.peers === null && directions.matched >= ENOUGH_MATCHED)
      tried.mayAnswer = false;
    const final = plan.correction.offsetNs !== 0 || plan.correction.slope !== 0;
    let next = final
      ? null
      : await revise(kernels, options, capture, result, directions, tried, options.cover === undefined);
    if (!next && !whole) {
      if (result.limited) next = { ...plan, limit: Number.POSITIVE_INFINITY };
      // The look ahead saw everything: its result is the result, unless taps wait for their packets.
      else if (options.onBatch) next = { ...plan, limit: Number.POSITIVE_INFINITY };
    } else if (next && !whole) {
      next = { ...next, limit: plan.limit };
    }
    let verdict: ClockVerdict | null = null;
    if (!next && !corrected) {
      verdict = diagnose({ observer: result.observer, ...result.quality });
      const { offsetNs, slope, originNs } = correction(verdict, mode);
      if (offsetNs !== 0 || slope !== 0) {
        next = { ...plan, correction: { offsetNs, slope, pivotNs: originNs } };
      }
      corrected = true;
    }
    if (next && !last) {
      result.matcher.free();
      plan = next;
      continue;
    }
    if (next) {
      const missed = (better: PassPlan) => unmended(plan, better, result.rereadable, passOptions.windowNs);
      notes.push(missed(next));
      const turned = { ...plan, thresholdNs: directions.thresholdNs };
      // What the pass has put into the other direction stays there, where it cannot be done again.
      if (result.matcher.total(2).matched > 0) directions.twoWay = true;
      if (turned.thresholdNs !== plan.thresholdNs && next.thresholdNs === plan.thresholdNs)
        notes.push(missed(turned));
    }
    const merged = await mergedSegments(kernels, options, capture, result, directions.matched);
    if (merged !== null) notes.push(merged);
    const stepped = tried.aligned
      ? null
      : await clockStep(kernels, passOptions, plan, result, directions.matched);
    if (stepped !== null) notes.push(stepped);
    verdict ??= diagnose({ observer: result.observer, ...result.quality });
    if (stepped !== null) verdict = stepBeyondPairs(verdict);
    const view = buildReport({
      result,
      windowNs: passOptions.windowNs,
      directions,
      verdict,
      mode,
      key,
      notes,
      options: describeOptions(options, plan, key),
      epochNs: passOptions.epochNs,
    });
    return { view, free: () => result.matcher.free() };
  }
}

function unmended(plan: PassPlan, next: PassPlan, rereadable: boolean, windowNs: number): string {
  const why = rereadable ? "after several passes" : "standard input cannot be read twice; give files";
  if (next.cover !== plan.cover) {
    return `packets are cut at ${next.cover} bytes from the IP header in one capture, digests cover ${plan.cover}: use ‘cover ${next.cover}’ (${why})`;
  }
  if (Math.abs(next.alignNs) > windowNs)
    return `the clocks seem to be apart by more than the window (${why})`;
  if (next.thresholdNs !== plan.thresholdNs)
    return `the two directions could not be told apart for certain: packets with an earlier stamp in the second capture are taken to go back, as 'reverse' (${why})`;
  if (next.leadNs !== plan.leadNs || next.alignNs !== plan.alignNs)
    return `reordering could not be judged: the second clock is behind (${why})`;
  return `the clock correction could not be applied (${why})`;
}

function describeOptions(options: CompareOptions, plan: PassPlan, key: FlowKeySpec): Record<string, unknown> {
  return {
    windowNs: options.windowNs ?? DEFAULT_WINDOW_NS,
    epochNs: options.epochNs ?? DEFAULT_EPOCH_NS,
    clock: options.clock ?? "asis",
    key: key.text,
    filter: options.filter ?? null,
    inner: options.inner ?? false,
    digestCoverBytes: plan.cover,
    alignedByNs: plan.alignNs,
  };
}

/** A better plan, when this pass shows one; null when it stands. */
async function revise(
  kernels: Kernels,
  options: CompareOptions,
  capture: Omit<CaptureOptions, "cover">,
  result: PassResult,
  directions: Directions,
  tried: { aligned: boolean },
  mayCover: boolean,
): Promise<PassPlan | null> {
  const { plan } = result;
  if (mayCover) {
    const cover = Math.max(
      LEAST_COVER,
      Math.min(visibleTo(result.before, plan.cover), visibleTo(result.after, plan.cover)),
    );
    if (cover < plan.cover) return { ...plan, cover };
  }
  const rows = Math.min(result.before.ipPackets, result.after.ipPackets);
  if (
    !tried.aligned &&
    rows >= 10 &&
    directions.matched < FEW_MATCHES * rows &&
    result.rereadable &&
    !result.limited
  ) {
    tried.aligned = true;
    const found = await sampleAlignment(kernels, options, { ...capture, cover: plan.cover }, result.originNs);
    const offsetNs = found?.offsetNs ?? 0;
    // Within the window it is not the offset that keeps packets apart.
    if (Math.abs(offsetNs) > (options.windowNs ?? DEFAULT_WINDOW_NS))
      return { ...plan, alignNs: offsetNs, thresholdNs: ALL_FORWARD_NS };
  }
  return better(result.matcher, plan, directions, options.windowNs ?? DEFAULT_WINDOW_NS);
}

/** BEFORE is ahead of AFTER by at least this part of the lead (pair-feed.ts). */
const SURE_LEAD = 4;

/** A plan with other directions, clocks brought together or a longer lead, when matched packets show that it takes one. */
function better(
  matcher: ExactMatcher,
  plan: PassPlan,
  directions: Directions,
  windowNs: number,
): PassPlan | null {
  if (directions.thresholdNs !== plan.thresholdNs) return { ...plan, thresholdNs: directions.thresholdNs };
  // Packets that arrive, by their stamps, before they are sent: BEFORE must be read further ahead for their order to be seen.
  const { minNs = 0, meanNs = 0 } = matcher.total(1).delay ?? {};
  const early = -Math.min(0, minNs) + Math.min(0, plan.alignNs);
  // So far that reading ahead would take several windows of memory: the clocks are brought together instead.
  if (early > windowNs / SURE_LEAD && meanNs - plan.alignNs < -windowNs / (2 * SURE_LEAD))
    return { ...plan, alignNs: plan.alignNs - early, thresholdNs: plan.thresholdNs + early };
  const leadNs = Math.min(windowNs, 8 * early);
  return leadNs > plan.leadNs ? { ...plan, leadNs } : null;
}

/** A clock that was set during the capture by more than the window leaves a good part of the packets in common without a partner. */
async function clockStep(
  kernels: Kernels,
  options: PassOptions,
  plan: PassPlan,
  result: PassResult,
  matched: number,
): Promise<string | null> {
  const { before, after, rereadable, originNs } = result;
  const most = (1 - MANY_UNMATCHED) * Math.min(before.ipPackets, after.ipPackets);
  if (!rereadable || matched === 0 || matched > most) return null;
  const capture = { ...options.capture, cover: plan.cover };
  const found = await sampleAlignment(kernels, options, capture, originNs);
  if (!found) return null;
  const rivalNs = found.runnerUp > MANY_UNMATCHED * found.total ? (found.runnerUpNs ?? 0) : 0;
  const apartNs = Math.max(Math.abs(found.offsetNs), Math.abs(rivalNs));
  if (apartNs <= options.windowNs) return null;
  return `many packets that are in both captures are ${formatDuration(apartNs)} apart there, more than the window: a clock was set during the capture; compare the parts before and after it separately (editcap -A and -B cut by time)`;
}

/** Bytes from the IP header on that (nearly) all packets of a capture show, up to the coverage wanted. */
function visibleTo(statistics: PassResult["before"], cover: number): number {
  let cut = 0;
  for (const [size, packets] of statistics.shorts) {
    cut += packets;
    if (cut > ODD_SHARE * statistics.ipPackets) return size;
  }
  return cover;
}
