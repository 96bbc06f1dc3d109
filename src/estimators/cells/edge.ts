/**
 * Corrects answers for packets in flight at an aligned cut. No usable cell holds these packets, and they differ from the others: all have about the delay
 * at the cut, and the longer that delay is, the more of them there are. With a delay D at the cut, a rate r and a mean mu, they change the sum of delays by
 * r |D| (D - mu). At any one cut this is far from its expectation r sigma^2: its variance is r^2 (mu^2 sigma^2 + 2 mu m3 + m4 - sigma^4), with m3 and m4
 * the central moments. For gamma-distributed delays (exponential if mu = sigma) this is
 *
 *   r^2 mu^2 sigma^2 (1 + 6 q^2 + 6 q^4), q = sigma / mu
 *
 * The cut is an end of the epoch. There, a delay that wanders (random walk) is off the epoch's mean by sqrt(2) times the standard deviation of its packets.
 * The interval is widened by that to both sides. The number of packets that the cells show to have crossed the cut is only a lower bound, and foreign
 * packets look the same. It is therefore used only if hardly any packets are in flight (crossedBeyond). What counts is the delay between the timestamps, so
 * a clock offset is part of it.
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
  /** EstimateInput.cutInFlight: packets that appear only at the receiver may have been in flight. Otherwise they are foreign and not part of the segment. */
  cutInFlight: boolean | undefined;
  /** EstimateInput.cutByPackets: packets may have overtaken a delimiter, or been overtaken by one. */
  cutByPackets: boolean | undefined;
  /**
   * Packets counted only at the receiver, as far as the cells show them (0: no packet crossed the cut); packets counted only at the sender; and all packets
   * received.
   */
  appeared: number;
  missing: number;
  received: number;
  epochNs: number;
  /** Variance of the delays of single packets. */
  varianceNs2: number;
  /** The delay at the start of the epoch, as shown by the packets in flight at that time (crossing.ts). */
  atCut?: AtCut | null;
  confidence: number;
}

/** The distance of a random walk's end from its mean, divided by the standard deviation of its points. */
const WANDERING = Math.SQRT2;
/** Upper limit of standard deviation over mean. Beyond it, a clock offset cancels nearly the whole mean. */
const MOST_SPREAD = 4;

interface EdgeModel {
  /** Mean share of packets in flight at a cut. */
  share: number;
  /** Standard deviation of the change that they make to the mean of all packets. */
  errorNs: number;
  /**
   * Mean delay and standard deviation of the packets in flight. The longer a delay, the more likely it crosses a cut (a gamma distribution, weighted by
   * itself).
   */
  meanNs: number;
  deviationNs: number;
  /** q^2 */
  spread: number;
}

/** Returns null if no packet is in flight, or if nothing is known about delays. */
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

/** If the mean number of packets in flight is below this, most cuts have none, and the others have far more than the mean. */
const SPARSE = 5;

/**
 * For sparse links: the number of packets that crossed this cut beyond the expected number, by which all cuts together are corrected. Foreign packets look
 * the same, so an excess beyond chance (four standard deviations and four packets) is not counted.
 */
function crossedBeyond({ share }: EdgeModel, { appeared, received }: EdgeEvidence): number {
  const expected = share * received;
  if (expected >= SPARSE) return 0;
  return Math.max(0, Math.min(appeared, received, expected + 4 * Math.sqrt(expected) + 4) - expected);
}

/** Returns the interval of the mean over all received packets, given the interval over the packets in cells. */
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

/**
 * Packets in flight are slower than the delay left at the cut if the queue is draining: by this factor, and by more if few packets show the delay
 * (measured).
 */
const DRAWN = 3;
const FEW_SHOWN = 2;

/**
 * Widens the interval after a queue that was long at the cut and short afterwards. The packets that were in it are far slower than the packets that both
 * ends count in this epoch. Their number follows from the delay at the cut, or from the packets that appeared if that is larger (a burst). The interval is
 * extended as far as they may shift the mean.
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

/** Standard deviations that a steady queue may show by chance. */
const BY_CHANCE = 3;

/**
 * Returns the difference between the delay at the cut and the mean, less what a steady queue shows by chance: twice the median of `shown` arrivals, spread
 * evenly over the mean.
 */
function apartAtCut({ delayNs, shown }: AtCut, meanNs: number): number {
  const byChance = (BY_CHANCE * Math.abs(meanNs)) / Math.sqrt(shown + 2);
  const apart = delayNs - meanNs;
  return Math.sign(apart) * Math.max(0, Math.abs(apart) - byChance);
}

/** Minimum number of packets for the delay at the cut to tell how many packets the queue held. */
const ENOUGH_SHOWN = 4;

function shareAtCut({ delayNs, shown }: AtCut, { epochNs, appeared, received }: EdgeEvidence): number {
  const counted = received > 0 ? appeared / received : 0;
  return Math.min(1, shown < ENOUGH_SHOWN ? counted : Math.max(delayNs / epochNs, counted));
}

/** Share of the mean: packets in flight at the cut that may raise it by more deserve a note. */
const MUCH_DRAWN = 0.05;

/** Returns how much the packets in flight at the start of the epoch raise its mean, approximately; empty if that is little. */
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
 * Returns the error of the mean from packets that overtook a delimiter or were overtaken by one; no usable cell holds them either. Packets that appear
 * crossed one of the cuts. Of the missing packets, which may be lost, at most as many are taken to have crossed one. Each is off the mean by about the
 * standard deviation, and all packets of one delimiter are off to the same side. (Over parallel paths of different length, a delimiter takes one of them:
 * an epoch may get packets at both ends that its neighbours lack.)
 */
function overtakingError({ cutByPackets, appeared, missing, received, varianceNs2 }: EdgeEvidence): number {
  if (!cutByPackets || !(received > 0) || !(varianceNs2 > 0)) return 0;
  const crossed = appeared + Math.max(0, Math.min(appeared, missing));
  return (crossed * Math.sqrt(varianceNs2)) / received;
}

/** Standard deviation of the variance that packets in flight add, divided by its mean (measured: few cuts hold most of them). */
const VARIANCE_BEYOND = 3;

/**
 * Returns the standard deviation over all received packets, given that over the packets in cells. Packets in flight are off the mean by sigma^2 (1 + 2 q^2)
 * in the mean square, and all packets at one cut are alike.
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

/** Returns the delay of packets in flight at a cut, or that crossed one; empty if nothing is known about them. */
export function delayInFlight(mean: Interval | NoAnswer, evidence: EdgeEvidence): { inFlight?: Interval } {
  const z = normalQuantile((1 + evidence.confidence) / 2);
  const { cutByPackets, appeared, varianceNs2 } = evidence;
  if (cutByPackets && appeared > 0 && varianceNs2 > 0 && !isNoAnswer(mean))
    return { inFlight: widened(mean, z * Math.sqrt(varianceNs2)) };
  const model = isNoAnswer(mean) ? null : edgeModel(mean.valueNs, evidence);
  if (!model) return {};
  const half = z * model.deviationNs;
  // By the clocks of the points, such a packet was sent before a cut and received after it, or the other way round.
  const [lowNs, highNs] =
    model.meanNs > 0
      ? [Math.max(0, model.meanNs - half), model.meanNs + half]
      : [model.meanNs - half, Math.min(0, model.meanNs + half)];
  return { inFlight: { valueNs: model.meanNs, lowNs, highNs } };
}

/** A flow with fewer packets in flight than this, in the mean, had none. The second limit applies if both ends count the same number. */
const SOME_IN_FLIGHT = 0.5;
const MANY_IN_FLIGHT = 5;
/** Combined error of the delay at the cut and of the number of the flow's packets in flight, in standard deviations of the delay there (measured). */
const FLOW_BEYOND = 1.5;

/**
 * The same for a flow with `sent` packets sent in the epoch and `received` arrived in it (null if unknown). A lasting flow has the same share of its
 * packets in flight as all flows together; a short one has as many as arrived without having been sent in the epoch. `all`: mean of the segment, which
 * shows the delay at the cut.
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

/**
 * Returns a queue that was longer at the cut than the mean and chance explain: its delay, the share of packets that were in it, and how many times slower
 * than that delay they may have been. Null if there was none.
 */
function queueAtCut(all: Interval | NoAnswer, evidence: EdgeEvidence) {
  const { atCut } = evidence;
  if (!atCut || isNoAnswer(all) || !(apartAtCut(atCut, all.valueNs) > 0)) return null;
  return { delayNs: atCut.delayNs, share: shareAtCut(atCut, evidence), beyond: beyondAtCut(atCut) };
}

const beyondAtCut = ({ shown }: AtCut) => DRAWN * (1 + FEW_SHOWN / shown);

/** Corrects the answers for all flows in the same way. */
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
