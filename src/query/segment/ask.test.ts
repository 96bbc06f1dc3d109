import { describe, expect, it } from "vitest";
import { type CountedEpoch, countedRecord } from "../../../tests/support/counted-records.ts";
import { countingEstimator } from "../../../tests/support/counting-estimator.ts";
import type { ClockState } from "../../capture/source/clock-state.ts";
import { MemoryRecords } from "../../collect/memory-records.ts";
import type { Estimator } from "../../estimators/estimator.ts";
import type { Answer } from "./answer.ts";
import { askArchive } from "./ask.ts";
import type { Question } from "./question.ts";

const SECOND = 1_000_000_000n;
const START = 1_700_000_000_000_000_000n;

interface Epoch extends Partial<CountedEpoch> {
  at: number;
  packets: number;
  delayNs: number;
  /** Lost packets. The counting estimator has no answer for a flow that lost one. */
  lost?: number;
}

function records(epochs: readonly Epoch[], into = new MemoryRecords()): MemoryRecords {
  for (const { at, packets, delayNs, lost = 0, ...more } of epochs) {
    const place = { startNs: START + BigInt(at) * SECOND, lengthNs: SECOND, ...more };
    into.add(countedRecord({ point: "A", ...place, packets }));
    into.add(countedRecord({ point: "B", ...place, packets: packets - lost, delayNs }));
  }
  return into;
}

const ask = (
  store: MemoryRecords,
  question: Partial<Question> = {},
  table: readonly Estimator[] = [countingEstimator],
): Answer => askArchive(store, { between: ["A", "B"], ...question }, { table });
const counting = (answer: Answer) => answer.estimates["counting"]!;

/** The same sums under another name: an estimator that tolerates loss. */
const robust: Estimator = {
  ...countingEstimator,
  name: "robust",
  estimate(input) {
    const answer = countingEstimator.estimate(input);
    const mean = { valueNs: 90_000_000, lowNs: 88_000_000, highNs: 92_000_000 };
    return { ...answer, segment: answer.segment && { ...answer.segment, mean, stdev: mean } };
  },
};

describe("an answer over several epochs", () => {
  it("is that of all packets: epochs without an answer widen it by what bounds them, and are named", () => {
    // The congested epoch has ninety times the delay, and no answer.
    const store = records([
      { at: 0, packets: 900, delayNs: 1e6 },
      { at: 1, packets: 100, delayNs: 90e6, lost: 1 },
      { at: 2, packets: 1000, delayNs: 1e6 },
    ]);
    const { latency, answered } = counting(ask(store));
    expect(answered).toMatchObject({ packets: 1900, epochs: 2, latency: { meanNs: 1e6 } });
    expect(answered.share).toBeCloseTo(1900 / 1999, 6);
    const truth = (1900 * 1e6 + 99 * 90e6) / 1999;
    expect(latency!.lowNs).toBeLessThan(truth);
    expect(latency!.highNs).toBeGreaterThan(truth);
    // Delays of an aligned epoch are at most its length.
    expect(latency!.highNs - latency!.meanNs).toBeGreaterThan(((1e9 - 1e6) * 99) / 2000);
    expect(latency!.highNs - latency!.meanNs).toBeLessThan((1.01e9 * 99) / 1999);
  });

  it("uses another estimator's mean where there is one, with a note", () => {
    const store = records([
      { at: 0, packets: 900, delayNs: 1e6 },
      { at: 1, packets: 100, delayNs: 90e6, lost: 1 },
    ]);
    for (const at of [0, 1])
      for (const point of ["A", "B"]) {
        const packets = at === 0 ? 900 : point === "A" ? 100 : 99;
        const place = { startNs: START + BigInt(at) * SECOND, lengthNs: SECOND };
        store.add({ ...countedRecord({ point, ...place, packets, delayNs: 1e6 }), estimator: "robust" });
      }
    const answer = counting(ask(store, {}, [countingEstimator, robust]));
    expect(answer.borrowed).toEqual([{ estimator: "robust", epochs: 1 }]);
    expect(answer.latency!.meanNs).toBeCloseTo((900 * 1e6 + 99 * 90e6) / 999, 0);
    expect(answer.latency!.highNs - answer.latency!.lowNs).toBeLessThan(1e6);
    expect(answer.answered.share).toBeCloseTo(900 / 999, 6);
    expect(answer.notes.join()).toMatch(/no answer in 1 epoch: the mean of robust is used there/);
  });

  it("knows by another estimator's mean how many packets were still in flight behind the last epoch", () => {
    const store = records([{ at: 0, packets: 900, delayNs: 1e6 }]);
    // Of the second epoch, 20 packets arrive in the third; of the third, 30 arrive after it.
    const counts = { A: [900, 920, 100], B: [900, 900, 90, 30] };
    for (const [point, list] of Object.entries(counts))
      for (const [at, packets] of list.entries()) {
        const place = { startNs: START + BigInt(at) * SECOND, lengthNs: SECOND };
        const record = countedRecord({ point, ...place, packets, delayNs: 90e6 });
        if (at > 0) store.add(record);
        if (at < 3) store.add({ ...record, estimator: "robust" });
      }
    const answer = counting(ask(store, {}, [countingEstimator, robust]));
    expect(answer).toMatchObject({ sent: 1920, received: 1920, lost: 0 });
  });

  it("takes packets of a flow that overtook a delimiter for those that the epoch before lacks", () => {
    const inFlight = { valueNs: 1e6, lowNs: 0, highNs: 2e6 };
    const crossing: Estimator = {
      ...countingEstimator,
      estimate(input) {
        const answer = countingEstimator.estimate(input);
        return { ...answer, segment: answer.segment && { ...answer.segment, inFlight } };
      },
    };
    const store = new MemoryRecords();
    const ids = [0n, 5n, 6n, 0n];
    for (const [point, list] of Object.entries({ A: [7, 5, 0], B: [7, 3, 2] }))
      for (const [n, packets] of list.entries()) {
        const place = { startNs: START + BigInt(n) * SECOND, lengthNs: SECOND };
        const cut = { mode: "delimited" as const, referenceNs: START, startId: ids[n]!, endId: ids[n + 1]! };
        store.add(countedRecord({ point, ...place, packets, delayNs: 1e6, epoch: cut }));
      }
    const [flow] = ask(store, { top: 1 }, [crossing]).groups;
    expect(flow).toMatchObject({ packets: 12, lost: 0, epochs: 3 });
  });

  it("is none where the estimator has none in any epoch, whatever others know", () => {
    const store = records([
      { at: 0, packets: 100, delayNs: 90e6, lost: 1 },
      { at: 1, packets: 100, delayNs: 90e6, lost: 1 },
    ]);
    for (const at of [0, 1])
      for (const point of ["A", "B"]) {
        const place = { startNs: START + BigInt(at) * SECOND, lengthNs: SECOND };
        store.add({ ...countedRecord({ point, ...place, packets: 99 }), estimator: "robust" });
      }
    const answer = counting(ask(store, {}, [countingEstimator, robust]));
    expect(answer).toMatchObject({ latency: null, answered: { share: 0 }, borrowed: [] });
  });

  it("weighs epochs by their packets: the mean of the union, exactly", () => {
    const epochs = [3, 70, 1000, 2].map((packets, at) => ({ at, packets, delayNs: 1e6 * (at + 1) }));
    const exact = epochs.reduce((s, e) => s + e.packets * e.delayNs, 0) / 1075;
    const { estimates, groups } = ask(records(epochs), { top: 1, parameters: { counting: "width=0" } });
    expect(estimates["counting"]!.latency!.meanNs).toBeCloseTo(exact, 3);
    expect(groups[0]!.latency!.meanNs).toBeCloseTo(exact, 3);
    expect(groups[0]).toMatchObject({
      packets: 1075,
      flows: 1,
      epochs: 4,
      answered: { share: 1, epochs: 4 },
    });
  });

  it("of a flow is widened too where an epoch of the flow has no answer", () => {
    const store = records([
      { at: 0, packets: 900, delayNs: 1e6 },
      { at: 1, packets: 100, delayNs: 90e6, lost: 1 },
    ]);
    const [flow] = ask(store, { top: 1 }).groups;
    // One packet was lost, so 999 arrived.
    expect(flow).toMatchObject({ packets: 1000, answered: { packets: 900, share: 900 / 999, epochs: 1 } });
    expect(flow!.latency!.highNs).toBeGreaterThan(0.1 * 90e6);
  });
});

describe("records of several settings", () => {
  it("of two cuts are counted once, and those not used are named", () => {
    const store = records(Array.from({ length: 20 }, (_, at) => ({ at, packets: 10, delayNs: 1e6 })));
    records(
      [
        { at: 0, packets: 99, delayNs: 1e6 },
        { at: 10, packets: 99, delayNs: 1e6 },
      ].map((e) => ({ ...e, lengthNs: 10n * SECOND })),
      store,
    );
    const answer = ask(store, { top: 1 });
    expect(counting(answer)).toMatchObject({ sent: 200, received: 200, epochs: 20 });
    expect(answer.groups[0]!.packets).toBe(200);
    expect(answer.epochs.overlapping).toMatchObject([
      { estimator: "counting", cut: "aligned", epochs: 2, packets: 198 },
    ]);
    expect(answer.notes.join()).toMatch(/2 epochs with another cut or other settings cover the same time/);
    expect(answer.epochs.missing).toEqual([]);
  });

  it("of a seed that changes between epochs are one answer, for flows too", () => {
    const store = records(
      Array.from({ length: 6 }, (_, at) => ({ at, packets: 10, delayNs: 1e6, seed: at < 3 ? 1n : 2n })),
    );
    const answer = ask(store, { flows: ["udp 10.0.0.1:1000 > 10.0.0.2:53"] });
    expect(counting(answer)).toMatchObject({ sent: 60, epochs: 6 });
    expect(answer.groups).toMatchObject([{ packets: 60, epochs: 6, flows: 1 }]);
  });

  it("of a key that changes are one answer for the segment; flows are those of the key with the most packets, and the others are named", () => {
    const store = records(
      Array.from({ length: 6 }, (_, at) => ({
        at,
        packets: 10,
        delayNs: 1e6,
        ...(at === 0 ? { key: "hosts" } : {}),
      })),
    );
    const answer = ask(store, { top: 5 });
    expect(counting(answer)).toMatchObject({ sent: 60, epochs: 6 });
    expect(answer.groups.map((g) => [g.packets, g.epochs])).toEqual([[50, 5]]);
    expect(answer.notes.join()).toMatch(/flows of 1 epoch are left out: they were observed with key hosts/);
    // Under a key that both contain, all flows count.
    expect(ask(store, { group: "host" }).groups.map((g) => g.packets)).toEqual([60]);
  });

  it("with unknown versions, keys and parameters are refused by name, and the rest is answered", () => {
    const store = records([
      { at: 0, packets: 10, delayNs: 1e6 },
      { at: 1, packets: 10, delayNs: 1e6, key: "colour" },
      { at: 2, packets: 10, delayNs: 1e6, parameters: "cells=7,flavour=sweet" },
    ]);
    const answer = ask(store);
    expect(answer.epochs.refused.map((r) => r.startNs)).toEqual([
      `${START + SECOND}`,
      `${START + 2n * SECOND}`,
    ]);
    expect(answer.epochs.refused.map((r) => r.reason).join()).toMatch(/colour.*flavour/);
    expect(counting(answer).answered).toMatchObject({ packets: 10, latency: { meanNs: 1e6 } });
  });
});

describe("clocks of live points", () => {
  const clock = (id: bigint, maximumErrorNs: number, synchronised = true): ClockState => ({
    ...{ id, synchronised, discipline: synchronised ? ("ntp" as const) : null },
    ...{ estimatedErrorNs: 1000, maximumErrorNs },
  });
  const live = (a: ClockState, b: ClockState) => {
    const store = new MemoryRecords();
    for (const at of [0, 1, 2]) {
      const place = { startNs: START + BigInt(at) * SECOND, lengthNs: SECOND, packets: 100 };
      store.add({ ...countedRecord({ point: "A", ...place }), clock: a });
      store.add({ ...countedRecord({ point: "B", ...place, delayNs: 1e6 }), clock: b });
    }
    return ask(store);
  };
  const plain = counting(ask(records([0, 1, 2].map((at) => ({ at, packets: 100, delayNs: 1e6 })))));

  it("are part of the interval of the mean where they differ, however many epochs there are", () => {
    const answer = live(clock(1n, 2e6), clock(2n, 3e6));
    const { latency, answered, series, clockErrorNs } = counting(answer);
    expect(clockErrorNs).toBe(5e6);
    expect(latency?.meanNs).toBe(1e6);
    for (const [wide, narrow] of [
      [latency, plain.latency],
      [answered.latency, plain.answered.latency],
      [series[1]?.latency, plain.series[1]?.latency],
    ] as const) {
      expect(wide?.lowNs).toBe((narrow?.lowNs ?? 0) - 5e6);
      expect(wide?.highNs).toBe((narrow?.highNs ?? 0) + 5e6);
      expect(wide?.stdevHighNs).toBe(narrow?.stdevHighNs);
    }
    expect(answer.points.map((p) => p.clock?.maximumErrorNs)).toEqual([2e6, 3e6]);
    expect(answer.notes.join("\n")).toMatch(/different clocks, up to 5 ms apart \(estimated: 2 µs\)/);
  });

  it("of one machine are one clock", () => {
    const answer = live(clock(7n, 2e6, false), clock(7n, 3e6, false));
    expect(counting(answer).latency).toEqual(plain.latency);
    expect(counting(answer).clockErrorNs).toBeUndefined();
    expect(answer.notes.join("\n")).not.toMatch(/clock/);
  });

  it("that are not synchronised are named", () => {
    const { notes } = live(clock(1n, 16e9, false), clock(2n, 1e6));
    expect(notes.join("\n")).toMatch(/not synchronised: the clock of A;/);
  });

  it("of records without them change nothing", () => {
    expect(plain.clockErrorNs).toBeUndefined();
  });
});
