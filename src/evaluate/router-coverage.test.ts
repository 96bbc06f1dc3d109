import { expect, test } from "vitest";
import { measureRouter, ROUTER_CASES } from "./router-coverage.ts";

/**
 * Fixed seeds that nothing was tuned on. Of 60 epochs at 95 %, more than 4 are missed to one side once in 70 times; 7 were, all too low, where packets that were in flight at the cut count
 * for nothing.
 */
test("behind a queue that overflows, intervals of single epochs hold the mean of what arrived in them", async () => {
  const one = ROUTER_CASES.find(({ name }) => name === "few flows");
  if (!one) throw new Error("no such case");
  const rows = await measureRouter(one, { seeds: [701, 702, 703, 704], estimators: ["lda", "lds"] });
  for (const { estimator, what, asked, answered, below, above } of rows) {
    expect(answered, `${estimator}, ${what}`).toBe(asked);
    expect(below, `${estimator}, ${what}`).toBeLessThanOrEqual(4);
    expect(above, `${estimator}, ${what}`).toBeLessThanOrEqual(4);
  }
});
