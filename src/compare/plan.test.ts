import { describe, expect, test } from "vitest";
import { diagnose } from "../clock/diagnose.ts";
import { ClockObserver } from "../clock/observer.ts";
import { type Directions, firstPlan, nextPlan, type PassEvidence } from "./plan.ts";

const SECOND = 1e9;
const KNOWN = { keys: new Uint32Array(20), ways: Uint8Array.of(1, 2) };

/** What a pass over both directions shows, with a clock that is 50 ms ahead. */
function evidence(directions: Partial<Directions>): PassEvidence {
  const observer = new ClockObserver();
  const times = Float64Array.from({ length: 200 }, (_, i) => (i * SECOND) / 10);
  observer.observe(
    times,
    times.map((_, i) => 53e6 + (i % 7) * 1e4),
    200,
  );
  observer.observeReverse(
    times,
    times.map((_, i) => 47e6 - (i % 5) * 1e4),
    200,
  );
  const plain = { matched: 400, peers: null, lateAnswers: false, open: false, decidedBy: null };
  return {
    before: { ipPackets: 400, shorts: [] },
    after: { ipPackets: 400, shorts: [] },
    forward: null,
    directions: { ...plain, twoWay: true, ways: { kind: "split", atNs: 0 }, ...directions },
    rereadable: true,
    limited: false,
    alignment: { kind: "not-sampled" },
    knownWays: () => KNOWN,
    opening: () => null,
    shown: () => null,
    verdict: () => diagnose({ observer, mode: "deskew" }),
  };
}

describe("a pass with corrected clocks", () => {
  const plan = firstPlan(128, 10 * SECOND);
  const wishes = { windowNs: 10 * SECOND, mode: "deskew", fixedCover: false } as const;

  test("goes by the directions that the delays as captured have shown", () => {
    const decision = nextPlan(plan, evidence({}), wishes);
    expect(decision).toMatchObject({
      kind: "again",
      why: "correction",
      plan: { ways: { kind: "known", flows: KNOWN } },
    });
  });

  test("takes all packets to go forward where they did in the delays as captured", () => {
    const decision = nextPlan(plan, evidence({ twoWay: false, ways: plan.ways }), wishes);
    expect(decision).toMatchObject({ why: "correction", plan: { ways: { kind: "one-way" } } });
  });

  test("looks for them again where they were not known", () => {
    const decision = nextPlan(plan, evidence({ open: true }), wishes);
    expect(decision).toMatchObject({ kind: "again", why: "correction", plan: { ways: plan.ways } });
  });
});

describe("first differences that seem false", () => {
  const wishes = { windowNs: 10 * SECOND, mode: "asis", fixedCover: false } as const;
  const range = { lowNs: 0, highNs: 1, gap: null, ways: null };
  const expected = { ...range, untilNs: 1n, judged: true, known: false };
  const opening = () => ({ ...expected, known: true });
  const ways = { kind: "known", flows: KNOWN } as const;

  test("are judged again once the directions of the flows are known", () => {
    const plan = { ...firstPlan(128, 10 * SECOND), expected, ways };
    const again = nextPlan(plan, { ...evidence({ ways }), opening }, wishes);
    expect(again).toMatchObject({ kind: "again", why: "repeats", plan: { expected: { known: true } } });
    const stands = nextPlan({ ...plan, expected: opening() }, { ...evidence({ ways }), opening }, wishes);
    expect(stands.kind).toBe("stands");
  });

  test("are expected anew once the directions are known: the range may be the one of the other direction", () => {
    const again = (first: object) => {
      const plan = { ...firstPlan(128, 10 * SECOND), expected: { ...expected, ...first } };
      const decision = nextPlan(plan, evidence({ ways }), wishes);
      return decision.kind === "again" ? [decision.why, decision.plan.expected] : [];
    };
    expect(again({})).toEqual(["directions", null]);
    expect(again({ judged: false })).toEqual(["directions", { ...expected, judged: false }]);
  });

  test("are not while directions are unknown", () => {
    const plan = { ...firstPlan(128, 10 * SECOND), expected };
    expect(nextPlan(plan, { ...evidence({}), opening }, wishes).kind).toBe("stands");
  });
});

describe("a clock that was set, with one of its offsets beyond the window", () => {
  const wishes = { windowNs: 10 * SECOND, mode: "asis", fixedCover: false } as const;
  const plan = firstPlan(128, 10 * SECOND);
  const found = { total: 300, support: 170, spreadNs: 1e6, distinct: 300, within: 130 };
  const aligned = (matched: number, offsetNs: number, runnerUpNs: number, runnerUp = 130) => {
    const sampled = { ...found, offsetNs, runnerUp, runnerUpNs };
    const shown = evidence({ matched, twoWay: false, ways: plan.ways });
    const alignment = { kind: "sampled" as const, found: sampled };
    const decision = nextPlan(plan, { ...shown, alignment }, wishes);
    return decision.kind === "again" && decision.why === "alignment" ? decision.plan.alignNs : null;
  };

  test("is aligned to the middle of both, whichever has more packets", () => {
    expect(aligned(130, 11.2 * SECOND, 8.4 * SECOND)).toBe(9.8 * SECOND);
    expect(aligned(230, 8.4 * SECOND, 11.2 * SECOND)).toBe(9.8 * SECOND);
  });

  test("is not if both cannot be within the window, or few packets show the other one", () => {
    expect(aligned(130, 11.2 * SECOND, 0.4 * SECOND)).toBeNull();
    expect(aligned(130, 11.2 * SECOND, 8.4 * SECOND, 3)).toBeNull();
  });
});
