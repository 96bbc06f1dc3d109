/**
 * Answers over many epochs (and over the flows of a group) from the answers for each.
 *
 * Means are weighted by the packets that arrived: a lost packet has no delay, and epochs with many of them are the slow ones. Variances add within and between (spread.ts). Packets and losses are
 * summed. Intervals: errors of different epochs and flows are taken as independent, so half widths add by squares, each side for itself. Flows of
 * one epoch share the error of that epoch's segment mean (decoders subtract it as background), so that error is added once more, whole, wherever several
 * flows of an epoch come together. Where part of a flow's error is the same in every epoch (Interval.repeats), that part of
 * its half widths adds as it is over the epochs of the flow, and only over different flows by squares. What does not average out at all, bounds and what is common to all (Interval.common), adds as it is.
 *
 * What has no answer is not left out silently: epochs without an answer are the congested ones, and a mean of the others is not the mean. `mean` is that of what
 * was answered, with the share that it is of; `whole` is the mean of everything: what has no answer counts with the bounds that are known for it, which widen the
 * interval as they are; where there are none, the whole has no answer.
 */

import { Moments } from "../base/math/moments.ts";
import { significant } from "../base/quantity.ts";
import { type Interval, isNoAnswer, type NoAnswer, type SegmentEstimate } from "../estimators/estimator.ts";
import { arrivedOf } from "./in-flight.ts";
import { type Side, Spread, type SpreadState, weighted } from "./spread.ts";

/** One answer to be combined. */
export interface Contribution {
  mean: Interval | NoAnswer;
  stdev: Interval | NoAnswer;
  /** Packets that it stands for; null where unknown. */
  packets: number | null;
  /** Of those that arrived, which a mean is of: its weight. Left out: all of `packets`. */
  arrived?: number | null;
  /** Below 0 where packets that count as lost in an epoch before arrived in this one. */
  lost: number | null;
  /** So many of those at least; left out: all. */
  lostLow?: number | undefined;
  /** Nobody measured it: the mean is what a model says of packets in flight at a cut. It counts, but is no answer. */
  modelled?: boolean;
  /** Packets that the mean rests on. */
  used: number;
  /** Without a mean: what it must lie within; null or left out where nothing is known. */
  bounds?: Bounds | null;
}

/** A mean that was not measured cannot lie outside; `valueNs` is as good a guess as there is. */
export interface Bounds {
  valueNs: number | null;
  lowNs: number;
  highNs: number;
}

export interface Combined {
  /** Of what was answered. */
  mean: Interval | NoAnswer;
  /** Of everything. */
  whole: Interval | NoAnswer;
  stdev: Interval | NoAnswer;
  packets: number | null;
  /** Null also where that of a part with packets is not known: a sum of the others would pass for all. */
  lost: number | null;
  /** In the parts whose loss is known: so many at least. It is known where little is missing, so it is no measure of the others. */
  lostLow: number;
  used: number;
  /** Packets (that arrived, as far as that is known) of contributions with a mean, and their share of all; null where packets are unknown. */
  answeredPackets: number;
  answered: number | null;
  /** Contributions with a mean. */
  answers: number;
  /** Nothing is without one, measured or modelled. */
  complete: boolean;
}

/**
 * A combination as plain numbers, to be stored and put together later: combining states gives what combining their contributions gives. Errors are half widths of weighted sums.
 * `repeating`: of one flow's combination, what adds as it is over its epochs.
 */
export interface CombinationState extends SpreadState {
  weight: number;
  meanNs: number;
  errorLow: number;
  errorHigh: number;
  commonLow: number;
  commonHigh: number;
  repeatingLow: number;
  repeatingHigh: number;
  packets: number | null;
  arrived: number | null;
  answeredPackets: number;
  lost: number | null;
  /** Lost in the contributions whose loss is known: so many at least. */
  lostKnown: number;
  used: number;
  answers: number;
  unansweredWeight: number;
  unansweredLow: number;
  unansweredHigh: number;
  unansweredValue: number;
  unansweredGuessed: number;
  unbounded: number;
  /** Why there is no answer, most often; how often. */
  why: NoAnswer | null;
  whyCount: number;
  whyStdev: NoAnswer | null;
}

/** The epoch that a flow's contribution is of, with the segment's mean there. */
export interface SharedEpoch {
  index: number;
  shared: Interval | NoAnswer | null;
}

/** The few packets of an epoch that began or ended a capture may have no deviation; they are taken to vary up to so many times as much as the others. */
const FEW_UNSPREAD = 0.01;
const UNSPREAD_BEYOND = 9;

export class Combination {
  readonly #means = new Moments();
  #errors: Side = { low: 0, high: 0 };
  #common: Side = { low: 0, high: 0 };
  /** Sums of weighted half widths by flow, as far as they repeat. */
  readonly #repeating = new Map<string, Side>();
  /** Of contributions that have a deviation. */
  readonly #spread = new Spread();
  #packets: number | null = null;
  #arrived: number | null = null;
  #answeredPackets = 0;
  #lost: number | null = null;
  #lossUnknown = false;
  #lostKnown = 0;
  #used = 0;
  #answers = 0;
  #why = new Map<NoAnswer["reason"], { no: NoAnswer; count: number }>();
  #whyStdev: NoAnswer | null = null;
  /** Weight of contributions that have a mean and no deviation. */
  #unspread = 0;
  /** Weighted sums over what has no answer, as far as it is bounded; what is guessed at the mean of the answered; and what is not bounded. */
  readonly #unanswered = { weight: 0, low: 0, high: 0, value: 0, guessed: 0, unbounded: 0 };
  /** The epoch at hand: weight of its contributions, and their number. */
  #epoch: { index: number; weight: number; count: number; shared: Side } | null = null;

  /**
   * `epoch`: its number and the error that its flows share; contributions of one epoch come together. `flow`: its name, by which
   * errors that repeat from epoch to epoch are put together.
   */
  add(contribution: Contribution, epoch?: SharedEpoch, flow?: string): void {
    const { mean, stdev, packets, lost, used } = contribution;
    if (epoch) this.#enter(epoch);
    this.#used += used;
    if (packets !== null) this.#packets = (this.#packets ?? 0) + packets;
    const arrived = contribution.arrived ?? packets;
    if (arrived !== null) this.#arrived = (this.#arrived ?? 0) + arrived;
    this.#addLost(lost, packets);
    this.#lostKnown += contribution.lostLow ?? lost ?? 0;
    if (isNoAnswer(mean)) {
      const known = this.#why.get(mean.reason);
      if (known) known.count++;
      else this.#why.set(mean.reason, { no: mean, count: 1 });
      this.#addUnanswered(arrived ?? 0, contribution.bounds ?? null);
      return;
    }
    // Packets unknown: every such answer counts as one.
    const weight = arrived ?? 1;
    if (!(weight > 0)) return;
    if (!contribution.modelled) {
      this.#answers++;
      this.#answeredPackets += arrived ?? 0;
    }
    this.#addMean(mean, weight, flow);
    if (isNoAnswer(stdev)) {
      this.#whyStdev ??= stdev;
      this.#unspread += weight;
    } else this.#spread.add(mean, ownError(mean), stdev, weight);
  }

  get answers(): number {
    return this.#answers;
  }

  #addLost(lost: number | null, packets: number | null): void {
    if (lost !== null) this.#lost = (this.#lost ?? 0) + lost;
    else if (packets !== null && packets > 0) this.#lossUnknown = true;
  }

  #allLost(): number | null {
    return this.#lossUnknown ? null : this.#lost;
  }

  #addMean(mean: Interval, weight: number, flow: string | undefined): void {
    this.#means.merge(weighted(weight, mean.valueNs, 0));
    this.#common.low += weight * (mean.common?.lowNs ?? 0);
    this.#common.high += weight * (mean.common?.highNs ?? 0);
    const own = ownError(mean);
    const [low, high] = [weight * own.low, weight * own.high];
    const repeats = flow === undefined ? 0 : (mean.repeats ?? 0);
    this.#errors.low += (1 - repeats) * low * low;
    this.#errors.high += (1 - repeats) * high * high;
    if (flow !== undefined && repeats > 0) {
      const part = Math.sqrt(repeats);
      const before = this.#repeating.get(flow) ?? { low: 0, high: 0 };
      this.#repeating.set(flow, { low: before.low + part * low, high: before.high + part * high });
    }
    if (this.#epoch) {
      this.#epoch.weight += weight;
      this.#epoch.count++;
    }
  }

  /** Everything that was added, as numbers. Of flows: of one flow, or what repeats is taken for that of one. */
  state(): CombinationState {
    this.#endEpoch();
    const [why] = [...this.#why.values()].sort((a, b) => b.count - a.count);
    const repeating = { low: 0, high: 0 };
    for (const { low, high } of this.#repeating.values()) {
      repeating.low += low;
      repeating.high += high;
    }
    const { weight, low, high, value, guessed, unbounded } = this.#unanswered;
    return {
      weight: this.#means.count,
      meanNs: this.#means.mean ?? 0,
      errorLow: Math.sqrt(this.#errors.low),
      errorHigh: Math.sqrt(this.#errors.high),
      commonLow: this.#common.low,
      commonHigh: this.#common.high,
      repeatingLow: repeating.low,
      repeatingHigh: repeating.high,
      ...this.#spread.state(),
      packets: this.#packets,
      arrived: this.#arrived,
      answeredPackets: this.#answeredPackets,
      lost: this.#allLost(),
      lostKnown: this.#lostKnown,
      used: this.#used,
      answers: this.#answers,
      unansweredWeight: weight,
      unansweredLow: low,
      unansweredHigh: high,
      unansweredValue: value,
      unansweredGuessed: guessed,
      unbounded,
      why: why?.no ?? null,
      whyCount: why?.count ?? 0,
      whyStdev: this.#whyStdev,
    };
  }

  /** As if the contributions behind a state had been added here. `flow`: whose it is. */
  addState(state: CombinationState, flow?: string): void {
    this.#endEpoch();
    this.#means.merge(weighted(state.weight, state.meanNs, 0));
    this.#errors.low += state.errorLow ** 2;
    this.#errors.high += state.errorHigh ** 2;
    this.#common.low += state.commonLow;
    this.#common.high += state.commonHigh;
    if (state.repeatingLow !== 0 || state.repeatingHigh !== 0) {
      const before = this.#repeating.get(flow ?? "") ?? { low: 0, high: 0 };
      const [low, high] = [before.low + state.repeatingLow, before.high + state.repeatingHigh];
      this.#repeating.set(flow ?? "", { low, high });
    }
    this.#spread.addState(state);
    this.#unspread += Math.max(0, state.weight - state.spreadWeight);
    if (state.packets !== null) this.#packets = (this.#packets ?? 0) + state.packets;
    if (state.arrived !== null) this.#arrived = (this.#arrived ?? 0) + state.arrived;
    this.#answeredPackets += state.answeredPackets;
    this.#addLost(state.lost, state.packets);
    this.#lostKnown += state.lostKnown;
    this.#used += state.used;
    this.#answers += state.answers;
    this.#addUnansweredState(state);
  }

  #addUnansweredState(state: CombinationState): void {
    const sums = this.#unanswered;
    sums.weight += state.unansweredWeight;
    sums.low += state.unansweredLow;
    sums.high += state.unansweredHigh;
    sums.value += state.unansweredValue;
    sums.guessed += state.unansweredGuessed;
    sums.unbounded += state.unbounded;
    const { why, whyCount } = state;
    if (why) {
      const known = this.#why.get(why.reason);
      if (known) known.count += whyCount;
      else this.#why.set(why.reason, { no: why, count: whyCount });
    }
    this.#whyStdev ??= state.whyStdev;
  }

  result(): Combined {
    this.#endEpoch();
    return {
      mean: this.#mean(),
      whole: this.#whole(),
      stdev: this.#stdev(),
      packets: this.#packets,
      lost: atLeastNone(this.#allLost()),
      lostLow: Math.max(0, this.#lostKnown),
      used: this.#used,
      answeredPackets: this.#answeredPackets,
      answered: this.#arrived === null || this.#arrived === 0 ? null : this.#answeredPackets / this.#arrived,
      answers: this.#answers,
      complete: this.#unanswered.weight + this.#unanswered.unbounded === 0,
    };
  }

  #mean(): Interval | NoAnswer {
    const { mean, count } = this.#means;
    if (mean === null) return this.#commonReason();
    const { low, high } = this.#error();
    return { valueNs: mean, lowNs: mean - low / count, highNs: mean + high / count };
  }

  /** Half widths of the weighted sum of what was answered. */
  #error(): Side {
    let { low, high } = this.#errors;
    for (const flow of this.#repeating.values()) {
      low += flow.low ** 2;
      high += flow.high ** 2;
    }
    return { low: Math.sqrt(low) + this.#common.low, high: Math.sqrt(high) + this.#common.high };
  }

  #whole(): Interval | NoAnswer {
    const answered = this.#mean();
    const { weight, low, high, value, guessed, unbounded } = this.#unanswered;
    if (isNoAnswer(answered) || weight + unbounded === 0) return answered;
    const { count } = this.#means;
    const share = count / (count + weight + unbounded);
    if (unbounded > 0) {
      const percent = significant(100 * share, 3);
      return {
        reason: "partly-answered",
        text: `only ${percent} % of the packets have an answer, and the others have no bounds`,
      };
    }
    const lowNs = share * answered.lowNs + low / (count + weight);
    const highNs = share * answered.highNs + high / (count + weight);
    const valueNs = ((count + guessed) * answered.valueNs + value) / (count + weight);
    return { valueNs: Math.min(Math.max(valueNs, lowNs), highNs), lowNs, highNs };
  }

  #addUnanswered(packets: number, bounds: Bounds | null): void {
    const sums = this.#unanswered;
    if (!bounds) {
      sums.unbounded += packets;
      return;
    }
    sums.weight += packets;
    sums.low += packets * bounds.lowNs;
    sums.high += packets * bounds.highNs;
    if (bounds.valueNs === null) sums.guessed += packets;
    else sums.value += packets * bounds.valueNs;
  }

  #stdev(): Interval | NoAnswer {
    const { weight } = this.#spread;
    if (weight === 0) return this.#whyStdev ?? this.#commonReason();
    // The standard deviation of some packets is not that of all: it is missing where delays vary little, or where they vary most.
    const missing = this.#unspread / (weight + this.#unspread);
    if (this.#whyStdev && missing > FEW_UNSPREAD) return this.#whyStdev;
    const { variance, error, boundNs } = this.#spread;
    return {
      valueNs: Math.sqrt(variance),
      lowNs: Math.max(0, Math.sqrt(Math.max(0, variance * (1 - missing) - error.low)) - boundNs),
      highNs: Math.sqrt(variance * (1 + UNSPREAD_BEYOND * missing) + error.high) + boundNs,
    };
  }

  #commonReason(): NoAnswer {
    const [maximum] = [...this.#why.values()].sort((a, b) => b.count - a.count);
    return maximum?.no ?? { reason: "no-packets", text: "there were no packets" };
  }

  #enter({ index, shared }: SharedEpoch): void {
    if (this.#epoch?.index === index) return;
    this.#endEpoch();
    const known = shared !== null && !isNoAnswer(shared) ? shared : null;
    const error = known ? ownError(known) : { low: 0, high: 0 };
    this.#epoch = { index, weight: 0, count: 0, shared: error };
  }

  #endEpoch(): void {
    const epoch = this.#epoch;
    this.#epoch = null;
    if (!epoch || epoch.count < 2) return;
    this.#errors.low += (epoch.weight * epoch.shared.low) ** 2;
    this.#errors.high += (epoch.weight * epoch.shared.high) ** 2;
  }
}

/** What arrives of an epoch before the first is no loss below 0. */
function atLeastNone(lost: number | null): number | null {
  return lost === null ? null : Math.max(0, lost);
}

/** Half widths without what does not average out. */
function ownError({ valueNs, lowNs, highNs, common }: Interval): Side {
  return { low: valueNs - lowNs - (common?.lowNs ?? 0), high: highNs - valueNs - (common?.highNs ?? 0) };
}

/** The segment's answer in one epoch, to be combined with those of others. */
export function segmentContribution(segment: SegmentEstimate, epochNs: number): Contribution {
  const { mean, stdev, lost, packetsUsed } = segment;
  return { mean, stdev, packets: arrivedOf(segment, epochNs), lost, used: packetsUsed };
}
