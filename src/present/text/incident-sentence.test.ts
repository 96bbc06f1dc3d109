import { describe, expect, it } from "vitest";
import { type DescribedIncident, type IncidentWords, incidentSentence } from "./incident-sentence.ts";

const words: IncidentWords = {
  delay: (ns) => `${ns / 1e6} ms`,
  share: (share) => `${Math.round(1000 * share) / 10} %`,
  count: String,
  time: (ns) => `t${ns}`,
  lasting: (startNs, endNs) => `${Number(endNs) - Number(startNs)} s`,
};
const incident: DescribedIncident = {
  ...{ kind: "delay", state: "open", segment: { from: "r2", to: "r3" }, paths: ["path"], reason: null },
  ...{ startNs: "10", endNs: "24", baseline: 2e6, peak: 18e6, now: 18e6, share: 0.994, candidates: [] },
  ...{ flowCount: 412, flows: [] },
};
const text = (change: Partial<DescribedIncident>) => incidentSentence({ ...incident, ...change }, words);
const loss = { kind: "loss", baseline: 0, peak: 0.25, share: null, flowCount: 0 } as const;

describe("an incident in words", () => {
  it("says which segment, since when, from what to what, and who suffers", () => {
    expect(text({})).toBe("r2 → r3 slow since t10: 2 ms → 18 ms, 99 % of the rise, 412 flows");
    expect(text({ state: "closed", flowCount: 1 })).toBe(
      "r2 → r3 was slow from t10 for 14 s: 2 ms → 18 ms, 99 % of the rise, 1 flow",
    );
    expect(text({ segment: null, candidates: [{ from: "r1", to: "r2" }], reason: "spread thin" })).toMatch(
      /^path \(perhaps r1 → r2\) slow since t10: .*, undecided: spread thin$/,
    );
  });

  it("keeps the worst where the last epoch is ordinary again", () => {
    expect(text({ now: 3e6 })).toMatch(/: 2 ms → 18 ms at worst, 3 ms now, /);
    expect(text({ ...loss, now: 0.25 })).toBe("r2 → r3 losing packets since t10: loses 25 %");
    expect(text({ ...loss, now: 0.24999 })).toMatch(/: loses 25 %$/);
    expect(text({ ...loss, now: 0.2 })).toMatch(/: loses 20 %, 25 % at worst$/);
    expect(text({ ...loss, now: 0 })).toMatch(/: lost 25 % at worst, loses nothing now$/);
    expect(text({ ...loss, now: -0.001, baseline: -0.001 })).toMatch(/ loses nothing now$/);
    expect(text({ ...loss, state: "closed", now: 0 })).toMatch(/ for 14 s: lost 25 % at worst$/);
  });
});
