/**
 * Loss of a segment as a series: the share lost per epoch with its error, how bursty ordinary loss is, and how likely ordinary loss makes a count as high as
 * the observed one.
 *
 * Packets are lost in bursts (a full queue drops several in a row), so counts vary more than a binomial's: by the factor phi, the variance of a count over its
 * mean. A negative binomial with that phi in all epochs (bursts of random length at random times) is closed under sums, so a stretch of epochs is judged by its
 * total. The baseline itself is known from counts only; its error is included in the probability (for phi = 1 this is the exact predictive distribution with
 * the prior of Jeffreys).
 *
 * `lost` of records is the number missing at the other end: packets in flight over an edge of the epoch make it too high in one epoch and too low in the next,
 * even negative; `lostError` states by how much, and no rise within it counts.
 */
import { entryAt, entryOf } from "../../base/lists.ts";
import { regularizedBeta } from "../../base/math/special.ts";
import { type LocaliseEstimate, type LossRate, lossRate } from "./segment-estimate.ts";
import type { EpochValue, SpikeSettings } from "./spikes.ts";

/** Minimum rise of the share lost for a spike: one packet of a thousand. */
const MIN_EFFECT = 0.001;
/** Minimum rise in multiples of the ordinary loss. */
const MIN_RISE = 1;

/** The detector's settings for shares lost: the same scores, other units. */
export function lossSettings(settings: SpikeSettings): SpikeSettings {
  return { ...settings, minEffect: MIN_EFFECT, minEffectShare: MIN_RISE, resolution: 0 };
}

export function lossValue(e: LocaliseEstimate): EpochValue {
  const span = { startNs: e.epochStartNs, endNs: e.epochEndNs };
  const sent = e.packets + e.lost;
  if (!(sent > 0) || e.lostError === Number.POSITIVE_INFINITY) return { ...span, value: null, error: 0 };
  // One more than was counted: none of n lost does not prove a share of zero.
  const variance = Math.max(0, e.lost) + 1 + (e.lostError ?? 0) ** 2;
  return { ...span, value: e.lost / sent, error: Math.sqrt(variance) / sent };
}

/** Loss of a path: 1 - the product of the shares delivered by its segments. */
export function pathLoss(parts: readonly EpochValue[]): { value: number; error: number } | null {
  let through = 1;
  let squares = 0;
  for (const { value, error } of parts) {
    if (value === null) return null;
    through *= 1 - Math.max(0, value);
    squares += error ** 2;
  }
  return { value: 1 - through, error: Math.sqrt(squares) };
}

export interface LossCount {
  readonly sent: number;
  readonly lost: number;
  /** Error of `lost`, beyond counting statistics. */
  readonly error: number;
}

export function countLoss(estimates: Iterable<LocaliseEstimate | undefined>): LossCount {
  let sent = 0;
  let lost = 0;
  let squares = 0;
  for (const e of estimates) {
    if (!e || e.lostError === Number.POSITIVE_INFINITY) continue;
    sent += e.packets + e.lost;
    lost += e.lost;
    squares += (e.lostError ?? 0) ** 2;
  }
  return { sent, lost, error: Math.sqrt(squares) };
}

/** Assumed phi before anything is seen, and its weight in bursts: a single burst does not show a higher rate of bursts. */
const UNSEEN_PHI = 12;
const UNSEEN_WEIGHT = 4;

/** Variance of an epoch's count over its mean, 1 for independent single losses; `unseen`: includes the allowance for bursts not seen so far. */
export function burstiness(estimates: readonly LocaliseEstimate[], unseen = false): number {
  const { sent, lost } = countLoss(estimates);
  const rate = sent > 0 ? Math.max(0, lost) / sent : 0;
  let sum = 0;
  let epochs = 0;
  for (const e of estimates) {
    const expected = rate * (e.packets + e.lost);
    if (!(expected > 0) || e.lostError === Number.POSITIVE_INFINITY) continue;
    sum += ((e.lost - expected) ** 2 - (e.lostError ?? 0) ** 2) / expected;
    epochs++;
  }
  const phi = epochs > 2 ? Math.max(1, sum / (epochs - 1)) : 1;
  if (!unseen) return phi;
  const bursts = Math.min(epochs, Math.max(0, lost) / phi);
  return (bursts * phi + UNSEEN_WEIGHT * UNSEEN_PHI) / (bursts + UNSEEN_WEIGHT);
}

/** The interval of a share lost, widened for bursts; null if nothing was sent. */
export function burstyLossRate(
  { sent, lost, error }: LossCount,
  phi: number,
  width: number,
): LossRate | null {
  const clipped = Math.min(sent, Math.max(0, lost));
  const plain = lossRate(sent / phi, clipped / phi, width);
  if (!plain || error === 0) return plain;
  const extra = (width * error) / sent;
  return {
    rate: plain.rate,
    low: Math.max(0, plain.rate - Math.hypot(plain.rate - plain.low, extra)),
    high: Math.min(1, plain.rate + Math.hypot(plain.high - plain.rate, extra)),
  };
}

/** Probability that ordinary loss makes at least the counted losses among those sent in `seen`. */
export function chanceOfLoss(seen: LossCount, baseline: LossCount, phi: number): number {
  if (!(seen.sent > 0 && baseline.sent > 0)) return 1;
  const lost = Math.floor(seen.lost - 2 * seen.error);
  if (lost < 1) return 1;
  const expected = (seen.sent * (Math.max(0, baseline.lost) + phi / 2)) / baseline.sent;
  const spread = phi * (1 + seen.sent / baseline.sent);
  return regularizedBeta(1 - 1 / spread, lost, expected / (spread - 1));
}

export interface LossJudgement {
  /** Probability that ordinary loss makes the stretch. */
  readonly chance: number;
  /** Burstiness of the loss outside the stretch. */
  readonly phi: number;
}

/**
 * Judges the stretches in which a series stood out, each against the epochs outside of it. The others count as ordinary until shown otherwise: one after the
 * other, the rarest first, a stretch with a probability below `rare` is left out for those that follow.
 */
export function judgeStretches(
  column: readonly (LocaliseEstimate | undefined)[],
  stretches: readonly { readonly first: number; readonly last: number }[],
  rare: number,
): LossJudgement[] {
  const aside = new Set<number>();
  const verdicts = new Map<number, LossJudgement>();
  const judge = (k: number): LossJudgement => {
    const { first, last } = entryAt(stretches, k);
    const outside = column.flatMap((e, i) => {
      const left = (i >= first && i <= last) || [...aside].some((s) => inside(entryAt(stretches, s), i));
      return e === undefined || left ? [] : [e];
    });
    const phi = burstiness(outside, true);
    return { chance: chanceOfLoss(countLoss(column.slice(first, last + 1)), countLoss(outside), phi), phi };
  };
  while (verdicts.size < stretches.length) {
    const open = [...stretches.keys()].filter((k) => !verdicts.has(k)).map((k) => ({ k, ...judge(k) }));
    const best = open.reduce((a, b) => (b.chance < a.chance ? b : a));
    if (best.chance >= rare) for (const { k, ...judgement } of open) verdicts.set(k, judgement);
    else {
      verdicts.set(best.k, { chance: best.chance, phi: best.phi });
      aside.add(best.k);
    }
  }
  // The first ones were judged with the others still among the ordinary epochs.
  return stretches.map((_, k) => (aside.has(k) ? judge(k) : entryOf(verdicts, k)));
}

const inside = (stretch: { first: number; last: number }, i: number) =>
  stretch.first <= i && i <= stretch.last;
