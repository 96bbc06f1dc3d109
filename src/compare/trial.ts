/** The first pass covers the whole captures at once, on trial: its plan is judged by the first rows, as by a look ahead. */
import type { ExactMatcher } from "../match/matcher.ts";
import { findDirections } from "./direction.ts";
import { matchedPlan, type PassPlan, type PlanWishes, showsNoAnswers } from "./plan.ts";

export class Trial {
  /** Enough packets matched without answers to conclude that there are none. */
  noAnswers = false;
  readonly #plan: PassPlan;
  readonly #wishes: PlanWishes;

  constructor(plan: PassPlan, wishes: PlanWishes) {
    this.#plan = plan;
    this.#wishes = wishes;
  }

  stands(matcher: ExactMatcher, shorts: number): boolean {
    const directions = findDirections(matcher, this.#plan);
    this.noAnswers = showsNoAnswers(directions);
    if (shorts > 0 && !this.#wishes.fixedCover) return false;
    const forward = matcher.total(1).delay;
    return matchedPlan(this.#plan, directions, forward, this.#wishes.windowNs) === null;
  }
}
