/**
 * Loss of single epochs that are cut by time. With S packets sent in an epoch, R received, x in flight at its start and y at its end (those that are sent before a cut and arrive behind it):
 *
 *   lost = S - R + x - y
 *
 * x and y are not counted. In the mean they are rate x delay (Little), and vary by as much as the delay does at a cut: for one epoch S - R alone passes for loss, or hides it. Over neighbours it does
 * not: what was in flight arrives in the next epoch, and what is lost stays missing. So what is missing is summed up from cut to cut, less what is expected in flight there: a level that only
 * losses raise, and that each cut shows with the deviation of what is in flight. The rises of that level are the losses (`rising-levels.ts`). Each epoch has bounds too: all that x and y leave
 * possible.
 *
 * Where an estimator's cells show which packets appeared at the receiver only, those are the ones that were in flight at the start, and x is known but for packets that share a cell with one that
 * is missing: these hide each other. The more packets are in cells with either (few flows, much loss), the wider are the bounds, up to those by rate and delay.
 *
 * Where epochs are cut by packets, what is missing in one and appears in another was not lost (`overtaken.ts`).
 *
 * A delay that is negative (clocks apart) has packets arrive before they are sent: in flight with the other sign. Where nothing is known of the delay, nothing is lost for sure.
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
  /** As its own estimate counts; packets that appeared at the receiver only are counted in it. */
  lost: number | null;
  /** Packets received in cells that hold the same at both ends; left out where that is not known. */
  used?: number;
  meanNs: number | null;
  stdevNs: number | null;
  /** A capture began or ended within it, or one end is missing: what is missing may not have been captured. */
  edge: boolean;
}

export interface EpochLoss {
  lost: number;
  low: number;
  high: number;
}

/** Packets that went over a delimiter, over rate x delay, at most. */
const OVERTAKING = 16;
/** Deviations of the packets in flight at a cut: for bounds, and for what is lost beyond them. */
const DEVIATIONS = 4;
/** Packets that appeared may be more than cells show, by this share. */
const HIDDEN = 0.25;

interface Cut {
  /** Packets in flight: expected, and from where to where. */
  expected: number;
  low: number;
  high: number;
  /** By the packets that appeared behind it: known better than its bounds, which are for the worst case. */
  deviation?: number;
}

interface Chained {
  index: number;
  /** Sent - received, without those that came from elsewhere. */
  missing: number;
  before: Cut;
  after: Cut;
}

/** Of epochs in order of time; null where an epoch has no counts. */
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

/** Nothing is in flight at a delimiter, but packets overtake it, or are overtaken: what is missing in an epoch and appears in another was not lost. */
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

/** An estimator that knows no loss where it has packets too many misses none. */
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

/** Whole packets for each epoch of a chain, by what is missing up to each cut beyond what is expected in flight there. */
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

/** Rounded so that the sum is kept. */
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
    // A burst over the cut is more than the mean delay allows: many more than usual are missing before it and appear behind it.
    const found = Math.max(0, (late[i + 1] ?? 0) - usual);
    const burst = found > 0 ? found + hiddenBeside(found) : 0;
    const after = cutAt(
      byRate.expected < 0 ? byRate : { ...byRate, high: Math.max(byRate.high, burst) },
      shown,
      i + 1,
    );
    // More appeared than can have been in flight: from elsewhere.
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

/** The cut before epoch `i` of a chain, by what appeared in it, as far as rate and delay allow that. Behind the last, by what appeared in all of them. */
function cutAt(byRate: Cut, shown: readonly Shown[] | null, i: number): Cut {
  // With clocks apart packets arrive before they are sent: what appears then is that of the cut behind.
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

/** Packets that may have appeared beside so many that cells show. */
function hiddenBeside(shown: number): number {
  return HIDDEN * shown + DEVIATIONS * Math.sqrt(HIDDEN * shown) + 2;
}

/** What stays hidden by chance is negative binomial beside what is shown: it widens the bounds. As the most likely value, what is shown is nearer the truth than rate and delay. */
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

/** `otherwiseNs`: the delay where neither epoch has one. `mostPerNs`: the highest rate of the chain. */
function cutBeside(beside: readonly CountedEpoch[], otherwiseNs: number | null, mostPerNs: number): Cut {
  const received = beside.reduce((sum, e) => sum + (e.received ?? 0), 0);
  const lengthNs = beside.reduce((sum, e) => sum + Number(e.endNs - e.startNs), 0);
  const means = beside.flatMap((e) => e.meanNs ?? []);
  const known = means.length > 0 ? means : otherwiseNs === null ? [] : [otherwiseNs];
  if (known.length === 0) return { expected: 0, low: 0, high: received };
  const meanNs = known.reduce((sum, m) => sum + m, 0) / known.length;
  // Unknown deviations are as large as the delay; means that differ say that it moves.
  const apartNs = Math.max(...known) - Math.min(...known);
  const stdevNs = Math.max(apartNs, ...beside.map((e) => e.stdevNs ?? Math.abs(e.meanNs ?? meanNs)));
  const expected = (received / lengthNs) * meanNs;
  // What waits in a queue came at once, and leaves it as fast as the link takes it, not at the mean rate.
  const wide = DEVIATIONS * Math.sqrt(Math.abs(expected) + (mostPerNs * stdevNs) ** 2) + 1;
  const low = meanNs >= 0 ? Math.max(0, expected - wide) : expected - wide;
  const high = meanNs >= 0 ? expected + wide : Math.min(0, expected + wide);
  return { expected, low, high };
}
