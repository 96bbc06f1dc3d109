/**
 * What all estimators together know of an epoch: the narrowest mean of all packets, the deviation, and bounds of all delays. It stands in for an
 * estimator that has no answer there: the epochs without one are the congested ones, and leaving them out would bias the mean low.
 *
 * Flows: the mean of n of an epoch's N packets differs from that of all by at most sigma * sqrt((N - n) / n), whatever their delays (Cauchy-Schwarz).
 */
import type { Bounds, Contribution } from "../../collect/combine.ts";
import type { EpochEstimate } from "../../collect/estimate.ts";
import type { DelayLimits } from "../../collect/tracks.ts";
import { type Interval, isNoAnswer } from "../../estimators/estimator.ts";

interface Fact {
  packets: number;
  means: { estimator: string; contribution: Contribution; mean: Interval }[];
  stdevNs: number | null;
  stdevHighNs: number | null;
  limits: DelayLimits | null;
}

/** An epoch's time at the receiver: the same for estimators of one point and of both. */
export interface EpochPlace {
  startNs: bigint;
  endNs: bigint;
}

export class EpochFacts {
  readonly #facts = new Map<string, Fact>();

  add(estimator: string, estimate: EpochEstimate, contribution: Contribution | null): void {
    const fact = this.#fact(placeOf(estimate));
    fact.limits ??= estimate.limits;
    if (!contribution) return;
    fact.packets = Math.max(fact.packets, contribution.packets ?? 0);
    const { mean, stdev } = contribution;
    if (!isNoAnswer(mean)) fact.means.push({ estimator, contribution, mean });
    if (isNoAnswer(stdev) || (fact.stdevHighNs ?? Infinity) <= stdev.highNs) return;
    fact.stdevHighNs = stdev.highNs;
    fact.stdevNs = stdev.valueNs;
  }

  /** Returns the narrowest answer of another estimator, or null. */
  instead(of: string, place: EpochPlace): { estimator: string; contribution: Contribution } | null {
    const others = this.#facts.get(nameOf(place))?.means.filter((m) => m.estimator !== of) ?? [];
    others.sort((a, b) => a.mean.highNs - a.mean.lowNs - (b.mean.highNs - b.mean.lowNs));
    return others[0] ?? null;
  }

  /** Standard deviation of the epoch's delays, from any estimator; null if unknown. */
  stdevNs(place: EpochPlace): number | null {
    return this.#facts.get(nameOf(place))?.stdevNs ?? null;
  }

  /** Bounds of the mean of all packets of an epoch. `limits`: bounds from its own records. */
  segmentBounds(place: EpochPlace, limits: DelayLimits | null): Bounds | null {
    const known = limits ?? this.#facts.get(nameOf(place))?.limits;
    return known ? { valueNs: null, ...known } : null;
  }

  /** Bounds of the mean of `packets` of the epoch's packets. */
  flowBounds(place: EpochPlace, packets: number): Bounds | null {
    const fact = this.#facts.get(nameOf(place));
    if (!fact) return null;
    const { limits, stdevHighNs, means } = fact;
    const all = fact.packets;
    let narrowest: Interval | null = null;
    for (const { mean } of means)
      if (!narrowest || mean.highNs - mean.lowNs < narrowest.highNs - narrowest.lowNs) narrowest = mean;
    if (!narrowest || stdevHighNs === null || !(packets > 0))
      return limits ? { valueNs: null, ...limits } : null;
    const reach = stdevHighNs * Math.sqrt(Math.max(0, all - packets) / packets);
    const lowNs = Math.max(narrowest.lowNs - reach, limits?.lowNs ?? -Infinity);
    const highNs = Math.min(narrowest.highNs + reach, limits?.highNs ?? Infinity);
    // Limits that contradict the measured mean come from packets in flight over the cut; the measurement takes precedence.
    if (lowNs > highNs)
      return { valueNs: narrowest.valueNs, lowNs: narrowest.lowNs - reach, highNs: narrowest.highNs + reach };
    return { valueNs: Math.min(Math.max(narrowest.valueNs, lowNs), highNs), lowNs, highNs };
  }

  #fact(place: EpochPlace): Fact {
    const name = nameOf(place);
    let fact = this.#facts.get(name);
    if (!fact) {
      fact = { packets: 0, means: [], stdevNs: null, stdevHighNs: null, limits: null };
      this.#facts.set(name, fact);
    }
    return fact;
  }
}

export function placeOf({ receiver, startNs, endNs }: EpochEstimate): EpochPlace {
  return receiver ? { startNs: receiver.startNs, endNs: receiver.endNs } : { startNs, endNs };
}

function nameOf({ startNs, endNs }: EpochPlace): string {
  return `${startNs}-${endNs}`;
}
