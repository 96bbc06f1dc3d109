/** From the payloads of both ends to answers for the segment and the requested flows, with what they are based on. */

import { required } from "../../base/lists.ts";
import { normalQuantile, studentQuantile } from "../../base/math/special.ts";
import { countOf, formatCount, significant } from "../../base/quantity.ts";
import { smoothVariance } from "../cells/background.ts";
import { delayAtCut, isClear } from "../cells/crossing.ts";
import { delayInFlight, flowsInFlight, LEANING_NOTE, leaning, withPacketsInFlight } from "../cells/edge.ts";
import { foreignNote } from "../cells/foreign.ts";
import { outlierNote, UNTRUSTED } from "../cells/outliers.ts";
import { repeatedShare, saltedSeed } from "../cells/salt.ts";
import {
  type EstimateInput,
  type EstimatorAnswer,
  type FlowEstimate,
  type Interval,
  isNoAnswer,
  type KnownFlows,
  type NoAnswer,
  type SegmentEstimate,
} from "../estimator.ts";
import { emptyEnd, missingEnd, unansweredSegment } from "../unanswered.ts";
import { type Decoded, decodeFlows } from "./decode.ts";
import { deviationOf } from "./deviation.ts";
import { type Difference, differenceOf } from "./difference.ts";
import { sizesOf } from "./flow-sizes.ts";
import { placesOf } from "./layout.ts";
import type { ColateParameters } from "./parameters.ts";
import { decodeCounters, requireSameCells } from "./payload.ts";
import { mayHaveWrapped, segmentMean, spreadOf, withoutOutliers } from "./segment.ts";

/**
 * There is no answer if it is almost only the common mean (variance above this share of the prior variance) and its half width exceeds this share of the value.
 */
const LEARNT_LITTLE = 0.9;
const USEFUL = 0.2;
/** A list of flows is complete if its packets equal the packets sent, up to this share. */
const COMPLETE = 0.001;

/** Without digests, counters agree by chance. From this share of appeared packets on, there is no answer. */
const MAX_APPEARED = 0.001;

const NO_DIGESTS: NoAnswer = {
  reason: "foreign-packets",
  text: "the ends do not count the same packets, and without digests (check=0) counters that seem equal may differ: use check=8",
};

const LONE_COUNTER: NoAnswer = {
  reason: "no-usable-cells",
  text: "only one counter arrived whole: its mean has no error bar",
};

const NO_SPREAD: NoAnswer = {
  reason: "not-supported",
  text: "counters that flows share give means, not the standard deviation over all packets",
};

export function estimateColate(input: EstimateInput<ColateParameters>): EstimatorAnswer {
  const { parameters, seed, sender, receiver, flows } = input;
  const notes: string[] = [];
  const refuse = (why: NoAnswer, lost: number | null = null): EstimatorAnswer => ({
    segment: unansweredSegment(why, input, lost, notes),
    flows:
      flows === null
        ? []
        : Array.from({ length: flows.count }, (_, flow) => ({
            ...{ flow, mean: why, stdev: why, lost: null },
            packets: sizeKnown(flows, flow),
          })),
    notes,
  });
  if (!sender || !receiver) return refuse(missingEnd(input));
  const before = decodeCounters(sender, parameters, seed, "the sender's");
  const after = decodeCounters(receiver, parameters, seed, "the receiver's");
  requireSameCells(before, after);
  const empty = emptyEnd(sender, receiver);
  if (empty) return refuse(empty.why, empty.lost);
  const difference = withoutOutliers(differenceOf(before, after, parameters));
  notes.push(...describe(difference, receiver.packets));
  const lost = Math.max(0, sender.packets - receiver.packets + difference.appeared);
  if (difference.outliers.most || mayHaveWrapped(difference, parameters)) return refuse(UNTRUSTED, lost);
  if (parameters.check === 0 && difference.appeared > MAX_APPEARED * receiver.packets)
    return refuse(NO_DIGESTS, lost);
  if (difference.used === 0) return refuse(whyUnusable(difference), lost);
  if (difference.usedCells === 1 && difference.used < receiver.packets) return refuse(LONE_COUNTER, lost);
  const known = flows && flows.count > 0 ? decodeKnown(input, difference, flows, before.salt, notes) : null;
  const { cutInFlight, cutByPackets, epochNs, confidence } = input;
  const counts = { appeared: difference.appeared, missing: lost, received: receiver.packets };
  const varianceNs2 = smoothVariance(spreadOf(difference), 1);
  const within = segmentMean(difference, known, confidence);
  const timesNs = lateArrivals(difference, within);
  // With fewer bits, sums wrap around at arrival times.
  const timed = cutInFlight && 2 ** (parameters.b - 1) * parameters.unit >= epochNs;
  const atCut = timed ? delayAtCut({ timesNs, epochNs, meanNs: within.highNs }) : null;
  const edge = { cutInFlight, cutByPackets, ...counts, epochNs, varianceNs2, atCut, confidence };
  const mean = withPacketsInFlight(within, edge);
  const leans = leaning(mean, edge);
  if (leans.leansNs !== undefined) notes.push(LEANING_NOTE);
  const segment: SegmentEstimate = {
    mean,
    ...delayInFlight(mean, edge),
    ...leans,
    stdev: NO_SPREAD,
    sent: sender.packets,
    received: receiver.packets,
    lost,
    packetsUsed: difference.used,
    coverage: difference.used / receiver.packets,
    notes,
  };
  const answers = known && flows ? flowAnswers(difference, known, confidence, notes) : [];
  return { segment, flows: flows ? flowsInFlight(answers, flows, mean, edge) : [], notes };
}

/** Returns the arrival times of packets that only the receiver has in this epoch. */
function lateArrivals(difference: Difference, { valueNs, highNs }: Interval): number[] {
  const { late, sent } = difference;
  const spread = late.length > 0 ? spreadOf(difference) : null;
  return late.flatMap(({ cell, sumNs }) =>
    spread && isClear(smoothVariance(spread, sent[cell]!), highNs) ? [sumNs - sent[cell]! * valueNs] : [],
  );
}

/** The requested flows with their sizes, placed and decoded. */
interface KnownDecoded {
  flows: KnownFlows;
  sizeVariance: Float64Array;
  places: Uint32Array;
  decoded: Decoded;
  salt: bigint;
}

function decodeKnown(
  { parameters, seed, sender }: EstimateInput<ColateParameters>,
  difference: Difference,
  asked: KnownFlows,
  salt: bigint,
  notes: string[],
): KnownDecoded {
  const sent = required(sender, "the sender's epoch").packets;
  const places = placesOf(parameters, saltedSeed(seed, salt), asked.hash.subarray(0, 2 * asked.count));
  const sizes = sizesOf(difference, asked, places);
  const guessed = sizes.variance.reduce((s, v) => s + (v > 0 && v < Infinity ? 1 : 0), 0);
  if (guessed > 0) {
    notes.push(
      `packets of ${countOf(guessed, "flow")} were estimated from the counters: give them, or a list of flows, for better answers`,
    );
  }
  // A list with as many packets as the sender counted is complete, whatever its source.
  const listed = sizes.packets.reduce((s, p) => s + p, 0);
  const whole = guessed === 0 && Math.abs(listed - sent) <= COMPLETE * sent;
  const flows = { ...asked, packets: sizes.packets, complete: asked.complete || whole };
  const decoded = decodeFlows(difference, flows, places, parameters);
  return { flows, sizeVariance: sizes.variance, places, decoded, salt };
}

function flowAnswers(
  difference: Difference,
  { flows, sizeVariance, places, decoded, salt }: KnownDecoded,
  confidence: number,
  notes: string[],
): FlowEstimate[] {
  const lossOf = lossesOf(difference, places, decoded);
  const side = 0.5 + confidence / 2;
  const normal = normalQuantile(side);
  const answers: FlowEstimate[] = [];
  let unseen = 0;
  for (let f = 0; f < flows.count; f++) {
    const freedom = freedomOf(decoded, f);
    const z = freedom < Infinity ? studentQuantile(side, freedom) : normal;
    const mean = flowMean(decoded, difference, f, sizeVariance[f]!, z);
    if (!isNoAnswer(mean))
      mean.repeats = repeatedShare(salt, decoded.variance[f]!, decoded.priorVariance[f]!);
    else if (mean.reason === "no-usable-cells") unseen++;
    if (flows.asked?.[f] === 0) continue;
    const stdev = "reason" in mean ? mean : deviationOf(decoded, difference, f, confidence);
    const p = flows.packets[f]!;
    answers.push({
      flow: f,
      mean,
      stdev,
      packets: Number.isNaN(p) ? null : p,
      lost: lossOf(f),
    });
  }
  if (unseen > 0) {
    notes.push(
      `no usable counter for ${countOf(unseen, "flow")} (each lost a packet): use more counters per flow (m), or vectors with fewer packets`,
    );
  }
  return answers;
}

/**
 * Degrees of freedom of the variance of a flow's answer (Satterthwaite). A flow that has not shown its own jitter is assumed to have that of the other flows;
 * the mean jitter is known from all flows, so borrowing it costs nothing. The distances of flows from the common mean are known from all flows as well.
 */
function freedomOf({ prior, ofJitter }: Decoded, f: number): number {
  if (!prior.own) return Infinity;
  const { freedom, shared } = prior.own;
  if (freedom[f]! <= shared) return Infinity;
  const share = ofJitter?.[f] ?? 1;
  return share > 0 ? freedom[f]! / (share * share) : Infinity;
}

function flowMean(
  { graph, prior, meanNs, variance, priorVariance }: Decoded,
  { packets }: Difference,
  f: number,
  sizeVariance: number,
  z: number,
): Interval | NoAnswer {
  const p = graph.packets[f]!;
  if (Number.isNaN(p)) {
    const text =
      "its number of packets is not known, and too small to be seen in its counters: give the number";
    return { reason: "too-much-noise", text };
  }
  if (p === 0) return { reason: "no-packets", text: "it had no packet" };
  const from = graph.starts[f]!;
  const to = graph.starts[f + 1]!;
  if (from === to)
    return {
      reason: "no-usable-cells",
      text: "each of its counters lost a packet, or contains packets that the other point did not see",
    };
  const valueNs = meanNs[f]!;
  // A relative error of the size moves the flow's distance from the common mean by the same share.
  const unsure = sizeVariance > 0 ? ((valueNs - prior.meanNs) / p) ** 2 * sizeVariance : 0;
  const half = z * Math.sqrt(variance[f]! + unsure);
  if (variance[f]! > LEARNT_LITTLE * priorVariance[f]! && half > Math.max(1, USEFUL * Math.abs(valueNs))) {
    let others = 0;
    for (let e = from; e < to; e++) others += packets[graph.cell[e]!]! - graph.a[e]!;
    const text = `its ${Math.round(p)} packets are lost among about ${Math.round(others)} others in its counters`;
    return { reason: "too-much-noise", text };
  }
  return { valueNs, lowNs: valueNs - half, highNs: valueNs + half };
}

/** Returns the lost packets of each flow: 0 if its counters lost none, their sum if no other flow is in them, null otherwise. */
function lossesOf(
  { sent, received, layout }: Difference,
  places: Uint32Array,
  { graph }: Decoded,
): (f: number) => number | null {
  const perFlow = layout.m * layout.q.length;
  // The last flow that counted a cell, + 1: two counters of a flow may share a cell.
  const seen = new Uint32Array(layout.n);
  return (f) => {
    let missing = 0;
    let all = 0;
    for (let i = f * perFlow; i < (f + 1) * perFlow; i++) {
      const c = places[i]!;
      if (seen[c] === f + 1) continue;
      seen[c] = f + 1;
      if (received[c]! > sent[c]!) return null;
      missing += sent[c]! - received[c]!;
      all += sent[c]!;
    }
    if (missing === 0) return 0;
    return graph.complete && graph.packets[f] === all ? missing : null;
  };
}

function sizeKnown(flows: KnownFlows, f: number): number | null {
  const p = flows.packets[f]!;
  return Number.isNaN(p) ? null : p;
}

function whyUnusable({ filled, overfull, appeared }: Difference): NoAnswer {
  if (overfull === filled) {
    const text = `each of the ${formatCount(filled)} counters in use is too full for its bits: more bits (b), a coarser unit, or shorter epochs`;
    return { reason: "overflow", text };
  }
  if (appeared > 0) {
    return {
      reason: "foreign-packets",
      text: `no counter holds the same packets at both ends, and at least ${countOf(appeared, "packet")} at the receiver only: select the segment's packets with a filter at both ends`,
    };
  }
  return {
    reason: "no-usable-cells",
    text: `each of the ${formatCount(filled)} counters in use lost a packet: use more counters (n), or vectors with fewer packets`,
  };
}

function describe(
  { appeared, swapped, overfull, used, filled, outliers }: Difference,
  received: number,
): string[] {
  const notes: string[] = [];
  if (outliers.cells > 0) notes.push(outlierNote(outliers.cells));
  if (used < 0.5 * received) {
    const share = significant((100 * used) / received, 2);
    notes.push(`${share} % of the packets received are in counters that hold the same packets at both ends`);
  }
  if (appeared > 0) notes.push(foreignNote(appeared, received));
  if (swapped > 0)
    notes.push(`${countOf(swapped, "counter")} left out: equal counts at both ends, but different packets`);
  if (overfull > 0)
    notes.push(
      `${formatCount(overfull)} of ${countOf(filled, "counter")} left out: more packets than their bits allow`,
    );
  return notes;
}
