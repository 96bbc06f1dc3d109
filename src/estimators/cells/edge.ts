/**
 * Packets in flight at an aligned cut are in no cell that can be used, and they are not like the others: all of them have about the delay that there was at the cut, and the longer that
 * is, the more of them there are. With a delay D at the cut, a rate of r and a mean of mu, they change the sum of delays by r |D| (D - mu), which is far from its expectation r sigma^2
 * at any one cut: its variance is r^2 (mu^2 sigma^2 + 2 mu m3 + m4 - sigma^4), with m3 and m4 the central moments. Delays as a gamma distribution has them (mu = sigma is the exponential one)
 * give
 *
 *   r^2 mu^2 sigma^2 (1 + 6 q^2 + 6 q^4), q = sigma / mu
 *
 * The cut is an end of the epoch: a delay that wanders (a random walk) is off the epoch's mean there by sqrt(2) times the deviation of its packets. The interval is widened
 * by that to both sides; how many packets the cells show to have crossed the cut is only a lower bound, and foreign packets look the same, so their number is used only where
 * hardly any are in flight (crossedBeyond). It is the delay between the timestamps that decides, so a clock's offset is part of it.
 */
import { normalQuantile } from "../../base/math/special.ts";
import {
  type FlowEstimate,
  type Interval,
  isNoAnswer,
  type KnownFlows,
  type NoAnswer,
} from "../estimator.ts";
import type { AtCut } from "./crossing.ts";

export interface EdgeEvidence {
  /** EstimateInput.cutInFlight: what appears at the receiver only may have been in flight; else it is foreign, and none of the segment. */
  cutInFlight: boolean | undefined;
  /** EstimateInput.cutByPackets: packets may have overtaken a delimiter, or been overtaken. */
  cutByPackets: boolean | undefined;
  /** Packets counted at the receiver only, as far as cells show them; 0: no packet crossed the cut. Those at the sender only; and all that arrived. */
  appeared: number;
  missing: number;
  received: number;
  epochNs: number;
  /** Variance of single packets' delays. */
  varianceNs2: number;
  /** What packets that were in flight when the epoch began show of the delay then (crossing.ts). */
  atCut?: AtCut | null;
  confidence: number;
}

/** The deviation at an end of a random walk from its mean, over that of its points. */
const WANDERING = Math.SQRT2;
/** Deviations over the mean, at most: beyond it the mean is that of delays that a clock's offset all but takes away. */
const MOST_SPREAD = 4;

interface EdgeModel {
  /** Share of the packets that are in flight at a cut, in the mean. */
  share: number;
  /** Deviation of what they change the mean of all by. */
  errorNs: number;
  /** Mean delay of those in flight: the longer a delay, the likelier it crosses a cut (a gamma distribution, weighed by itself); and their deviation. */
  meanNs: number;
  deviationNs: number;
  /** q^2 */
  spread: number;
}

/** Null where no packet is in flight, or where nothing is known of delays. */
function edgeModel(valueNs: number, { cutInFlight, appeared, epochNs, varianceNs2 }: EdgeEvidence) {
  if (!cutInFlight || appeared === 0 || !(epochNs > 0) || !(varianceNs2 > 0) || valueNs === 0) return null;
  const meanNs = Math.abs(valueNs);
  const deviationNs = Math.sqrt(varianceNs2);
  const ratio = Math.min(deviationNs / meanNs, MOST_SPREAD);
  const spread = ratio ** 2;
  const share = Math.min(meanNs / epochNs, 1);
  const out: EdgeModel = {
    share,
    spread,
    errorNs: WANDERING * share * deviationNs * Math.sqrt(1 + 6 * spread + 6 * spread * spread),
    meanNs: Math.sign(valueNs) * (meanNs + ratio * deviationNs),
    deviationNs: WANDERING * deviationNs * Math.sqrt(1 + spread),
  };
  return out;
}

/** Where fewer than this are in flight at a cut in the mean, most cuts hold none, and one that holds some holds far more than the mean. */
const SPARSE = 5;

/**
 * On a sparse link: packets that crossed this cut beyond the expected number, which is what all cuts together are corrected by. Foreign packets look the same: more than
 * chance explains (four deviations and four packets) are not counted.
 */
function crossedBeyond({ share }: EdgeModel, { appeared, received }: EdgeEvidence): number {
  const expected = share * received;
  if (expected >= SPARSE) return 0;
  return Math.max(0, Math.min(appeared, received, expected + 4 * Math.sqrt(expected) + 4) - expected);
}

/** The interval of the mean over all packets that arrived, from that over the packets in cells. */
export function withPacketsInFlight(mean: Interval, evidence: EdgeEvidence): Interval {
  const model = edgeModel(mean.valueNs, evidence);
  const z = normalQuantile((1 + evidence.confidence) / 2);
  if (!model) {
    const errorNs = overtakingError(evidence);
    return towardsCut(errorNs > 0 ? widened(mean, z * errorNs) : mean, 0, evidence);
  }
  const part = evidence.received > 0 ? crossedBeyond(model, evidence) / evidence.received : 0;
  const shift = part * (model.meanNs - mean.valueNs);
  const { valueNs, lowNs, highNs } = mean;
  const moved = { ...mean, valueNs: valueNs + shift, lowNs: lowNs + shift, highNs: highNs + shift };
  const half = z * Math.hypot(model.errorNs, part * model.deviationNs);
  return towardsCut(widened(moved, half), half, evidence);
}

/** Packets in flight are slower than what is left of the queue at the cut, where that is running empty: by so much, and by more where few of them show it (measured). */
const DRAWN = 3;
const FEW_SHOWN = 2;

/**
 * A queue that was long at the cut and is short afterwards: the packets that were in it are far slower than all that both ends have in this epoch, more than those let expect. As many of them
 * as the delay at the cut makes, or as appeared, where that is more (a burst): the interval reaches as far as they may draw the mean.
 */
function towardsCut(mean: Interval, modelledNs: number, evidence: EdgeEvidence): Interval {
  const { atCut } = evidence;
  if (!atCut) return mean;
  const { valueNs, lowNs, highNs } = mean;
  const drawnNs = beyondAtCut(atCut) * shareAtCut(atCut, evidence) * apartAtCut(atCut, valueNs);
  const further = (own: number) => Math.sqrt(own ** 2 + Math.max(0, drawnNs ** 2 - modelledNs ** 2));
  return drawnNs > 0
    ? { ...mean, highNs: valueNs + further(highNs - valueNs) }
    : { ...mean, lowNs: valueNs - further(valueNs - lowNs) };
}

/** Standard deviations that a steady queue shows by chance. */
const BY_CHANCE = 3;

/** By how much the delay at the cut differs from the mean, beyond what chance makes of a queue that is steady: twice the median of so many arrivals, evenly over the mean. */
function apartAtCut({ delayNs, shown }: AtCut, meanNs: number): number {
  const byChance = (BY_CHANCE * Math.abs(meanNs)) / Math.sqrt(shown + 2);
  const apart = delayNs - meanNs;
  return Math.sign(apart) * Math.max(0, Math.abs(apart) - byChance);
}

/** Packets from which on the delay at the cut is known well enough to say how many it held. */
const ENOUGH_SHOWN = 4;

function shareAtCut({ delayNs, shown }: AtCut, { epochNs, appeared, received }: EdgeEvidence): number {
  const counted = received > 0 ? appeared / received : 0;
  return Math.min(1, shown < ENOUGH_SHOWN ? counted : Math.max(delayNs / epochNs, counted));
}

/** Of the mean: packets in flight at the cut that may draw it up by more are worth a note. */
const MUCH_DRAWN = 0.05;

/** What packets that were in flight when the epoch began draw its mean up by, about; left out where that is little. */
export function leaning(mean: Interval, evidence: EdgeEvidence): { leansNs?: number } {
  const { atCut, epochNs } = evidence;
  if (!atCut || !(epochNs > 0)) return {};
  if (apartAtCut(atCut, mean.valueNs) === 0) return {};
  const leansNs = shareAtCut(atCut, evidence) * (atCut.delayNs - mean.valueNs);
  return leansNs > MUCH_DRAWN * Math.abs(mean.valueNs) ? { leansNs } : {};
}

export const LEANING_NOTE =
  "packets in flight when an epoch began are far slower than those that both ends counted in it: its mean tends to be too low (leansNs), and the interval is extended upwards; longer epochs, or epochs cut by packets (delimited), avoid this";

/**
 * Packets that overtook a delimiter, or were overtaken by it, are in no cell that can be used either. Those that appear came over one of the cuts; of those that are missing, which may be lost, no
 * more are taken to have gone over one. Each is off the mean by about the deviation, and all that one delimiter caused are off to the same side. (Over parallel paths of different length a
 * delimiter takes one of them: an epoch may get packets at both ends, and its neighbours lack them.)
 */
function overtakingError({ cutByPackets, appeared, missing, received, varianceNs2 }: EdgeEvidence): number {
  if (!cutByPackets || !(received > 0) || !(varianceNs2 > 0)) return 0;
  const crossed = appeared + Math.max(0, Math.min(appeared, missing));
  return (crossed * Math.sqrt(varianceNs2)) / received;
}

/** Deviations of what packets in flight add to a variance, over what they add in the mean (measured: few cuts hold the most). */
const VARIANCE_BEYOND = 3;

/**
 * The deviation over all packets that arrived, from that over the packets in cells: those in flight are off the mean by sigma^2 (1 + 2 q^2) in the mean square, and all at one cut
 * alike.
 */
export function deviationWithPacketsInFlight(
  stdev: Interval | NoAnswer,
  mean: Interval | NoAnswer,
  evidence: EdgeEvidence,
): Interval | NoAnswer {
  if (isNoAnswer(stdev) || isNoAnswer(mean)) return stdev;
  const model = edgeModel(mean.valueNs, evidence);
  if (!model) return stdev;
  const { valueNs, lowNs, highNs } = stdev;
  const variance = valueNs ** 2;
  const shift = model.share * 2 * model.spread * variance;
  const half =
    normalQuantile((1 + evidence.confidence) / 2) *
    (VARIANCE_BEYOND * model.share * (1 + 2 * model.spread) * variance);
  const centre = variance + shift;
  return {
    ...stdev,
    valueNs: Math.sqrt(centre),
    lowNs: Math.sqrt(Math.max(0, centre - Math.hypot(variance - lowNs ** 2, half))),
    highNs: Math.sqrt(centre + Math.hypot(highNs ** 2 - variance, half)),
  };
}

/** The delay of packets that were in flight at a cut, or went over one; undefined where nothing is known of them. */
export function delayInFlight(mean: Interval | NoAnswer, evidence: EdgeEvidence): { inFlight?: Interval } {
  const z = normalQuantile((1 + evidence.confidence) / 2);
  const { cutByPackets, appeared, varianceNs2 } = evidence;
  if (cutByPackets && appeared > 0 && varianceNs2 > 0 && !isNoAnswer(mean))
    return { inFlight: widened(mean, z * Math.sqrt(varianceNs2)) };
  const model = isNoAnswer(mean) ? null : edgeModel(mean.valueNs, evidence);
  if (!model) return {};
  const half = z * model.deviationNs;
  // By the clocks of the points it was received behind a cut that it was sent before, or the other way round.
  const [lowNs, highNs] =
    model.meanNs > 0
      ? [Math.max(0, model.meanNs - half), model.meanNs + half]
      : [model.meanNs - half, Math.min(0, model.meanNs + half)];
  return { inFlight: { valueNs: model.meanNs, lowNs, highNs } };
}

/** Below so many packets in flight, in the mean, a flow had none; below so many it had none where both ends count alike. */
const SOME_IN_FLIGHT = 0.5;
const MANY_IN_FLIGHT = 5;
/** What the delay at the cut and the number of a flow's packets in flight are off by together, in deviations of the delay there (measured). */
const FLOW_BEYOND = 1.5;

/**
 * The same for a flow, of which `sent` packets were sent in the epoch and `received` arrived in it (null where that is not known). A lasting one has as large a share of its packets
 * in flight as all flows together; of a short one as many as arrived and were not sent in the epoch. `all`: mean of the segment, which shows the delay at the cut.
 */
function flowWithPacketsInFlight(
  mean: Interval,
  { sent, received }: { sent: number; received: number | null },
  all: Interval | NoAnswer,
  evidence: EdgeEvidence,
): Interval {
  const model = isNoAnswer(all) ? null : edgeModel(all.valueNs, evidence);
  const packets = received ?? sent;
  if (!model || !(packets > 0)) return mean;
  const z = normalQuantile((1 + evidence.confidence) / 2);
  const excess = Math.max(0, packets - sent);
  const queued = queueAtCut(all, evidence);
  const expected = (queued?.share ?? model.share) * packets;
  const lasting = expected >= (received === sent ? MANY_IN_FLIGHT : SOME_IN_FLIGHT) ? expected : 0;
  const part = Math.min(1, Math.max(excess, lasting) / packets);
  if (part === 0) return mean;
  const half = z * part * (excess >= lasting ? 1 : FLOW_BEYOND) * model.deviationNs;
  const shift = part * ((queued?.delayNs ?? model.meanNs) - mean.valueNs);
  const { valueNs, lowNs, highNs } = mean;
  const moved = widened(
    { ...mean, valueNs: valueNs + shift, lowNs: lowNs + shift, highNs: highNs + shift },
    half,
  );
  if (!queued) return moved;
  const drawn = Math.abs(shift);
  return {
    ...moved,
    lowNs: moved.valueNs - Math.hypot(moved.valueNs - moved.lowNs, drawn),
    highNs: moved.valueNs + Math.hypot(moved.highNs - moved.valueNs, (queued.beyond - 1) * drawn),
  };
}

/** A queue that was long at the cut, longer than the mean and chance let expect: its delay, the share of the packets that were in it, and how many times as slow as that delay they may have been. */
function queueAtCut(all: Interval | NoAnswer, evidence: EdgeEvidence) {
  const { atCut } = evidence;
  if (!atCut || isNoAnswer(all) || !(apartAtCut(atCut, all.valueNs) > 0)) return null;
  return { delayNs: atCut.delayNs, share: shareAtCut(atCut, evidence), beyond: beyondAtCut(atCut) };
}

const beyondAtCut = ({ shown }: AtCut) => DRAWN * (1 + FEW_SHOWN / shown);

/** The answers for all flows, the same way. */
export function flowsInFlight(
  answers: FlowEstimate[],
  known: KnownFlows,
  all: Interval | NoAnswer,
  evidence: EdgeEvidence,
): FlowEstimate[] {
  if (isNoAnswer(all) || !edgeModel(all.valueNs, evidence)) return answers;
  return answers.map((answer) => {
    if (isNoAnswer(answer.mean) || answer.packets === null) return answer;
    const received = known.received?.[answer.flow] ?? Number.NaN;
    const counts = { sent: answer.packets, received: Number.isNaN(received) ? null : received };
    return { ...answer, mean: flowWithPacketsInFlight(answer.mean, counts, all, evidence) };
  });
}

function widened(mean: Interval, half: number): Interval {
  const { valueNs, lowNs, highNs } = mean;
  return {
    ...mean,
    lowNs: valueNs - Math.hypot(valueNs - lowNs, half),
    highNs: valueNs + Math.hypot(highNs - valueNs, half),
  };
}
