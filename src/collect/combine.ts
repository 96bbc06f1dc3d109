/**
 * Combines the answers of many epochs (and of the flows of a group).
 *
 * Means are weighted by the packets that arrived: a lost packet has no delay, and epochs with many losses are the slow ones. Variances add within and between
 * (spread.ts). Packets and losses are summed. Intervals: errors of different epochs and flows are assumed independent, so half widths add by squares,
 * separately for each side. Flows of one epoch share the error of that epoch's segment mean (decoders subtract it as background), so that error is added once
 * more, in full, wherever several flows of an epoch are combined. If part of a flow's error is the same in every epoch (Interval.repeats), that part of its
 * half widths adds linearly over the epochs of the flow, and by squares only over different flows. Errors that do not average out at all, bounds and errors
 * common to all (Interval.common), add linearly.
 *
 * Missing answers are not left out silently: epochs without an answer are the congested ones, and a mean of the others is not the mean. `mean` is that of the
 * answered part, with its share; `whole` is the mean of everything: parts without an answer count with their known bounds, which widen the interval linearly;
 * without bounds, the whole has no answer.
 */

import { Moments } from "../base/math/moments.ts";
import { significant } from "../base/quantity.ts";
import { type Interval, isNoAnswer, type NoAnswer, type SegmentEstimate } from "../estimators/estimator.ts";
import { arrivedOf } from "./in-flight.ts";
import { type Side, Spread, type SpreadState, weighted } from "./spread.ts";

/** One answer to combine. */
export interface Contribution {
  mean: Interval | NoAnswer;
  stdev: Interval | NoAnswer;
  /** Number of packets that it stands for; null if unknown. */
  packets: number | null;
  /** Packets of these that arrived, which the mean is over: its weight. Undefined: all of `packets`. */
  arrived?: number | null;
  /** Below 0 if packets that count as lost in an earlier epoch arrived in this one. */
  lost: number | null;
  /** Minimum number of lost packets; undefined: `lost`. */
  lostLow?: number | undefined;
  /** The mean was not measured: a model derives it for packets in flight at a cut. It counts, but is not an answer. */
  modelled?: boolean;
  /** Number of packets used for the mean. */
  used: number;
  /** Without a mean: its bounds; null or undefined if nothing is known. */
  bounds?: Bounds | null;
}

/** Bounds of a mean that was not measured; `valueNs` is the best guess. */
export interface Bounds {
  valueNs: number | null;
  lowNs: number;
  highNs: number;
}

export interface Combined {
  /** Mean of the answered part. */
  mean: Interval | NoAnswer;
  /** Mean of everything. */
  whole: Interval | NoAnswer;
  stdev: Interval | NoAnswer;
  packets: number | null;
  /** Also null if the loss of a part with packets is unknown: a sum of the others would be mistaken for all. */
  lost: number | null;
  /** Minimum loss, from the parts whose loss is known. Loss is known where little is missing, so it says nothing about the others. */
  lostLow: number;
  used: number;
  /** Packets (arrived, as far as known) of contributions with a mean, and their share of all; null if packets are unknown. */
  answeredPackets: number;
  answered: number | null;
  /** Contributions with a mean. */
  answers: number;
  /** Every contribution has a mean, measured or modelled. */
  complete: boolean;
}

/**
 * A combination as plain numbers, to be stored and merged later: combining states gives the same as combining their contributions. Errors are half widths of
 * weighted sums. `repeating`: the part of one flow's error that adds linearly over its epochs.
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
  /** Minimum number of lost packets: those of contributions whose loss is known. */
  lostKnown: number;
  used: number;
  answers: number;
  unansweredWeight: number;
  unansweredLow: number;
  unansweredHigh: number;
  unansweredValue: number;
  unansweredGuessed: number;
  unbounded: number;
  /** The most frequent reason for a missing answer, and its frequency. */
  why: NoAnswer | null;
  whyCount: number;
  whyStdev: NoAnswer | null;
}

/** The epoch of a flow's contribution, with the segment's mean there. */
export interface SharedEpoch {
  index: number;
  shared: Interval | NoAnswer | null;
}

/** The few packets of an epoch at the start or end of a capture may have no deviation; they are assumed to vary up to this many times as much as the others. */
const FEW_UNSPREAD = 0.01;
const UNSPREAD_BEYOND = 9;

export class Combination {
  readonly #means = new Moments();
  #errors: Side = { low: 0, high: 0 };
  #common: Side = { low: 0, high: 0 };
  /** Sums of weighted half widths by flow, of the repeating part. */
  readonly #repeating = new Map<string, Side>();
  /** Over contributions with a deviation. */
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
  /** Weight of contributions with a mean but no deviation. */
  #unspread = 0;
  /** Weighted sums over unanswered contributions with bounds; `guessed`: those assumed at the mean of the answered ones; `unbounded`: those without bounds. */
  readonly #unanswered = { weight: 0, low: 0, high: 0, value: 0, guessed: 0, unbounded: 0 };
  /** The current epoch: weight and number of its contributions. */
  #epoch: { index: number; weight: number; count: number; shared: Side } | null = null;

  /**
   * `epoch`: its index and the error that its flows share; contributions of one epoch must come together. `flow`: its name, by which errors that repeat from
   * epoch to epoch are added up.
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
    // With unknown packets, every answer counts as one packet.
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

  /** Returns everything that was added, as numbers. For flows: of a single flow, because the repeating part is treated as one flow's. */
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

  /** Adds a state as if its contributions had been added here. `flow`: the flow it belongs to. */
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

  /** Half widths of the weighted sum of the answered part. */
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

/** Packets that arrive from before the first epoch do not make the loss negative. */
function atLeastNone(lost: number | null): number | null {
  return lost === null ? null : Math.max(0, lost);
}

/** Half widths without the part that does not average out. */
function ownError({ valueNs, lowNs, highNs, common }: Interval): Side {
  return { low: valueNs - lowNs - (common?.lowNs ?? 0), high: highNs - valueNs - (common?.highNs ?? 0) };
}

/** The segment's answer in one epoch as a contribution. */
export function segmentContribution(segment: SegmentEstimate, epochNs: number): Contribution {
  const { mean, stdev, lost, packetsUsed } = segment;
  return { mean, stdev, packets: arrivedOf(segment, epochNs), lost, used: packetsUsed };
}
