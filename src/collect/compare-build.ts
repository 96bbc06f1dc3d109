/** From the matcher's records to the report: counts told apart, statistics, the verdicts beside them. */
import { bucketHigh, bucketLow, bucketMid, LogHistogram } from "../base/log-histogram.ts";
import { VERSION } from "../base/version.ts";
import type { FlowKeySpec } from "../capture/flow-key.ts";
import { communityId } from "../capture/flow-text.ts";
import { type CaptureStatistics, DEFAULT_COVER } from "../capture/reader.ts";
import { type CorrectionMode, clockUncertainty, correction } from "../clock/correction.ts";
import type { ClockVerdict } from "../clock/verdict.ts";
import type {
  BucketRun,
  DelaySums,
  EdgeCounts,
  FlowResult,
  WaySums,
} from "../estimators/exact/flow-results.ts";
import type { ExactMatcher, TotalResult } from "../estimators/exact/matcher.ts";
import type { FlowOrder } from "./compare.ts";
import type { PassResult } from "./compare-pass.ts";
import type {
  CaptureSummary,
  CompareReport,
  FlowReport,
  HeatMap,
  IntervalReport,
  Latency,
  SegmentReport,
} from "./compare-report.ts";

export interface Directions {
  matched: number;
  /** Packets go both ways in these captures. */
  twoWay: boolean;
  /** The threshold that tells them apart (compare-pass.ts); another pass is due when it is not the one used. */
  thresholdNs: number;
  /** Flows that answer each other; null where it was not looked at. */
  peers: number | null;
}

export interface BuildInput {
  result: PassResult;
  directions: Directions;
  verdict: ClockVerdict;
  mode: CorrectionMode;
  key: FlowKeySpec;
  notes: string[];
  options: Record<string, unknown>;
  flows: "all" | { top: number; sort: FlowOrder };
  epochNs: number;
}

/** A run of unmatched packets at an end is only put down to the capture when loss would hardly have made it. */
const CHANCE = 1e-4;
const CDF_POINTS = 400;
const HEAT_COLUMNS = 200;
const HEAT_ROWS = 60;

export function buildReport(input: BuildInput): CompareReport {
  const { result, directions, verdict, mode, key } = input;
  const { matcher } = result;
  const { twoWay } = directions;
  if (twoWay) matcher.orientUnmatched();
  const sums = matcher.flows.sums(twoWay);
  const eligible = eligibleEdges(matcher, twoWay, key, sums);
  const total = matcher.total(1);
  const forward = buildSegment(sums.forward, eligible.forward, total, matcher.ambiguous, "forward");
  const reverse =
    twoWay && sums.reverse.sent + sums.reverse.received > 0
      ? buildSegment(sums.reverse, eligible.reverse, matcher.total(2), 0, "reverse")
      : null;
  const flows = (way: Way | null, number: 1 | 2): FlowReport[] =>
    way === null
      ? []
      : choose(matcher, way, number, twoWay, input.flows).map((id) => flowReport(id, way, key, matcher));
  const intervals = buildIntervals(input);
  const applied = correction(verdict, mode);
  return {
    format: "hoptime.compare/1",
    hoptime: VERSION,
    options: input.options,
    before: summary(result.before),
    after: summary(result.after),
    segment: forward.report,
    reverse: reverse?.report ?? null,
    flows: flows(forward, 1),
    reverseFlows: flows(reverse, 2),
    intervals: intervals.reports,
    cdf: cdfOf(total),
    heat: intervals.heat,
    clock: {
      ...verdict,
      mode,
      ways: verdict.mode,
      applied: applied.describe,
      uncertainty: clockUncertainty(verdict, mode),
    },
    direction: judgeDirection(total, forward.report, verdict, reverse !== null),
    notes: [...input.notes, ...observations(input, forward.report)],
  };
}

const EDGES = ["headBefore", "tailBefore", "headAfter", "tailAfter"] as const;

/** One way's report, and which unmatched packets at the captures' ends are put down to the captures and not to loss. */
interface Way {
  way: "forward" | "reverse";
  report: SegmentReport;
  real: Record<keyof EdgeCounts, boolean>;
}

/**
 * Unmatched packets at the ends that say something of a capture's start or end. Neighbour discovery, router chatter and the like
 * never leave their link: missing elsewhere, they say nothing.
 */
function eligibleEdges(
  matcher: ExactMatcher,
  twoWay: boolean,
  key: FlowKeySpec,
  sums: { forward: WaySums; reverse: WaySums },
): { forward: EdgeCounts; reverse: EdgeCounts } {
  const eligible = { forward: { ...sums.forward.withMatch }, reverse: { ...sums.reverse.withMatch } };
  for (const id of matcher.flows.edgesOnly()) {
    const { words, at } = matcher.keyWords(id);
    if (key.isLinkScoped(words, at)) continue;
    const flow = matcher.flow(id);
    const counts = twoWay && flow.direction === 2 ? eligible.reverse : eligible.forward;
    for (const edge of EDGES) counts[edge] += flow[edge];
  }
  return eligible;
}

/**
 * Unmatched packets at the ends: head and tail where the other capture cannot have been running, otherwise lost or appeared.
 * Reverse flows have their ends exchanged.
 */
function buildSegment(
  sums: WaySums,
  eligible: EdgeCounts,
  total: TotalResult,
  ambiguous: number,
  way: "forward" | "reverse",
): Way {
  const forward = way === "forward";
  const { matched } = sums;
  const lostInside = forward ? sums.lost : sums.appeared + sums.duplicates;
  const newInside = forward ? sums.appeared : sums.lost;
  const rate = (unmatched: number) => (unmatched + 1) / (matched + unmatched + 2);
  const judge = (edge: keyof EdgeCounts): boolean => {
    const p = rate(edge.endsWith("Before") === forward ? lostInside : newInside);
    return eligible[edge] > 0 && eligible[edge] * Math.log(p) < Math.log(CHANCE);
  };
  const real = {
    headBefore: judge("headBefore"),
    tailBefore: judge("tailBefore"),
    headAfter: judge("headAfter"),
    tailAfter: judge("tailAfter"),
  };
  const counts = settle(sums, real, way);
  const sent = forward ? sums.sent : sums.received;
  const received = forward ? sums.received : sums.sent;
  const latency = latencyOf(total.delay, total.histogram, total.jitterNs);
  const report: SegmentReport = {
    sent,
    received,
    matched,
    lost: counts.lost,
    lossRate: matched + counts.lost > 0 ? counts.lost / (matched + counts.lost) : null,
    appeared: counts.appeared,
    duplicates: counts.duplicates,
    reordered: total.reordered,
    reorderExtent:
      total.reordered > 0 ? { max: total.extentMax, mean: total.extentSum / total.reordered } : null,
    head: counts.head,
    tail: counts.tail,
    ambiguous,
    latency,
    ...(latency ? {} : { reason: noMatchReason(sent, received) }),
  };
  return { way, report, real };
}

/** Counts of a flow, or of all, with the unmatched packets at the ends put where they belong. */
function settle(
  f: EdgeCounts & Pick<FlowResult, "lost" | "appeared" | "duplicates">,
  real: Way["real"],
  way: Way["way"],
): { lost: number; appeared: number; duplicates: number; head: number; tail: number } {
  const onlyBefore = f.lost + (real.headBefore ? 0 : f.headBefore) + (real.tailBefore ? 0 : f.tailBefore);
  const onlyAfter = f.appeared + (real.headAfter ? 0 : f.headAfter) + (real.tailAfter ? 0 : f.tailAfter);
  const head = (real.headBefore ? f.headBefore : 0) + (real.headAfter ? f.headAfter : 0);
  const tail = (real.tailBefore ? f.tailBefore : 0) + (real.tailAfter ? f.tailAfter : 0);
  if (way === "forward")
    return { lost: onlyBefore, appeared: onlyAfter, duplicates: f.duplicates, head, tail };
  // From the far end, what BEFORE alone saw has appeared there, and what AFTER alone saw was lost on the way.
  return { lost: onlyAfter + f.duplicates, appeared: onlyBefore, duplicates: 0, head, tail };
}

function noMatchReason(sent: number, received: number): string {
  if (sent === 0 && received === 0) return "no IP packets in either capture";
  if (sent === 0) return "no IP packets at the first point";
  if (received === 0) return "no IP packets at the second point";
  return "no packet was seen at both points within the window";
}

function latencyOf(
  delay: DelaySums | null,
  histogram: LogHistogram,
  jitterNs: number | null,
): Latency | null {
  if (!delay) return null;
  const quantile = (q: number) => histogram.quantile(q, delay.minNs, delay.maxNs) ?? delay.meanNs;
  return {
    count: delay.count,
    meanNs: delay.meanNs,
    stdevNs: delay.stdevNs,
    minNs: delay.minNs,
    maxNs: delay.maxNs,
    p50Ns: quantile(0.5),
    p90Ns: quantile(0.9),
    p99Ns: quantile(0.99),
    p999Ns: quantile(0.999),
    jitterNs,
  };
}

/** Up to three delays are known from least, most and sum; more from their buckets. */
function histogramOf(delay: DelaySums, run: () => BucketRun): LogHistogram {
  const histogram = new LogHistogram();
  if (delay.count <= 3) {
    histogram.add(delay.minNs);
    if (delay.count > 1) histogram.add(delay.maxNs);
    if (delay.count > 2) histogram.add(Math.round(delay.meanNs * 3 - delay.minNs - delay.maxNs));
    return histogram;
  }
  const { buckets, counts } = run();
  for (let i = 0; i < buckets.length; i++) histogram.addBucket(buckets[i]!, counts[i]!);
  return histogram;
}

function choose(
  matcher: ExactMatcher,
  { real }: Way,
  way: 1 | 2,
  twoWay: boolean,
  wanted: BuildInput["flows"],
): number[] {
  const edgesLost = {
    headBefore: !real.headBefore,
    tailBefore: !real.tailBefore,
    headAfter: !real.headAfter,
    tailAfter: !real.tailAfter,
  };
  const [sort, top] =
    wanted === "all" ? ["packets" as const, Number.POSITIVE_INFINITY] : [wanted.sort, wanted.top];
  // The 99th percentile is told by the maximum here; the rows chosen show their p99.
  const by = sort === "p99" ? "max" : sort;
  return matcher.flows.choose({ way, twoWay, by, edgesLost, top });
}

function flowReport(id: number, { way, real }: Way, key: FlowKeySpec, matcher: ExactMatcher): FlowReport {
  const flow = matcher.flow(id);
  const { words, at } = matcher.keyWords(id);
  const described = key.describe(words, at);
  const forward = way === "forward";
  const { lost, appeared, duplicates } = settle(flow, real, way);
  const latency = flow.delay
    ? latencyOf(
        flow.delay,
        histogramOf(flow.delay, () => matcher.flows.buckets(id)),
        flow.jitterNs,
      )
    : null;
  return {
    key: described,
    communityId: key.isFiveTuple ? communityId(described) : null,
    sent: forward ? flow.sent : flow.received,
    received: forward ? flow.received : flow.sent,
    matched: flow.matched,
    lost,
    appeared,
    duplicates,
    reordered: flow.reordered,
    bytes: flow.bytes,
    latency,
    ...(latency ? {} : { reason: noMatchReason(flow.sent, flow.received) }),
  };
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

function buildIntervals({ result, epochNs }: BuildInput): {
  reports: IntervalReport[];
  heat: HeatMap | null;
} {
  const { matcher, epochStart } = result;
  const intervals = matcher.intervals();
  const runs = matcher.intervalBuckets();
  const step = BigInt(Math.round(epochNs));
  const reports: IntervalReport[] = [];
  const grouped = Math.max(1, Math.ceil(intervals.length / HEAT_COLUMNS));
  const columns: LogHistogram[] = [];
  const starts: string[] = [];
  for (const [i, interval] of intervals.entries()) {
    if (i % grouped === 0) {
      columns.push(new LogHistogram());
      starts.push((epochStart + BigInt(i) * step).toString());
    }
    // Empty stretches (a clock set years ahead) are no rows.
    if (interval.matched + interval.lost === 0 && intervals.length > 10_000) continue;
    const histogram = new LogHistogram();
    const { buckets, counts } = runs(i);
    for (let k = 0; k < buckets.length; k++) {
      histogram.addBucket(buckets[k]!, counts[k]!);
      columns.at(-1)!.addBucket(buckets[k]!, counts[k]!);
    }
    const startNs = epochStart + BigInt(i) * step;
    reports.push({
      startNs: startNs.toString(),
      endNs: (startNs + step).toString(),
      sent: interval.matched + interval.lost,
      matched: interval.matched,
      lost: interval.lost,
      latency: latencyOf(interval.delay, histogram, null),
    });
  }
  return { reports, heat: heatOf(columns, starts, epochNs * grouped) };
}

function heatOf(columns: LogHistogram[], columnStartNs: string[], columnWidthNs: number): HeatMap | null {
  let least = Number.POSITIVE_INFINITY;
  let most = 0;
  for (const column of columns) {
    for (const [bucket] of column.entries()) {
      if (bucketHigh(bucket) <= 0) continue;
      least = Math.min(least, Math.max(1, bucketLow(bucket)));
      most = Math.max(most, bucketHigh(bucket));
    }
  }
  if (!(most > least)) return null;
  // Rows narrower than two log buckets would show the buckets, not the delays.
  const range = Math.log((most + 1) / least);
  const rows = Math.max(1, Math.min(HEAT_ROWS, Math.floor(range / (2 / 128))));
  const ratio = range / rows;
  const delayEdgesNs = Array.from({ length: rows + 1 }, (_, i) => least * Math.exp(i * ratio));
  const counts = columns.map((column) => {
    const row = new Array<number>(rows).fill(0);
    for (const [bucket, n] of column.entries()) {
      // Delays at or below 0 belong to the lowest row: a logarithmic axis has no other place for them.
      const at = Math.floor(Math.log(Math.max(least, bucketMid(bucket)) / least) / ratio);
      row[Math.min(rows - 1, Math.max(0, at))]! += n;
    }
    return row;
  });
  return { delayEdgesNs, columnStartNs, columnWidthNs, counts };
}

function cdfOf(total: TotalResult): { delayNs: number; share: number }[] {
  if (total.matched === 0) return [];
  const points = total.histogram.cdf().map((p) => ({ delayNs: p.valueNs, share: p.share }));
  if (points.length <= CDF_POINTS) return points;
  // Even steps in share, and all of the tail's last steps.
  const out: typeof points = [];
  let next = 0;
  for (const [i, p] of points.entries()) {
    if (p.share >= next || i === points.length - 1 || p.share > 0.99) {
      out.push(p);
      next = p.share + 1 / CDF_POINTS;
    }
  }
  return out;
}

function judgeDirection(
  total: TotalResult,
  segment: SegmentReport,
  verdict: ClockVerdict,
  twoWay: boolean,
): CompareReport["direction"] {
  const evidence: string[] = [];
  if (total.matched === 0) return { order: "unclear", evidence: ["no packet was seen at both points"] };
  let score = 0;
  const { lower, higher } = total.ttl;
  if (lower > 0.9 * total.matched) {
    evidence.push("TTLs are lower in the second capture: it is the later point");
    score += 3;
  } else if (higher > 0.9 * total.matched) {
    evidence.push("TTLs are higher in the second capture: it is the earlier point");
    score -= 3;
  }
  const allNegative = total.negative > 0.9 * total.matched;
  if (twoWay) {
    evidence.push("packets go both ways; flows that answer each other tell the directions apart");
    score += 1;
  }
  if (allNegative) {
    evidence.push(
      `${total.negative} of ${total.matched} delays are negative: the second capture is the earlier point, or its clock is behind`,
    );
    score -= 2;
  } else if (total.negative === 0 && verdict.offset.kind === "none") {
    evidence.push("all delays are positive");
    score += 1;
  }
  const missing = segment.lost;
  const extra = segment.appeared;
  if (missing + extra > 20 && Math.max(missing, extra) > 5 * Math.min(missing, extra)) {
    if (extra > missing) {
      evidence.push(
        `${extra} packets are only in the second capture and ${missing} only in the first: loss points the other way`,
      );
      score -= 1;
    } else {
      evidence.push(
        `${missing} packets are only in the first capture and ${extra} only in the second, as loss on the way makes it`,
      );
      score += 1;
    }
  }
  return { order: score > 0 ? "as-given" : score < 0 ? "swapped" : "unclear", evidence };
}

function observations({ result, directions }: BuildInput, segment: SegmentReport): string[] {
  const notes: string[] = [];
  const { before, after, plan } = result;
  for (const side of [before, after]) {
    if (side.partial) notes.push(`partial: ${side.partial}; what was read until then is counted`);
    notes.push(...side.warnings.map((w) => `${side.file}: ${w}`));
    if ((side.dropped ?? 0) > 0) {
      notes.push(
        `${side.file}: the capturing side dropped ${side.dropped} packets: unmatched packets may be capture loss, not path loss`,
      );
    }
  }
  const cut = [...before.shorts, ...after.shorts].filter(([size]) => size < plan.cover);
  if (cut.length > 0) {
    const packets = cut.reduce((n, [, count]) => n + count, 0);
    notes.push(
      `${packets} packets are cut at less than the ${plan.cover} bytes from the IP header on that tell packets apart: they may not match`,
    );
  }
  if (plan.cover < DEFAULT_COVER) {
    notes.push(
      `packets are told apart by their first ${plan.cover} bytes from the IP header on: what both captures hold`,
    );
  }
  if (segment.ambiguous > 0) {
    notes.push(
      `${segment.ambiguous} packets look like an earlier one within the window (equal digests): matched first in, first out`,
    );
  }
  if (plan.alignNs !== 0)
    notes.push(
      `the clocks are apart by about ${(plan.alignNs / 1e9).toFixed(6)} s; packets were matched with that removed`,
    );
  if (directions.twoWay)
    notes.push("packets go both ways: 'segment' is first capture to second, 'reverse' the other way");
  return notes;
}
