/**
 * From RLI's sums to answers: equations 5 and 6, plus the errors that the references show.
 *
 * An interval has two parts. The error of the line differs from gap to gap and averages out over the gaps that a flow lies in. Errors common to all packets do
 * not: the clock of the references' sender, a wrong drain rate, packets that a token bucket passes without delaying them by their transmission, and the delay
 * that references add to packets behind them. Both are at the requested confidence; the second part is added in full.
 */

import { LogHistogram } from "../../base/math/log-histogram.ts";
import { studentQuantile } from "../../base/math/special.ts";
import { countOf, formatBitRate, formatCount } from "../../base/quantity.ts";
import type {
  EstimateInput,
  EstimatorAnswer,
  FlowEstimate,
  Interval,
  KnownFlows,
  NoAnswer,
  SegmentEstimate,
} from "../estimator.ts";
import type { RliParameters } from "./parameters.ts";
import { type Counters, type DelaySums, decodeRli, type RliFlows, type RliSketch } from "./payload.ts";

const QUANTILES = [0.5, 0.9, 0.99];
/** Correlation of a flow's errors in different gaps: a flow that always arrives at the same place of a burst meets the same part of the queue each time. */
const ALIKE_IN_GAPS = 0.01;
/** ns: times and delays are integers. */
const ROUNDING_NS = 1;
/** Number of gaps with a busy link from which on the measured drain rate is trusted. */
const BUSY_GAPS = 20;
/** Share of packets closer to the previous one than their transmission time, above which the queue is not a plain link. */
const HURRIED_SHARE = 0.001;

export function estimateRli(input: EstimateInput<RliParameters>): EstimatorAnswer {
  const { receiver, parameters, seed, flows, confidence } = input;
  if (!receiver) return noRecord(flows);
  const sketch = decodeRli(receiver, parameters, seed);
  const link = readLink(sketch, parameters);
  const notes = [...describeCounters(sketch.counters, parameters), ...describeLink(link, parameters)];
  return {
    segment: segment(sketch, link, confidence, notes),
    flows: flows ? flowAnswers(sketch, link, flows, confidence) : [],
    notes: [],
  };
}

/** What an epoch shows about the link and the references; the same for all its packets. */
interface Link {
  nsPerByte: number;
  /** Measured in gaps with a busy link; null if there were too few. */
  measuredNsPerByte: number | null;
  /** Packets came through faster than the link can transmit them. */
  bucket: boolean;
  /** Root mean square error of the references' times, including rounding. */
  clockNs: number;
  /** Mean delay that references add to packets. */
  dragNs: number;
}

function readLink({ counters, total }: RliSketch, { drain }: RliParameters): Link {
  const packets = Math.max(1, counters.answered);
  return {
    nsPerByte: drain > 0 ? 8e9 / drain : 0,
    measuredNsPerByte: counters.busy >= BUSY_GAPS ? total.busyNs / total.busyBytes : null,
    bucket: counters.hurried > Math.max(3, HURRIED_SHARE * counters.packets),
    clockNs: Math.sqrt(total.timestamps / packets) + ROUNDING_NS,
    dragNs: total.drag / packets,
  };
}

function noRecord(flows: KnownFlows | null): EstimatorAnswer {
  const none: NoAnswer = { reason: "no-packets", text: "the record of the receiving point is missing" };
  return {
    segment: { ...blank(none), sent: null, received: null, lost: null, notes: [] },
    flows: Array.from({ length: flows?.count ?? 0 }, (_, flow) => noFlow(flow, none)),
    notes: [],
  };
}

const blank = (none: NoAnswer) => ({ mean: none, stdev: none, packetsUsed: 0, coverage: 0 });
const noFlow = (flow: number, none: NoAnswer): FlowEstimate => ({
  flow,
  mean: none,
  stdev: none,
  packets: null,
  lost: null,
});

function segment(sketch: RliSketch, link: Link, confidence: number, notes: string[]): SegmentEstimate {
  const { counters, total } = sketch;
  const { packets, answered } = counters;
  const ends = { sent: null, received: packets, lost: null, notes };
  if (answered === 0) return { ...blank(nothing(counters)), ...ends };
  const { mean, stdev } = answer(
    { ...total, packets: answered, gaps: counters.checked + 1 },
    link,
    confidence,
  );
  const rest = { ...ends, packetsUsed: answered, coverage: answered / packets };
  const measured = answered === packets ? {} : { measured: answered };
  if (sketch.ofAll) return { mean, stdev, ...rest, ...measured };
  return { mean: ofKeptFlows(mean, sketch), stdev: NOT_OF_ALL, ...rest };
}

const NOT_OF_ALL: NoAnswer = {
  reason: "not-supported",
  text: "the record is of an earlier version and has the standard deviation of the kept flows only",
};

/** A record of an earlier version has the mean of the kept flows only: the others may lie anywhere among the observed delays. */
function ofKeptFlows(mean: Interval, { counters, total }: RliSketch): Interval {
  const { answered, unselected, shed } = counters;
  const share = answered / (answered + unselected + shed);
  return {
    ...mean,
    lowNs: share * mean.lowNs + (1 - share) * Math.min(total.minimum, mean.lowNs),
    highNs: share * mean.highNs + (1 - share) * Math.max(total.maximum, mean.highNs),
  };
}

function nothing({ packets, unanswered, seen }: Counters): NoAnswer {
  if (packets === 0) return { reason: "no-packets", text: "no regular packet was seen" };
  if (seen === 0 && unanswered > 0)
    return {
      reason: "no-usable-cells",
      text: "no reference packet was seen: delays are interpolated between references",
    };
  return { reason: "not-in-sketch", text: "no packet of the flows that were kept lies beside a reference" };
}

interface Sums extends DelaySums {
  packets: number;
  gaps: number;
}

/**
 * Returns the half widths of the errors common to all packets of a flow, and by how much to shift the mean. In a token bucket with tokens, a packet is not
 * delayed by its transmission: the mean is that of packets passed at once, and it may be as high as equation 1 has it.
 */
function alike({ packets, excess, idle }: DelaySums & { packets: number }, link: Link) {
  const through = link.bucket ? (idle * link.nsPerByte) / packets : 0;
  const rateOff =
    link.measuredNsPerByte === null
      ? 0
      : ((excess - (link.bucket ? idle : 0)) / packets) * (link.measuredNsPerByte - link.nsPerByte);
  return {
    moveNs: -through,
    lowNs: link.clockNs + Math.max(0, -through) + Math.max(0, -rateOff),
    highNs: link.clockNs + Math.max(0, through) + Math.max(0, rateOff) + link.dragNs,
  };
}

/**
 * The line's part of the mean's error is sqrt(errors) / n, plus what does not average out over gaps. The standard deviation of the true delays differs from
 * that of the interpolated ones by at most the root mean square of the errors (triangle inequality of the L2 norm).
 */
function answer(sums: Sums, link: Link, confidence: number) {
  const { packets, gaps, sum, squares, errors, misses } = sums;
  const z = quantileOf(gaps, confidence);
  const lineNs = Number(sum) / packets;
  const persists = (ALIKE_IN_GAPS * misses) / packets;
  const half = z * Math.sqrt(errors / packets ** 2 + persists);
  const common = alike(sums, link);
  const lasting = z * Math.sqrt(persists);
  const meanNs = lineNs + common.moveNs;
  const deviation = Math.sqrt(Math.max(0, squares / packets - lineNs * lineNs));
  const wander = z * Math.sqrt(misses / packets) + common.highNs;
  const mean: Interval = {
    valueNs: meanNs,
    lowNs: meanNs - half - common.lowNs,
    highNs: meanNs + half + common.highNs,
    common: { lowNs: common.lowNs + lasting, highNs: common.highNs + lasting },
  };
  const stdev: Interval = {
    valueNs: deviation,
    lowNs: Math.max(0, deviation - wander),
    highNs: deviation + wander,
  };
  return { mean, stdev };
}

/**
 * Each gap's error is known from two misses and what their neighbourhood adds: 2.5 degrees of freedom (with three, only 92.6 % of intervals hold for dense
 * references on an idle link).
 */
const quantiles = new Map<string, number>();
function quantileOf(gaps: number, confidence: number): number {
  const freedom = Math.min(2.5 * gaps, 300);
  const name = `${freedom} ${confidence}`;
  let found = quantiles.get(name);
  if (found === undefined) {
    found = studentQuantile(0.5 + confidence / 2, freedom);
    quantiles.set(name, found);
  }
  return found;
}

function flowAnswers(sketch: RliSketch, link: Link, asked: KnownFlows, confidence: number): FlowEstimate[] {
  const { flows, counters } = sketch;
  const places = new Map<number, number[]>();
  for (let i = 0; i < flows.count; i++) {
    const list = places.get(flows.hash[2 * i]!);
    if (list) list.push(i);
    else places.set(flows.hash[2 * i]!, [i]);
  }
  const out: FlowEstimate[] = [];
  for (let flow = 0; flow < asked.count; flow++) {
    const low = asked.hash[2 * flow]!;
    const high = asked.hash[2 * flow + 1]!;
    const at = places.get(low)?.find((i) => flows.hash[2 * i + 1] === high);
    out.push(at === undefined ? noFlow(flow, absent(counters)) : oneFlow(flow, flows, at, link, confidence));
  }
  return out;
}

function absent(counters: Counters): NoAnswer {
  if (counters.answered === 0) return nothing(counters);
  return {
    reason: "not-in-sketch",
    text:
      counters.unselected + counters.shed > 0
        ? "the flow was not selected, found no place in the table, or did not arrive"
        : "no regular packet of the flow arrived (references are not accounted for)",
  };
}

function oneFlow(flow: number, flows: RliFlows, i: number, link: Link, confidence: number): FlowEstimate {
  const packets = flows.packets[i]!;
  const { mean, stdev } = answer(
    {
      packets,
      gaps: flows.gaps[i]!,
      sum: flows.sum[i]!,
      squares: flows.squares[i]!,
      errors: flows.errors[i]!,
      misses: flows.misses[i]!,
      excess: flows.excess[i]!,
      idle: flows.idle[i]!,
    },
    link,
    confidence,
  );
  const out: FlowEstimate = { flow, mean, stdev, packets, lost: null };
  if (flows.buckets) {
    const histogram = new LogHistogram();
    for (const [bucket, n] of flows.buckets[i] ?? []) histogram.addBucket(bucket, n);
    out.quantiles = QUANTILES.flatMap((share) => {
      const valueNs = histogram.quantile(share);
      return valueNs === null ? [] : [{ share, valueNs }];
    });
    out.delays = histogram;
  }
  return out;
}

function describeCounters(c: Counters, { buffer }: RliParameters): string[] {
  const notes: string[] = [];
  const say = (n: number, text: string) => {
    if (n > 0) notes.push(text);
  };
  say(
    c.lost,
    `${formatCount(c.lost)} of ${countOf(c.seen + c.lost, "reference")} lost: the gaps around them are wider`,
  );
  say(c.duplicate, `${countOf(c.duplicate, "duplicate reference")}: not used`);
  say(c.reordered, `${countOf(c.reordered, "reordered reference")}: not used`);
  say(
    c.forged,
    `${countOf(c.forged, "packet")} to the references' port not used: truncated, of another source or session, or inconsistent with the others`,
  );
  say(c.restarts, `the references' sender restarted or changed: ${countOf(c.restarts, "time")}`);
  say(
    c.oneSided,
    `${countOf(c.oneSided, "packet")} with a reference on one side only${c.spilled > 0 ? ` (${formatCount(c.spilled)} because more than ${formatCount(buffer)} waited for the next)` : ""}`,
  );
  say(c.unanswered, `${countOf(c.unanswered, "packet")} without a reference on either side: no delay`);
  say(
    c.unselected,
    `${countOf(c.unselected, "packet")} of flows that were not selected: no estimates for these flows`,
  );
  say(
    c.shed,
    `${countOf(c.shed, "packet")} of flows that did not fit into the table: no estimates for these flows`,
  );
  return notes;
}

function describeLink(link: Link, { drain }: RliParameters): string[] {
  const notes: string[] = [];
  const measured = link.measuredNsPerByte === null ? null : 8e9 / link.measuredNsPerByte;
  const rate = formatBitRate;
  if (measured !== null && (drain === 0 || Math.abs(measured / drain - 1) > 0.02)) {
    notes.push(
      `while the link was busy, ${rate(measured)} passed${drain === 0 ? ": give that as drain, otherwise packets of all sizes are treated alike" : `, but drain says ${rate(drain)}: one of them is wrong, or not all packets were seen`}`,
    );
  }
  if (measured === null && drain === 0)
    notes.push("the drain rate is not known: intervals do not include a packet's own transmission time");
  if (link.bucket)
    notes.push(
      "packets came closer together than the drain rate allows: with an empty queue they are assumed to have passed at once (a token bucket), and the interval covers both cases",
    );
  return notes;
}
