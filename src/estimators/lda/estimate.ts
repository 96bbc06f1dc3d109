/** From the payloads of both ends to the segment's answer: mean, standard deviation, loss, and what they are based on. */

import { countOf, formatCount } from "../../base/quantity.ts";
import { delayAtCut } from "../cells/crossing.ts";
import { deviationWithPacketsInFlight, LEANING_NOTE, leaning, withPacketsInFlight } from "../cells/edge.ts";
import { areOthers, foreignNote } from "../cells/foreign.ts";
import { outlierNote, UNTRUSTED } from "../cells/outliers.ts";
import type { EstimateInput, EstimatorAnswer, NoAnswer, SegmentEstimate } from "../estimator.ts";
import { emptyEnd, missingEnd, unansweredSegment } from "../unanswered.ts";
import {
  collapsedDeviation,
  collapsedRows,
  lateArrivals,
  meanInterval,
  momentsOf,
  residualDeviation,
  type UsableRows,
  usableRows,
} from "./delays.ts";
import type { LdaParameters } from "./parameters.ts";
import { decodeRows, type LdaRows } from "./payload.ts";
import { checkStream, type StreamCheck } from "./stream-check.ts";

/** Without digests: maximum number of wrong rows expected among the usable ones. Above it, there is no mean. */
const MAX_FOOLED = 0.05;

export function estimateLda(input: EstimateInput<LdaParameters>): EstimatorAnswer {
  const { parameters, seed, sender, receiver } = input;
  const notes: string[] = [];
  const none = (why: NoAnswer, lost: number | null = null): EstimatorAnswer => ({
    segment: unansweredSegment(why, input, lost, notes),
    flows: [],
    notes,
  });
  if (!sender || !receiver) return none(missingEnd(input));
  const before = decodeRows(sender, parameters, seed);
  const after = decodeRows(receiver, parameters, seed);
  const empty = emptyEnd(sender, receiver);
  if (empty) return none(empty.why, empty.lost);
  const missing = sender.packets - receiver.packets;
  const check = checkStream(before, after, parameters.sampling, missing);
  notes.push(...describe(check, receiver.packets));
  // Packets in flight cross the epoch's edges in equal numbers, so the total number of missing packets is the best count of losses. It is meaningless if the
  // receiver has more packets than the sender.
  const lost = missing >= 0 ? missing : null;
  const rows = usableRows(before, after);
  if (rows.outliers.cells > 0) notes.push(outlierNote(rows.outliers.cells));
  const refusal = refuse(check, rows);
  if (refusal) return none(refusal, areOthers(check.foreign, receiver.packets) ? null : lost);
  const own = Math.max(rows.sample, receiver.packets - check.foreign);
  const answer = delays(input, before, after, rows, own, check);
  if (answer.leansNs !== undefined) notes.push(LEANING_NOTE);
  const segment: SegmentEstimate = {
    ...answer,
    sent: sender.packets,
    received: receiver.packets,
    lost,
    packetsUsed: rows.sample,
    coverage: rows.sample / receiver.packets,
    notes,
  };
  return { segment, flows: [], notes };
}

function delays(
  input: EstimateInput<LdaParameters>,
  before: LdaRows,
  after: LdaRows,
  rows: UsableRows,
  own: number,
  { foreign }: StreamCheck,
): Pick<SegmentEstimate, "mean" | "stdev" | "leansNs"> {
  const { parameters, confidence, epochNs, cutInFlight, cutByPackets } = input;
  const moments = momentsOf(rows);
  if (!moments) {
    const valueNs = rows.delayNs[0]! / rows.sample;
    const stdev: NoAnswer = {
      reason: "no-usable-cells",
      text: "only one row is without loss: no standard deviation",
    };
    // If all packets are in one row, the mean is exact, although nothing is known about the spread.
    if (rows.sample === own) return { mean: { valueNs, lowNs: valueNs, highNs: valueNs }, stdev };
    const text = `only one row of ${formatCount(rows.sample)} packets arrived whole: its mean has no error bar`;
    return { mean: { reason: "no-usable-cells", text }, stdev };
  }
  const { varianceNs2 } = moments;
  const received = input.receiver?.packets ?? 0;
  const counts = { appeared: foreign, missing: foreign + (input.sender?.packets ?? 0) - received, received };
  const timesNs = cutInFlight ? lateArrivals(before, after, moments) : [];
  const within = meanInterval(moments, rows, own, confidence, parameters.interval);
  const atCut = delayAtCut({ timesNs, epochNs, meanNs: within.highNs });
  const edge = { cutInFlight, cutByPackets, ...counts, epochNs, varianceNs2, atCut, confidence };
  const mean = withPacketsInFlight(within, edge);
  const leans = leaning(mean, edge);
  if (parameters.deviation === "residual") {
    const stdev = residualDeviation(moments, rows, confidence);
    return { mean, stdev: deviationWithPacketsInFlight(stdev, mean, edge), ...leans };
  }
  const meanErrorNs = Math.sqrt((moments.varianceNs2 / rows.sample) * Math.max(0, 1 - rows.sample / own));
  const stdev = collapsedDeviation(moments.meanNs, meanErrorNs, collapsedRows(before, after), confidence);
  return { mean, stdev: deviationWithPacketsInFlight(stdev, mean, edge), ...leans };
}

/** Returns the reason if there is no mean. */
function refuse(check: StreamCheck, rows: UsableRows): NoAnswer | null {
  if (check.fooled > MAX_FOOLED) {
    return {
      reason: "foreign-packets",
      text: `the ends do not count the same packets (about ${formatCount(check.foreign)} at the receiver only), and without digests (digest=true) rows that seem whole may hold different packets`,
    };
  }
  if (rows.outliers.most) return UNTRUSTED;
  if (rows.packets.length > 0) return null;
  if (check.foreign > 0) {
    return {
      reason: "foreign-packets",
      text: `no row holds the same packets at both ends, and about ${countOf(check.foreign, "packet")} at the receiver only: select the segment's packets with a filter at both ends`,
    };
  }
  if (check.filled === 0) return { reason: "no-usable-cells", text: "no packet was sampled in this epoch" };
  return {
    reason: "no-usable-cells",
    text: `each of the ${formatCount(check.filled)} rows in use lost a packet: use more rows, or lower sampling (packets=, loss=)`,
  };
}

function describe(check: StreamCheck, received: number): string[] {
  const notes: string[] = [];
  if (check.foreign > 0) notes.push(foreignNote(check.foreign, received));
  if (check.contradiction)
    notes.push(`${check.contradiction}: many packets may look alike, or the ends count different streams`);
  return notes;
}
