import { describe, expect, it } from "vitest";
import { AnsweringBudget } from "./limits.ts";

describe("what a client may have of the time of answering", () => {
  const at = (limits: { share: number; burstMs: number }) => {
    let nowMs = 0;
    const budget = new AnsweringBudget(limits, () => nowMs);
    return {
      budget,
      pass: (ms: number) => {
        nowMs += ms;
      },
    };
  };

  it("is counted afterwards, and comes back with time", () => {
    const { budget, pass } = at({ share: 0.5, burstMs: 10_000 });
    budget.check("a");
    budget.spend("a", 8000);
    budget.check("a");
    budget.spend("a", 12_000);
    expect(() => budget.check("a")).toThrow(/more than its share/);
    try {
      budget.check("a");
    } catch (error) {
      // 10 s over budget, refilled at half a second per second.
      expect((error as { retryAfterS: number }).retryAfterS).toBe(20);
    }
    pass(19_000);
    expect(() => budget.check("a")).toThrow();
    pass(1_001);
    budget.check("a");
  });

  it("is each one's own", () => {
    const { budget } = at({ share: 0.5, burstMs: 100 });
    budget.spend("a", 1000);
    expect(() => budget.check("a")).toThrow();
    budget.check("b");
  });

  it("never grows beyond what may be had at once", () => {
    const { budget, pass } = at({ share: 0.5, burstMs: 1000 });
    budget.spend("a", 1);
    pass(1e9);
    budget.spend("a", 1001);
    expect(() => budget.check("a")).toThrow();
  });
});
