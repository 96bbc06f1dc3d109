/**
 * Loss of single epochs that are cut by time. With S packets sent in an epoch, R received, x in flight at its start and y at its end (sent before a cut and
 * arriving after it):
 *
 *   lost = S - R + x - y
 *
 * x and y are not counted. Their mean is rate x delay (Little), and they vary as much as the delay at a cut: for one epoch S - R alone may look like loss, or
 * hide it. Over adjacent epochs it does not: what was in flight arrives in the next epoch, and what is lost stays missing. So the missing packets are summed
 * from cut to cut, minus those expected in flight there: a level that only losses raise, and that each cut shows with the deviation of what is in flight. The
 * rises of that level are the losses (`rising-levels.ts`). Each epoch has bounds, too: everything that x and y leave possible.
 *
 * If an estimator's cells show which packets appeared at the receiver only, those are the ones that were in flight at the start, and x is known except for
 * packets that share a cell with a missing one: these hide each other. The more packets are in cells with either (few flows, much loss), the wider are the
 * bounds, up to those by rate and delay.
 *
 * If epochs are cut by packets, a packet missing in one and appearing in another was not lost (`overtaken.ts`).
 *
 * With a negative delay (clock offset) packets arrive before they are sent: in flight with the opposite sign. If the delay is unknown, no loss is certain.
 */
import type { CutMode } from "../epoch/record.ts";
import { overtakenAlong } from "./overtaken.ts";
import { risesOf } from "./rising-levels.ts";

export interface CountedEpoch {
  mode: CutMode;
  startNs: bigint;
  endNs: bigint;
  sent: number | null;
  received: number | null;
  /** As its own estimate counts; includes packets that appeared at the receiver only. */
  lost: number | null;
  /** Packets received in cells with equal content at both ends; undefined if unknown. */
  used?: number;
  meanNs: number | null;
  stdevNs: number | null;
  /** A capture began or ended within it, or one end is missing: missing packets may not have been captured. */
  edge: boolean;
}

export interface EpochLoss {
  lost: number;
  low: number;
  high: number;
}

/** Maximum number of packets that crossed a delimiter, as a multiple of rate x delay. */
const OVERTAKING = 16;
/** Deviations of the number of packets in flight at a cut: for bounds, and for the loss beyond them. */
const DEVIATIONS = 4;
/** Share by which more packets may have appeared than cells show. */
const HIDDEN = 0.25;

interface Cut {
  /** Number of packets in flight: expected, and its bounds. */
  expected: number;
  low: number;
  high: number;
  /** From the packets that appeared after it: more precise than its bounds, which are for the worst case. */
  deviation?: number;
}

interface Chained {
  index: number;
  /** Sent - received, without foreign packets. */
  missing: number;
  before: Cut;
  after: Cut;
}

/** Returns the losses of epochs in time order; null for an epoch without counts. */
export function epochLosses(epochs: readonly CountedEpoch[]): (EpochLoss | null)[] {
  const losses: (EpochLoss | null)[] = epochs.map(ownLoss);
  let at = 0;
  while (at < epochs.length) {
    let end = at + 1;
    while (end < epochs.length && follows(epochs[end - 1], epochs[end])) end++;
    if (isCounted(epochs[at])) followChain(epochs, at, end, losses);
    else if (isByPackets(epochs[at])) followCutsByPackets(epochs, at, end, losses);
    at = end;
  }
  return losses;
}

function ownLoss({ mode, lost, sent, received, edge }: CountedEpoch): EpochLoss | null {
  if (mode === "aligned" && sent !== null && received !== null && lost === null)
    return { lost: 0, low: 0, high: 0 };
  return lost === null ? null : { lost, low: edge ? 0 : lost, high: lost };
}

function isCounted(epoch: CountedEpoch | undefined): boolean {
  return epoch?.mode === "aligned" && epoch.sent !== null && epoch.received !== null;
}

function follows(a: CountedEpoch | undefined, b: CountedEpoch | undefined): boolean {
  if (a?.endNs !== b?.startNs) return false;
  return (isCounted(a) && isCounted(b) && !a?.edge && !b?.edge) || (isByPackets(a) && isByPackets(b));
}

function isByPackets(epoch: CountedEpoch | undefined): boolean {
  return epoch?.mode === "delimited" && epoch.sent !== null && epoch.received !== null;
}

/** Nothing is in flight at a delimiter, but packets overtake it, or are overtaken: a packet missing in one epoch and appearing in another was not lost. */
function followCutsByPackets(
  epochs: readonly CountedEpoch[],
  first: number,
  end: number,
  losses: (EpochLoss | null)[],
): void {
  const own = epochs.slice(first, end);
  const { ofEpoch } = overtakenAlong(
    own.map((epoch, i) => {
      const before = own[i - 1];
      const expected = before ? cutBeside([epoch, before], null, 0).expected : 0;
      const lost = Math.max(0, epoch.lost ?? 0);
      return { lost, appeared: appearedByPackets(epoch), most: OVERTAKING * Math.abs(expected) };
    }),
  );
  for (const [i, { likely, most }] of ofEpoch.entries()) {
    const loss = losses[first + i];
    if (!loss) continue;
    losses[first + i] = { ...loss, lost: loss.lost - likely, low: Math.max(0, loss.low - most) };
  }
}

/** With an estimator that reports no loss if it has too many packets, none is missing. */
function appearedByPackets({ sent, received, lost }: CountedEpoch): number {
  return Math.max(0, (lost ?? 0) - ((sent ?? 0) - (received ?? 0)));
}

function followChain(
  epochs: readonly CountedEpoch[],
  first: number,
  end: number,
  losses: (EpochLoss | null)[],
): void {
  const chain = chained(epochs, first, end);
  const found = lostByEpoch(chain);
  for (const [i, { index, missing, before, after }] of chain.entries()) {
    const lost = found[i] ?? 0;
    const next = chain[i + 1];
    const most = Math.max(after.high, -(next?.missing ?? 0));
    const low = epochs[index]?.edge ? 0 : Math.max(0, Math.floor(missing + before.low - most));
    const high = Math.max(0, Math.ceil(missing + before.high - after.low));
    losses[index] = { lost, low: Math.min(low, lost), high: Math.max(high, lost) };
  }
}

/** Returns whole packets for each epoch of a chain, from what is missing up to each cut beyond what is expected in flight there. */
function lostByEpoch(chain: readonly Chained[]): number[] {
  const first = chain[0]?.before;
  if (!first) return [];
  const levels = [{ level: -first.expected, deviation: deviationOf(first) }];
  let missing = 0;
  for (const epoch of chain) {
    missing += epoch.missing;
    levels.push({ level: missing - epoch.after.expected, deviation: deviationOf(epoch.after) });
  }
  return wholeSteps(risesOf(levels, DEVIATIONS));
}

function deviationOf({ expected, low, high, deviation }: Cut): number {
  return Math.max(0.5, deviation ?? Math.max(high - expected, expected - low) / DEVIATIONS);
}

/** Rounds such that the sum is kept. */
function wholeSteps(rises: readonly number[]): number[] {
  let [sum, given] = [0, 0];
  return rises.map((rise) => {
    sum += rise;
    const whole = Math.round(sum) - given;
    given += whole;
    return whole;
  });
}

function chained(epochs: readonly CountedEpoch[], first: number, end: number): Chained[] {
  const own = epochs.slice(first, end);
  const shown = own.some((e) => appearedIn(e) > 0) ? own.map(shownIn) : null;
  const late = own.map((epoch, i) => Math.min(own[i - 1]?.lost ?? 0, appearedIn(epoch)));
  const usual = [...late].sort((a, b) => a - b)[late.length >> 1] ?? 0;
  const most = Math.max(...own.map(rateOf));
  const chain: Chained[] = [];
  let meanNs: number | null = null;
  let before: Cut | null = null;
  for (const [i, epoch] of own.entries()) {
    const next = own[i + 1];
    meanNs = epoch.meanNs ?? meanNs;
    before ??= cutAt(cutBeside([epoch], meanNs, most), shown, i);
    const byRate = cutBeside(next ? [epoch, next] : [epoch], meanNs, most);
    // A burst across the cut is more than the mean delay allows: many more than usual are missing before it and appear after it.
    const found = Math.max(0, (late[i + 1] ?? 0) - usual);
    const burst = found > 0 ? found + hiddenBeside(found) : 0;
    const after = cutAt(
      byRate.expected < 0 ? byRate : { ...byRate, high: Math.max(byRate.high, burst) },
      shown,
      i + 1,
    );
    // If more appeared than can have been in flight, the rest is foreign.
    const inFlight = Math.max(Math.abs(before.low), Math.abs(before.high));
    const foreign = Math.max(0, appearedIn(epoch) - inFlight);
    const plain = (epoch.sent ?? 0) - (epoch.received ?? 0);
    chain.push({ index: first + i, missing: plain + foreign, before, after });
    before = after;
  }
  return chain;
}

function appearedIn({ sent, received, lost }: CountedEpoch): number {
  return lost === null ? 0 : Math.max(0, lost - ((sent ?? 0) - (received ?? 0)));
}

interface Shown {
  appeared: number;
  /** Share of the packets in cells that would hide one. */
  hiding: number;
}

function shownIn(epoch: CountedEpoch): Shown {
  const { used, received } = epoch;
  const hiding = used === undefined || !received ? 0 : Math.min(1, Math.max(0, 1 - used / received));
  return { appeared: appearedIn(epoch), hiding };
}

/**
 * Returns the cut before epoch `i` of a chain, from what appeared in it, as far as rate and delay allow that; after the last epoch, from what appeared in all
 * of them.
 */
function cutAt(byRate: Cut, shown: readonly Shown[] | null, i: number): Cut {
  // With a negative clock offset packets arrive before they are sent: what appears then belongs to the next cut.
  if (!shown || byRate.expected < 0) return byRate;
  const own = shown[i];
  if (own) return shownCut(byRate, own);
  const mean = shown.reduce((sum, { appeared }) => sum + appeared, 0) / shown.length;
  const hiding = shown.reduce((sum, s) => sum + s.hiding, 0) / shown.length;
  const apart = Math.sqrt(shown.reduce((sum, s) => sum + (s.appeared - mean) ** 2, 0) / shown.length);
  const expected = Math.min(mean, byRate.high);
  const wide = DEVIATIONS * Math.max(apart, Math.sqrt(mean)) + 2;
  const high = Math.max(expected + wide, hiding * byRate.high);
  return { expected, low: Math.max(0, expected - wide), high, deviation: wide / DEVIATIONS };
}

/** Maximum number of packets that may have appeared in addition to those shown by cells. */
function hiddenBeside(shown: number): number {
  return HIDDEN * shown + DEVIATIONS * Math.sqrt(HIDDEN * shown) + 2;
}

/**
 * The number hidden by chance is negative binomial: it widens the bounds. As the most likely value, what is shown is closer to the truth than rate and delay.
 */
function shownCut(byRate: Cut, { appeared, hiding }: Shown): Cut {
  const expected = Math.min(appeared, byRate.high);
  const wide = hiddenBeside(expected);
  const hidden = (hiding / (1 - hiding)) * (expected + 1);
  const most = hidden + DEVIATIONS * Math.sqrt(hidden / (1 - hiding)) + 2;
  const high = hiding < 1 ? Math.min(expected + Math.max(wide, most), byRate.high) : byRate.high;
  const apart = Math.min(wide, Math.max(expected, byRate.high - expected));
  const deviation = (apart / 2 - 1) / DEVIATIONS;
  return { expected, low: Math.max(0, expected - wide), high, deviation };
}

/** Packets received per ns. */
function rateOf({ received, startNs, endNs }: CountedEpoch): number {
  return (received ?? 0) / Number(endNs - startNs);
}

/** `otherwiseNs`: the delay if neither epoch has one. `mostPerNs`: the highest rate of the chain. */
function cutBeside(beside: readonly CountedEpoch[], otherwiseNs: number | null, mostPerNs: number): Cut {
  const received = beside.reduce((sum, e) => sum + (e.received ?? 0), 0);
  const lengthNs = beside.reduce((sum, e) => sum + Number(e.endNs - e.startNs), 0);
  const means = beside.flatMap((e) => e.meanNs ?? []);
  const known = means.length > 0 ? means : otherwiseNs === null ? [] : [otherwiseNs];
  if (known.length === 0) return { expected: 0, low: 0, high: received };
  const meanNs = known.reduce((sum, m) => sum + m, 0) / known.length;
  // An unknown deviation is assumed as large as the delay; means that differ show that the delay moves.
  const apartNs = Math.max(...known) - Math.min(...known);
  const stdevNs = Math.max(apartNs, ...beside.map((e) => e.stdevNs ?? Math.abs(e.meanNs ?? meanNs)));
  const expected = (received / lengthNs) * meanNs;
  // Packets waiting in a queue came at once, and leave at the rate of the link, not at the mean rate.
  const wide = DEVIATIONS * Math.sqrt(Math.abs(expected) + (mostPerNs * stdevNs) ** 2) + 1;
  const low = meanNs >= 0 ? Math.max(0, expected - wide) : expected - wide;
  const high = meanNs >= 0 ? expected + wide : Math.min(0, expected + wide);
  return { expected, low, high };
}
