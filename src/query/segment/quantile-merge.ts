/**
 * Quantiles of several epochs (or flows) as those of all their packets. Where each has its distribution, that is the sum of those. Where some have their quantiles alone, each distribution is the
 * line through them, from where the first of them lies to the last; the mixture by packets is inverted. One distribution alone is given as it is. What lies beyond the last quantile is not known then, so
 * a mixture's own last quantile is at maximum the largest of theirs.
 */
import { LogHistogram } from "../../base/math/log-histogram.ts";
import type { FlowEstimate } from "../../estimators/estimator.ts";

type Quantiles = NonNullable<FlowEstimate["quantiles"]>;

export class QuantileMerge {
  readonly #parts: { packets: number; quantiles: Quantiles }[] = [];
  /** Some part has none: all together have none. */
  #unknown = false;
  /** Of all parts; null where some have none. */
  #delays: LogHistogram | null = new LogHistogram();

  add({ quantiles, delays }: Pick<FlowEstimate, "quantiles" | "delays">, packets: number | null): void {
    if (delays) this.#delays?.merge(delays);
    else if (packets !== 0) this.#delays = null;
    if (!quantiles || quantiles.length === 0 || packets === null) this.#unknown ||= packets !== 0;
    else if (packets > 0) this.#parts.push({ packets, quantiles });
  }

  result(): Quantiles | null {
    const [first] = this.#parts;
    if (this.#unknown || !first) return null;
    if (this.#parts.length === 1) return first.quantiles;
    const delays = this.#delays;
    if (delays)
      return first.quantiles.map(({ share, valueNs }) => ({
        share,
        valueNs: delays.quantile(share) ?? valueNs,
      }));
    const values = this.#parts.flatMap((p) => p.quantiles.map((q) => q.valueNs));
    const [minimum, maximum] = [
      values.reduce((a, b) => Math.min(a, b)),
      values.reduce((a, b) => Math.max(a, b)),
    ];
    const packets = this.#parts.reduce((n, p) => n + p.packets, 0);
    const below = (ns: number) =>
      this.#parts.reduce((n, p) => n + p.packets * shareBelow(p.quantiles, ns), 0) / packets;
    return first.quantiles.map(({ share }) => ({ share, valueNs: invert(below, share, minimum, maximum) }));
  }
}

/** Share of the packets at or below a delay. */
function shareBelow(quantiles: Quantiles, ns: number): number {
  let before: Quantiles[number] | null = null;
  for (const at of quantiles) {
    if (ns < at.valueNs) {
      if (!before) return 0;
      const part = (ns - before.valueNs) / (at.valueNs - before.valueNs);
      return before.share + part * (at.share - before.share);
    }
    before = at;
  }
  return 1;
}

/** The minimum delay that this share does not exceed, to a thousandth of the range. */
function invert(below: (ns: number) => number, share: number, minimum: number, maximum: number): number {
  let [low, high] = [minimum, maximum];
  for (let i = 0; i < 40 && high - low > 0.5; i++) {
    const middle = (low + high) / 2;
    if (below(middle) >= share) high = middle;
    else low = middle;
  }
  return high;
}
