/**
 * Loss over several epochs. The sum of the estimators' losses would count packets in flight at an aligned cut twice: missing in the epoch in which they were
 * sent, foreign in the next. With S_i sent and R_i received in epoch i, of which cells show A_i at the receiver only, x_i packets in flight at its start and
 * f_i foreign ones:
 *
 *   total loss = sum (S_i - R_i) + sum f_i, f_i >= A_i - x_i, x_(i+1) <= x_i + f_i + S_i - R_i
 *
 * The loss is the smallest possible: as many packets as possible are in flight. Treating packets of an epoch as foreign to have more of them in flight at its
 * end gains nothing, so one pass in time order finds it, and one in reverse order if a clock offset makes delays negative. A queue that grows over several cuts
 * has more in flight at each, and all of them appear where it empties.
 *
 * At a cut, rate x |delay| packets are in flight (Little), with rate and delay at the cut: behind a bursty queue many times the mean at some cuts, and nothing
 * at others. So x_i is bounded loosely at each cut (MOST_AT_CUT), and tightly over all cuts, where variations average out; the excess is foreign.
 *
 * If an estimator counts (its loss is sent - received) this is the plain sum. If epochs are cut by packets, those that overtook a delimiter, or were overtaken
 * by it, are missing on one side of the cut and appear on the other (overtaken.ts): they were not lost. After the last aligned epoch of the sender its last
 * packets still arrive: as far as the receiver counted packets there, those missing in that epoch were not lost. An aligned epoch that received more than was
 * sent in it has no loss of its own, but its excess is missing in the previous one: it counts with it, or a queue that empties over a cut would look like loss.
 * So does any epoch with unknown loss next to epochs with known loss; if none is known (both ends have different packets), neither is the sum.
 */
import type { CutMode } from "../epoch/record.ts";
import { isNoAnswer, type SegmentEstimate } from "../estimators/estimator.ts";
import { type ApartEpoch, overtakenAlong } from "./overtaken.ts";

interface Neighbour {
  endNs: bigint;
  lengthNs: number;
  received: number;
  meanNs: number | null;
  /** Packets that are missing, and those that appeared at the receiver only. */
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
  /** Mean delay of the adjacent epochs; null if neither has one: then they are congested. */
  meanNs: number | null;
  /** The cut cannot have more in flight than an epoch contains. */
  most: number;
}

export class LossTotal {
  #lost = 0;
  /** Whether an epoch with known loss was added. */
  #known = false;
  /** Packets that were in flight at aligned cuts, and those that crossed cuts by packets. */
  #inFlight = 0;
  #overtaken = 0;
  #chain: Link[] = [];
  /** Adjacent epochs that are cut by packets. */
  #byPackets: ApartEpoch[] = [];
  #before: Neighbour | null = null;
  /** Packets of aligned epochs that only the receiver has, by start of the epoch. */
  readonly #receiverOnly = new Map<bigint, number>();

  /** Adds an epoch; call in time order. */
  add(segment: SegmentEstimate, epoch: { mode: CutMode; startNs: bigint; endNs: bigint }): void {
    const { sent, received, mean } = segment;
    const { startNs, endNs, mode } = epoch;
    const before = this.#before?.endNs === startNs && mode !== "control" ? this.#before : null;
    // The first epoch cut by packets may have some that overtook its delimiter, which the next one lacks.
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

  /** Adds an aligned epoch that only the receiver has. */
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

  /** Packets that only the receiver has, after the last epoch. */
  get #late(): number {
    return this.#before ? (this.#receiverOnly.get(this.#before.endNs) ?? 0) : 0;
  }

  /** Packets after the last epoch that were sent in it: at most those that it lacks, including those that came into it from the previous one. */
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
 * Returns the packets that appeared in a chain and may have been in flight at its cuts, whatever the sign of the clock offset. `cutOff`: both captures ended
 * with it, and what was in flight then is missing; as much may have been in flight when they began.
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

/** `next`: maximum number in flight at the next cut; after the last, the number that may be cut off. */
function crossings(chain: readonly (Link & { next: number })[]): number {
  let [crossed, underWay] = [0, 0];
  for (const { appeared, missing, next } of chain) {
    const arrived = Math.min(appeared, underWay);
    crossed += arrived;
    underWay = Math.min(next, Math.max(0, underWay + appeared - arrived + missing));
  }
  return crossed + Math.min(underWay, chain[0]?.appeared ?? 0);
}

/**
 * Maximum number of packets in flight at one cut, as a multiple of rate x mean delay: a burst at twice the rate fills a queue to eight times the mean delay.
 */
const MOST_AT_CUT = 16;
/** With this few packets in an epoch hardly any is in flight on average; but FEW_AT_CUT are at every cut if they are sent in step with the clock. */
const SPARSE = 100;
const FEW_AT_CUT = 2;

function fewAt({ most }: Cut): number {
  return most <= SPARSE ? FEW_AT_CUT : 0;
}

/** The same at the end of the sender's capture, where the excess may be traffic that only the receiver still captured. */
const MOST_BEHIND = 6;
/** Maximum deviation of the total number in flight at all cuts. At one cut the number follows the delay, which varies like an exponential one that wanders. */
const MOST_DEVIATIONS = 6;

function cutBetween(a: Neighbour, b: Neighbour): Cut {
  const known = [a.meanNs, b.meanNs].filter((m) => m !== null);
  return {
    perNs: (a.received + b.received) / (a.lengthNs + b.lengthNs),
    meanNs: known.length === 0 ? null : known.reduce((sum, m) => sum + m, 0) / known.length,
    most: Math.max(a.received, b.received),
  };
}

/** Mean number of packets in flight at a cut, by Little's law. `otherwiseNs`: the delay if its epochs have none. */
function inFlight({ perNs, meanNs }: Cut, otherwiseNs: number): number {
  return perNs * Math.abs(meanNs ?? otherwiseNs);
}
