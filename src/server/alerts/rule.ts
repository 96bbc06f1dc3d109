/**
 * State of one alert rule for one target (a segment or a point), fed with measured values. The alert begins when its condition has held for
 * `forNs`, and ends when the value has been back at `clear` for `clearAfterNs`. `clear` may be stricter than the limit (hysteresis), so that a
 * value near the limit raises one alert, not many. The condition holds only if the whole interval is beyond the limit. A missing value changes
 * nothing.
 */
import type { Condition } from "./condition.ts";

export interface Measured {
  value: number;
  low: number;
  high: number;
}

export interface RuleSettings {
  condition: Extract<Condition, { kind: "threshold" }>;
  /** The value has recovered when it reaches this threshold. */
  clear: number;
  forNs: bigint;
  clearAfterNs: bigint;
}

export interface RuleChange {
  change: "began" | "ended";
  atNs: bigint;
  sinceNs: bigint;
  worst: number;
}

export class RuleState {
  readonly #settings: RuleSettings;
  /** Start of the time for which the condition holds, or for which the value has recovered; null if it does not or has not. */
  #holdingNs: bigint | null = null;
  #backNs: bigint | null = null;
  /** End of the last interval evaluated: late epochs, and epochs estimated again, change nothing. */
  #judgedNs = 0n;
  active = false;
  worst: number;

  /** `judgedNs`: end of the intervals that another process has evaluated; `active`: its active alert. */
  constructor(settings: RuleSettings, judgedNs = 0n, active?: { sinceNs: bigint; worst: number }) {
    this.#settings = settings;
    this.#judgedNs = judgedNs;
    this.worst = settings.condition.above ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
    if (!active) return;
    this.active = true;
    this.#holdingNs = active.sinceNs;
    this.worst = active.worst;
  }

  /** Evaluates the value of the interval from `startNs` to `endNs`. */
  push(measured: Measured | null, startNs: bigint, endNs: bigint): RuleChange | null {
    if (measured === null || endNs <= this.#judgedNs) return null;
    this.#judgedNs = endNs;
    const { condition, clear, forNs, clearAfterNs } = this.#settings;
    const { above, limit } = condition;
    const holds = above ? measured.low > limit : measured.high < limit;
    const back = above ? measured.value <= clear : measured.value >= clear;
    if (holds) {
      this.#holdingNs ??= startNs;
      this.#backNs = null;
      this.worst = above ? Math.max(this.worst, measured.value) : Math.min(this.worst, measured.value);
    } else if (back) {
      this.#backNs ??= startNs;
      if (!this.active) this.#holdingNs = null;
    } else {
      // Between limit and `clear`, or the interval straddles the limit.
      this.#backNs = null;
      if (!this.active) this.#holdingNs = null;
    }
    if (!this.active && this.#holdingNs !== null && endNs - this.#holdingNs >= forNs) {
      this.active = true;
      return { change: "began", atNs: endNs, sinceNs: this.#holdingNs, worst: this.worst };
    }
    if (this.active && this.#backNs !== null && endNs - this.#backNs >= clearAfterNs) {
      const sinceNs = this.#holdingNs ?? startNs;
      const { worst } = this;
      this.active = false;
      this.#holdingNs = null;
      this.#backNs = null;
      this.worst = above ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
      return { change: "ended", atNs: endNs, sinceNs, worst };
    }
    return null;
  }
}
