import { describe, expect, it } from "vitest";
import { RACE_CLASSES, type Race, type RaceRow } from "./race.ts";
import { recommend } from "./recommend.ts";

const row = (estimator: string, median: number, wireBits: number, more: Partial<RaceRow> = {}): RaceRow => ({
  ...{ estimator, parameters: "", needsDelays: false, injected: null, atSender: true, usesList: false },
  ...{ byPackets: false, fits: true, memoryBytes: 1, storedBits: wireBits, wireBits, listBits: 0 },
  ...{
    cpuNsPerPacket: 1,
    segmentError: median,
    segmentInside: true,
    answered: 1,
    answeredPackets: 1,
    meanForAll: null,
  },
  delayClasses: [],
  classes: RACE_CLASSES.map((c) => ({
    ...{ ...c, flows: 50, answered: 50, median, p75: median, p90: median, mean: median },
    ...{ withinInterval: 1, medianWidth: median, again: { low: median / 2, high: 2 * median } },
  })),
  ...more,
});
const race = (...rows: RaceRow[]): Race => ({
  ...{
    segment: "s",
    packets: 1,
    flows: 1,
    meanNs: 1,
    epochNs: 1,
    longestNs: null,
    list: { memoryBytes: 0, bytes: 0 },
  },
  ...{ rows, notes: [] },
});
const taken = (...races: Race[]) => recommend(races).twoPoints?.estimator ?? null;

describe("recommend", () => {
  it("takes the smallest error, and of equals the one that exchanges less", () => {
    expect(taken(race(row("a", 0.1, 1), row("b", 0.01, 9)))).toBe("b");
    expect(taken(race(row("a", 0.0101, 1), row("b", 0.01, 9)))).toBe("a");
    expect(recommend([race(row("a", 0.0101, 1), row("b", 0.01, 9))]).twoPoints).toMatchObject({
      cheaper: true,
      judged: 2,
      next: { estimator: "b", error: expect.closeTo(0.01) },
    });
  });

  it("judges over all kinds of delay", () => {
    const races = [race(row("a", 0.001, 1), row("b", 0.01, 1)), race(row("a", 0.9, 1), row("b", 0.01, 1))];
    expect(taken(...races)).toBe("b");
  });

  it("says where the error of its largest flows may lie another time, in the race that it errs most in", () => {
    const large = { from: 1000, flows: 50, medianError: 0.02, again: { low: 0.01, high: 0.04 } };
    const races = [race(row("a", 0.02, 1)), race(row("a", 0.001, 1))];
    expect(recommend(races).twoPoints?.large).toEqual(large);
    expect(recommend(races.toReversed()).twoPoints?.large).toEqual(large);
  });

  it("leaves out what is above the budget in one of the races, and what does not answer", () => {
    const silent = row("c", 0.001, 1);
    const classes = silent.classes.map((c) => ({ ...c, answered: 10 }));
    const rows = [row("a", 0.001, 1, { fits: false }), { ...silent, classes }];
    expect(taken(race(...rows))).toBeNull();
    expect(taken(race(...rows, row("b", 0.5, 1)))).toBe("b");
  });

  it("leaves out what has no answer for the flows of most packets, and names what comes nearest", () => {
    const mice = row("mice", 0.001, 1, { answeredPackets: 0.4 });
    const worse = row("worse", 0.001, 1, { answeredPackets: 0.2 });
    expect(taken(race(mice, row("all", 0.5, 1)))).toBe("all");
    expect(recommend([race(worse, mice)])).toMatchObject({
      twoPoints: null,
      nearest: { estimator: "mice", fits: true },
    });
    const large = row("large", 0.1, 1, { fits: false, memoryBytes: 9 });
    expect(recommend([race(large, row("small", 0.1, 1, { fits: false }))]).nearest).toMatchObject({
      estimator: "small",
      fits: false,
    });
  });

  it("says of what comes nearest what it does where it does least", () => {
    const well = row("a", 0.001, 1);
    const classes = well.classes.map((c, i) => (i === 3 ? { ...c, answered: 0, median: null } : c));
    const badly = { ...well, classes, answered: 0.9, answeredPackets: 0.3 };
    const queue = { ...race(badly), segment: "one queue" };
    expect(recommend([queue, race(well)]).nearest).toMatchObject({
      ...{ estimator: "a", segment: "one queue", row: { answeredPackets: 0.3 }, worst: { answered: 0 } },
    });
  });

  it("judges by the mean of all packets where none of them answers for flows", () => {
    const one = row("a", 0.2, 1);
    const classes = one.classes.map((c) => ({ ...c, answered: 0, median: null }));
    expect(recommend([race({ ...one, classes, answered: 0, answeredPackets: 0 })]).twoPoints).toMatchObject({
      estimator: "a",
      by: "segment",
    });
  });

  it("names what is gained where each packet's delay is known", () => {
    const a = row("a", 0.001, 1, { needsDelays: true });
    expect(recommend([race(a, row("b", 0.5, 1))])).toMatchObject({
      twoPoints: { estimator: "b" },
      withDelays: { estimator: "a" },
    });
    expect(recommend([race(a, row("b", 0.001, 1))]).withDelays).toBeNull();
  });

  it("judges by the mean of all packets where flows are too few", () => {
    const few = (name: string, error: number) => {
      const one = row(name, error, 1);
      return { ...one, classes: one.classes.map((c) => ({ ...c, flows: 1, answered: 0, median: null })) };
    };
    expect(recommend([race(few("a", 0.2), few("b", 0.1))]).twoPoints).toMatchObject({
      estimator: "b",
      by: "segment",
      large: null,
    });
  });
});
