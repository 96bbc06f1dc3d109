/**
 * Merges the quantiles of several epochs (or flows) into those of all their packets. If all parts have a distribution, the distributions are added
 * up. Otherwise each part is approximated by straight lines through its quantiles, and the mixture, weighted by packets, is inverted. A single part
 * is returned unchanged. Nothing is known beyond a part's last quantile, so a mixture's last quantile is at most the largest of theirs.
 */
import { LogHistogram } from "../../base/math/log-histogram.ts";
import type { FlowEstimate } from "../../estimators/estimator.ts";

type Quantiles = NonNullable<FlowEstimate["quantiles"]>;

export class QuantileMerge {
  readonly #parts: { packets: number; quantiles: Quantiles }[] = [];
  /** Some part has no quantiles, so the whole has none. */
  #unknown = false;
  /** Sum of all distributions; null if a part has none. */
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

/** Returns the share of packets with at most this delay. */
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

/** Returns the smallest delay that reaches this share, to within 0.5 ns. */
function invert(below: (ns: number) => number, share: number, minimum: number, maximum: number): number {
  let [low, high] = [minimum, maximum];
  for (let i = 0; i < 40 && high - low > 0.5; i++) {
    const middle = (low + high) / 2;
    if (below(middle) >= share) high = middle;
    else low = middle;
  }
  return high;
}
