/**
 * Loss over several epochs. Summing what estimators say for each would count packets twice that are in flight at an aligned cut: missing in the epoch in which they were
 * sent, foreign in the next. With S_i sent and R_i received in epoch i, of which cells show A_i at the receiver only, x_i packets in flight at its start and f_i foreign ones:
 *
 *   lost in all = sum (S_i - R_i) + sum f_i, f_i >= A_i - x_i, x_(i+1) <= x_i + f_i + S_i - R_i
 *
 * The loss is the smallest that is possible: as much as may be is in flight. Nothing is gained by taking packets of an epoch as foreign to have more of them in flight at its
 * end, so one pass in order of time finds it, and one in reverse order where a clock's offset makes delays negative. A queue that grows over several cuts has more in flight at
 * each, and all of them appear where it empties.
 *
 * At a cut, rate x |delay| packets are in flight (Little), where rate and delay are those at the cut: behind a bursty queue many times the mean at some, and nothing at others.
 * So x_i is bounded at each cut loosely (MOST_AT_CUT), and over all cuts, where chance averages out, tightly; what is above that is foreign for good.
 *
 * Where an estimator counts (its loss is sent - received) this is the plain sum. Where epochs are cut by packets, those that overtook a delimiter, or were overtaken by it, are
 * missing on one side of the cut and appear on the other (overtaken.ts): they were not lost. Behind the last aligned epoch of the sender its last
 * packets still arrive: as far as the receiver counted packets there, what is missing in that epoch was not lost. An aligned epoch that received more than was sent in it has no
 * loss of its own, but what it has too many the one before has too few: it counts with them, or a queue that empties over a cut would pass for loss. So does any epoch that does not
 * know its loss, beside others that do; where none does (both ends hold different packets), neither does the sum.
 */
import type { CutMode } from "../epoch/record.ts";
import { isNoAnswer, type SegmentEstimate } from "../estimators/estimator.ts";
import { type ApartEpoch, overtakenAlong } from "./overtaken.ts";

interface Neighbour {
  endNs: bigint;
  lengthNs: number;
  received: number;
  meanNs: number | null;
  /** Packets that are missing, and that appeared at the receiver only. */
  lost: number;
  appeared: number;
}

/** An aligned epoch of a chain without gaps. */
interface Link {
  /** Packets that appeared at the receiver only. */
  appeared: number;
  /** Sent - received. */
  missing: number;
  /** The cut before it; null before the first. */
  cut: Cut | null;
}

interface Cut {
  perNs: number;
  /** Of the epochs beside it; null where neither has a mean: they are congested ones. */
  meanNs: number | null;
  /** More than an epoch holds cannot be on its way over the cut. */
  most: number;
}

export class LossTotal {
  #lost = 0;
  /** An epoch knows its loss. */
  #known = false;
  /** Packets that were in flight at aligned cuts, and those that crossed cuts by packets. */
  #inFlight = 0;
  #overtaken = 0;
  #chain: Link[] = [];
  /** Epochs without gaps that are cut by packets. */
  #byPackets: ApartEpoch[] = [];
  #before: Neighbour | null = null;
  /** Packets of aligned epochs that the receiver alone has, by their start. */
  readonly #receiverOnly = new Map<bigint, number>();

  /** Epochs come in order of time. */
  add(segment: SegmentEstimate, epoch: { mode: CutMode; startNs: bigint; endNs: bigint }): void {
    const { sent, received, mean } = segment;
    const { startNs, endNs, mode } = epoch;
    const before = this.#before?.endNs === startNs && mode !== "control" ? this.#before : null;
    // The first epoch that is cut by packets may have those that overtook its delimiter, which the next one lacks.
    const counts = before !== null || mode === "delimited";
    const plain = sent === null || received === null ? null : sent - received;
    const lost = segment.lost ?? (plain !== null && (counts || plain >= 0) ? plain : null);
    this.#known ||= segment.lost !== null;
    this.#lost += lost ?? 0;
    if (lost === null || sent === null || received === null) {
      this.#before = null;
      return;
    }
    if (mode !== "delimited" || !before) this.#endByPackets();
    const missing = sent - received;
    const appeared = Math.max(0, lost - missing);
    const meanNs = isNoAnswer(mean) ? null : mean.valueNs;
    const apart = { lost: Math.max(0, lost), appeared };
    const now = { endNs, lengthNs: Number(endNs - startNs), received, meanNs, ...apart };
    if (mode === "aligned") {
      if (!before) this.#endChain();
      this.#chain.push({ appeared, missing, cut: before && cutBetween(before, now) });
    } else if (mode === "delimited") {
      const cut = before && cutBetween(before, now);
      this.#byPackets.push({ ...apart, most: cut ? Math.min(cut.most, MOST_AT_CUT * inFlight(cut, 0)) : 0 });
    }
    this.#before = now;
  }

  /** An aligned epoch that the receiver alone has. */
  addReceiverOnly(startNs: bigint, packets: number): void {
    this.#receiverOnly.set(startNs, packets);
  }

  get lost(): number | null {
    if (!this.#known) return null;
    const overtaken = this.#overtaken + overtakenAlong(this.#byPackets).total;
    const lost = this.#lost - overtaken - this.#inFlight - inFlightAlong(this.#chain, this.#late === 0);
    const rounded = Math.round(lost - this.#behind(Math.max(0, lost)));
    return rounded < 0 ? null : rounded;
  }

  #endByPackets(): void {
    this.#overtaken += overtakenAlong(this.#byPackets).total;
    this.#byPackets = [];
  }

  #endChain(): void {
    this.#inFlight += inFlightAlong(this.#chain, true);
    this.#chain = [];
  }

  /** Packets that the receiver alone has behind the last epoch. */
  get #late(): number {
    return this.#before ? (this.#receiverOnly.get(this.#before.endNs) ?? 0) : 0;
  }

  /** Packets behind the last epoch that were sent in it: as many as it lacks, and as came into it from the one before. */
  #behind(lost: number): number {
    const last = this.#before;
    const late = this.#late;
    if (!last || late === 0) return 0;
    const cut = cutBetween(last, last);
    const most = last.lost + Math.min(cut.most, MOST_BEHIND * inFlight(cut, 0));
    return Math.min(late, late > most ? last.lost : lost);
  }
}

/**
 * Packets that appeared in a chain and may have been in flight at its cuts, whichever way the clocks are apart. `cutOff`: both captures ended with it, and what was in flight then
 * is missing; as much may have been in flight when they began.
 */
function inFlightAlong(chain: readonly Link[], cutOff: boolean): number {
  const slowest = chain.reduce((most, { cut }) => Math.max(most, Math.abs(cut?.meanNs ?? 0)), 0);
  const most = ({ cut }: Link) =>
    cut ? Math.min(cut.most, Math.max(fewAt(cut), MOST_AT_CUT * inFlight(cut, slowest))) : 0;
  const limits = chain.slice(1).map(most);
  const atEnds = cutOff ? (limits.at(-1) ?? 0) : 0;
  const forward = chain.map((link, i) => ({ ...link, next: limits[i] ?? atEnds }));
  const backward = chain.map((link, i) => ({ ...link, next: limits[i - 1] ?? atEnds })).reverse();
  let [cuts, expected, few] = [0, 0, 0];
  for (const { cut } of chain) {
    if (!cut) continue;
    cuts++;
    expected += inFlight(cut, slowest);
    few += fewAt(cut);
  }
  const inAll = few + expected * (1 + MOST_DEVIATIONS * Math.sqrt(2 / Math.max(1, cuts)));
  return Math.min(Math.max(crossings(forward), crossings(backward)), inAll);
}

/** `next`: the most that may be in flight at the cut that is passed next; behind the last, what may be cut off. */
function crossings(chain: readonly (Link & { next: number })[]): number {
  let [crossed, underWay] = [0, 0];
  for (const { appeared, missing, next } of chain) {
    const arrived = Math.min(appeared, underWay);
    crossed += arrived;
    underWay = Math.min(next, Math.max(0, underWay + appeared - arrived + missing));
  }
  return crossed + Math.min(underWay, chain[0]?.appeared ?? 0);
}

/** Packets in flight at one cut, over rate x mean delay, at most: a burst fills a queue at twice the rate to eight times the mean delay. */
const MOST_AT_CUT = 16;
/** Of so few packets in an epoch hardly any is in flight in the mean; but so many are at every cut where they are sent in step with the clock. */
const SPARSE = 100;
const FEW_AT_CUT = 2;

function fewAt({ most }: Cut): number {
  return most <= SPARSE ? FEW_AT_CUT : 0;
}

/** The same at the end of the sender's capture, where more may be traffic that only the receiver still captured. */
const MOST_BEHIND = 6;
/** Deviations of the packets in flight at all cuts together, at most. At one cut they are as many as the delay is long, which varies like an exponential one that wanders. */
const MOST_DEVIATIONS = 6;

function cutBetween(a: Neighbour, b: Neighbour): Cut {
  const known = [a.meanNs, b.meanNs].filter((m) => m !== null);
  return {
    perNs: (a.received + b.received) / (a.lengthNs + b.lengthNs),
    meanNs: known.length === 0 ? null : known.reduce((sum, m) => sum + m, 0) / known.length,
    most: Math.max(a.received, b.received),
  };
}

/** Packets in flight at a cut in the mean, by Little's law. `otherwiseNs`: the delay where its epochs have none. */
function inFlight({ perNs, meanNs }: Cut, otherwiseNs: number): number {
  return perNs * Math.abs(meanNs ?? otherwiseNs);
}
