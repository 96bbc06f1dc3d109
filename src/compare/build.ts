/** Builds the report from the matcher's records, with the other files of this folder. */
import { VERSION } from "../base/version.ts";
import type { FlowKeySpec } from "../capture/flow/flow-key.ts";
import type { CaptureStatistics } from "../capture/reader.ts";
import type { ClockPath } from "../clock/clock-path.ts";
import { type Correction, type CorrectionMode, clockUncertainty, correction } from "../clock/correction.ts";
import type { ClockVerdict } from "../clock/verdict.ts";
import type { TotalResult } from "../match/match-types.ts";
import { judgeDirection } from "./direction.ts";
import { type FlowChoice, MatchedFlows } from "./flows.ts";
import { groupFlows } from "./grouped-flows.ts";
import { buildIntervals, type Intervals } from "./intervals.ts";
import { cdfOf } from "./latency.ts";
import { translations } from "./nat.ts";
import { observations } from "./notes.ts";
import { PacketTable } from "./packets.ts";
import type { PassResult } from "./pass.ts";
import type { Directions } from "./plan.ts";
import type { CaptureSummary, FlowRows, ReportView, SegmentReport } from "./report.ts";
import { buildSegment, eligibleEdges, type Way } from "./segment.ts";

export interface BuildInput {
  result: PassResult;
  windowNs: number;
  directions: Directions;
  verdict: ClockVerdict;
  mode: CorrectionMode;
  /** The key of the report's flows, and the key by which packets were counted. */
  key: FlowKeySpec;
  flowKey: FlowKeySpec;
  notes: string[];
  /** Why the loss is probably not real. */
  lossCause: string | null;
  options: Record<string, unknown>;
  epochNs: number;
}

/** Computes everything except the flows at once; flows are made for each choice. Valid until the matcher is freed. */
export function buildReport(input: BuildInput): {
  view: (flows: FlowChoice) => ReportView;
  packets: PacketTable | null;
} {
  const { result, directions, key, flowKey } = input;
  const { matcher } = result;
  const { twoWay } = directions;
  const sums = matcher.flows.survey(twoWay);
  const eligible = eligibleEdges(matcher, twoWay, flowKey, sums);
  const total = matcher.total(1);
  const forward = buildSegment(sums.forward, eligible.forward, total, "forward");
  const reverse =
    twoWay && sums.reverse.sent + sums.reverse.received > 0
      ? buildSegment(sums.reverse, eligible.reverse, matcher.total(2), "reverse")
      : null;
  const rows = (way: Way | null, choice: FlowChoice): FlowRows =>
    way === null
      ? []
      : key === flowKey
        ? new MatchedFlows(matcher, way, twoWay, key, choice)
        : groupFlows(matcher, way, twoWay, key, choice);
  const { headBefore, tailBefore } = sums.forward;
  let built: Intervals | null = null;
  const intervals = () => {
    built ??= buildIntervals(result, input.epochNs, {
      head: forward.real.headBefore ? 0 : headBefore,
      tail: forward.real.tailBefore ? 0 : tailBefore,
    });
    return built;
  };
  const head = {
    format: "hoptime.compare/1" as const,
    hoptime: VERSION,
    options: input.options,
    before: summary(result.before),
    after: summary(result.after),
    segment: { ...forward.report, captureLoss: captureLoss(result.before, result.after) },
    reverse: reverse && { ...reverse.report, captureLoss: captureLoss(result.after, result.before) },
  };
  const rest = judgements(input, total, forward.report, reverse?.report ?? null);
  const nat = input.options["nat"] ? { translations: translations(matcher, flowKey) } : {};
  const view = (choice: FlowChoice): ReportView => ({
    ...head,
    ...nat,
    flows: rows(forward, choice),
    reverseFlows: rows(reverse, choice),
    // Only drawings and full listings need these: computed on access.
    get intervals() {
      return intervals().reports;
    },
    get cdf() {
      return cdfOf(total);
    },
    get heat() {
      return intervals().heat();
    },
    ...rest,
    ...(input.lossCause === null ? {} : { lossCause: input.lossCause }),
  });
  const { packets: log, originNs, plan } = result;
  const packets =
    log &&
    new PacketTable({
      log,
      matcher,
      key: flowKey,
      forward,
      reverse,
      twoWay,
      originNs,
      alignNs: plan.alignNs,
    });
  return { view, packets };
}

/** Judges the results: clocks, direction, notes. */
function judgements(
  { result, windowNs, directions, verdict, mode, notes }: BuildInput,
  total: TotalResult,
  segment: SegmentReport,
  reverse: SegmentReport | null,
): Pick<ReportView, "clock" | "direction" | "notes"> {
  const applied = correction(verdict, mode);
  const clock = { applied, verdict };
  return {
    clock: {
      ...verdict,
      mode,
      ways: verdict.mode,
      applied: applied.describe,
      drift: { ...verdict.drift, path: undefined },
      pieces: verdict.drift.path ? pathReport(applied, verdict.drift.path) : piecesReport(applied, verdict),
      uncertainty: clockUncertainty(verdict, mode),
    },
    direction: judgeDirection(total, segment, verdict, {
      ...directions,
      // Replies seen at one point only show nothing.
      twoWay: reverse !== null && reverse.matched > 0,
    }),
    notes: [
      ...notes,
      ...observations({ result, windowNs, directions, segment, reverse, clock, found: notes }),
    ],
  };
}

/** Lists the pieces of the clock relation with what is removed from each; empty if no clock may have been set. */
function piecesReport(applied: Correction, verdict: ClockVerdict) {
  return verdict.pieces.map(({ fromNs, toNs, offset }, i) => {
    const removed = applied.pieces[i];
    return {
      fromNs,
      toNs,
      offset: {
        kind: offset.kind,
        estimateNs: offset.estimateNs,
        lowNs: offset.lowNs,
        highNs: offset.highNs,
      },
      removedNs: removed?.removedNs ?? applied.offsetNs,
      uncertaintyNs: removed?.offsetUncertaintyNs ?? null,
      stepUncertaintyNs: removed?.stepUncertaintyNs ?? null,
    };
  });
}

/** The same for a wandering clock, slice by slice. */
function pathReport(applied: Correction, { timeNs, aheadNs, bounds }: ClockPath) {
  const follows = applied.pieces.length > 0;
  return aheadNs.map((estimateNs, i) => {
    const [at, next] = [timeNs[i] ?? 0, timeNs[i + 1]];
    const halfNs = ((timeNs[1] ?? 0) - (timeNs[0] ?? 0)) / 2;
    const { lowNs, highNs } = bounds[i] ?? { lowNs: null, highNs: null };
    return {
      fromNs: i === 0 ? null : at - halfNs,
      toNs: next === undefined ? null : at + halfNs,
      offset: { kind: "constant", estimateNs, lowNs, highNs },
      removedNs: follows ? estimateNs : 0,
      uncertaintyNs: follows && lowNs !== null ? Math.max(estimateNs - lowNs, highNs - estimateNs) : null,
      stepUncertaintyNs: null,
    };
  });
}

/** Packets that the capturing hosts report as dropped: at the far end a drop looks like loss, at the near end like a packet that appears. */
function captureLoss(near: CaptureStatistics, far: CaptureStatistics): SegmentReport["captureLoss"] {
  return near.dropped === null && far.dropped === null ? null : { before: near.dropped, after: far.dropped };
}

function summary(s: CaptureStatistics): CaptureSummary {
  return {
    file: s.file,
    format: s.format,
    packets: s.packets,
    ipPackets: s.ipPackets,
    bytes: s.bytes,
    firstNs: s.firstNs?.toString() ?? null,
    lastNs: s.lastNs?.toString() ?? null,
    skipped: s.skipped,
    dropped: s.dropped,
    partial: s.partial,
  };
}
