/**
 * One alert over one target (a segment, a point, an incident), as values come. It begins when its condition has held for a time, and ends when the value has been back for a time: `clear` may be stricter than the limit, so that a value
 * that moves about the limit makes one alert and not many. A value holds where its whole interval is beyond the limit; what has no value changes nothing.
 */
import type { Condition } from "./condition.ts";

export interface Measured {
  value: number;
  low: number;
  high: number;
}

export interface RuleSettings {
  condition: Extract<Condition, { kind: "threshold" }>;
  /** The value must come back to this. */
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
  /** Since when the condition holds, or the value is back; null where it is not so. */
  #holdingNs: bigint | null = null;
  #backNs: bigint | null = null;
  /** What was judged already: epochs that are estimated again, and late ones, change nothing. */
  #judgedNs = 0n;
  active = false;
  worst: number;

  /** `judgedNs`: until then another process has judged; `active`: what it left. */
  constructor(settings: RuleSettings, judgedNs = 0n, active?: { sinceNs: bigint; worst: number }) {
    this.#settings = settings;
    this.#judgedNs = judgedNs;
    this.worst = settings.condition.above ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
    if (!active) return;
    this.active = true;
    this.#holdingNs = active.sinceNs;
    this.worst = active.worst;
  }

  /** Of the time from start to end. */
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
      // Between the two limits, or not sure.
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
