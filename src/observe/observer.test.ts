import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { countingEstimator, decodeCells } from "../../tests/support/counting-estimator.ts";
import { makeBatch, type Row } from "../../tests/support/small-batch.ts";
import { UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { FLAG } from "../capture/batch.ts";
import type { CaptureTotals } from "../capture/source/source.ts";
import { checkCompatible } from "../epoch/compatible.ts";
import { mergeRecords, sealed } from "../epoch/merge.ts";
import { type EpochRecord, encodeRecord } from "../epoch/record.ts";
import type { Estimator } from "../estimators/estimator.ts";
import { parseParameters } from "../estimators/parameters.ts";
import { type ObserverOptions, PointObserver } from "./observer.ts";

const kernels = new Kernels();
const ORIGIN = 1_700_000_000_250_000_000n;

/** An observer at point A with an estimator that counts. */
function counting(records: EpochRecord[], options: Partial<ObserverOptions> = {}): PointObserver {
  return new PointObserver({
    kernels,
    point: "A",
    role: "sender",
    taps: [{ estimator: countingEstimator, parameters: parseParameters(countingEstimator) }],
    cut: { mode: "aligned", lengthNs: 1_000_000_000n },
    seed: 1n,
    key: "5tuple",
    cover: 64,
    onRecord: (record) => records.push(record),
    ...options,
  });
}

function observe(
  rows: readonly Row[][],
  options: Partial<ObserverOptions> = {},
  origins: bigint[] = [],
): EpochRecord[] {
  const records: EpochRecord[] = [];
  const observer = counting(records, options);
  rows.forEach((part, i) => {
    const batch = makeBatch(kernels, part);
    const before = batch.timeNs.slice();
    observer.feed(batch, origins[i] ?? ORIGIN);
    expect(batch.timeNs).toEqual(before);
    batch.free();
  });
  observer.finish();
  observer.free();
  return records;
}

const times = fc
  .array(fc.record({ step: fc.nat(400_000_000), flow: fc.integer({ min: 1, max: 4 }) }), {
    minLength: 2,
    maxLength: 50,
  })
  .map((list) => {
    let timeNs = 0;
    return list.map(({ step, flow }) => ({ timeNs: (timeNs += step), flow }));
  });

describe("observing a point", () => {
  it("seals sums that count from the epoch's start", () => {
    const rows = [0, 700e6, 800e6, 1.75e9].map((timeNs) => ({ timeNs }));
    const records = observe([rows]);
    // The origin is 0.25 s into its second.
    expect(records.map((r) => [...decodeCells(sealed(r)).values()].map((c) => [c.packets, c.sum]))).toEqual([
      [[2, 250_000_000n + 950_000_000n]],
      [[1, 50_000_000n]],
      [[1, 0n]],
    ]);
    expect(records[1]!.epoch).toMatchObject({
      startNs: 1_700_000_001_000_000_000n,
      cutHead: false,
      cutTail: false,
    });
  });

  it("gives the same bytes however the rows come in batches, and whatever their captures' origins", () => {
    fc.assert(
      fc.property(times, fc.nat(), fc.bigInt({ min: -(10n ** 12n), max: 10n ** 12n }), (rows, at, shift) => {
        const split = 1 + (at % (rows.length - 1));
        const moved = rows.slice(split).map((r) => ({ ...r, timeNs: r.timeNs - Number(shift) }));
        const bytes = (records: EpochRecord[]) =>
          records.map((r) =>
            Buffer.from(encodeRecord({ ...r, counters: { ...r.counters, frames: 0 } })).toString("hex"),
          );
        expect(bytes(observe([rows.slice(0, split), moved], {}, [ORIGIN, ORIGIN + shift]))).toEqual(
          bytes(observe([rows])),
        );
      }),
      { numRuns: 100, seed: 31 },
    );
  });

  it("gives the same records from several taps after merging", () => {
    fc.assert(
      fc.property(times, (rows) => {
        const whole = new Map(observe([rows]).map((r) => [r.epoch.startNs, r]));
        const merged = new Map<bigint, EpochRecord>();
        for (const half of [0, 1]) {
          const part = rows.filter((_, i) => i % 2 === half);
          for (const record of observe([part])) {
            const other = merged.get(record.epoch.startNs);
            merged.set(record.epoch.startNs, other ? mergeRecords(other, record, countingEstimator) : record);
          }
        }
        for (const [start, record] of merged) {
          expect(record.payload).toEqual(whole.get(start)!.payload);
          expect(record.counters.packets).toBe(whole.get(start)!.counters.packets);
        }
      }),
      { numRuns: 50, seed: 32 },
    );
  });

  it("merges delimited neighbours into what an end without the delimiter has sealed", () => {
    const cut = { mode: "delimited", every: 16 } as const;
    const rows: Row[] = Array.from({ length: 40 }, (_, i) => ({
      timeNs: i * 4e9,
      flow: i % 3,
      digest: [i === 10 || i === 20 || i === 30 ? 5 : 0xffff_0000, i],
    }));
    const all = observe([rows], { cut });
    expect(all.map((r) => r.counters.packets)).toEqual([10, 10, 10, 10]);
    const without = observe([rows.map((r, i) => (i === 20 ? { ...r, digest: [0xffff_0000, 1] } : r))], {
      cut,
    });
    const merged = mergeRecords(all[1]!, all[2]!, countingEstimator);
    // Far apart: the two count from different instants, so one must be shifted.
    expect(all[1]!.epoch.referenceNs).not.toBe(all[2]!.epoch.referenceNs);
    expect(merged.payload).toEqual(without[1]!.payload);
    expect(() => checkCompatible(merged, without[1]!)).not.toThrow();
  });

  it("counts what was cut short, timestamped backwards, skipped and dropped, per epoch", () => {
    const records: EpochRecord[] = [];
    const observer = counting(records, { role: "both" });
    const first = makeBatch(kernels, [{ timeNs: 0, flags: FLAG.short }, { timeNs: 0.1e9 }]);
    let totals: CaptureTotals = { frames: 5, skipped: { notIp: 3 }, dropped: 2 };
    observer.feed(first, ORIGIN, () => totals);
    const second = makeBatch(kernels, [{ timeNs: 0.9e9 }, { timeNs: 0.2e9 }]);
    totals = { frames: 9, skipped: { notIp: 4, badIp: 1 }, dropped: 2 };
    observer.feed(second, ORIGIN, () => totals);
    totals = { frames: 10, skipped: { notIp: 5, badIp: 1 }, dropped: 7 };
    observer.finish();
    expect(records.map((r) => r.counters)).toEqual([
      { frames: 9, packets: 2, short: 1, backward: 0, skipped: { notIp: 4, badIp: 1 }, dropped: 2 },
      { frames: 1, packets: 2, short: 0, backward: 1, skipped: { notIp: 1 }, dropped: 5 },
    ]);
    expect(records[0]!.role).toBe("none");
  });

  it("keeps a tap per role only where the roles differ, and none where a role keeps nothing", () => {
    const plan = (change: Partial<Estimator>) => [
      { estimator: { ...countingEstimator, ...change }, parameters: parseParameters(countingEstimator) },
    ];
    const rows = [[{ timeNs: 0 }]];
    const roles = (change: Partial<Estimator>, role: ObserverOptions["role"]) =>
      observe(rows, { taps: plan(change), role }).map((r) => r.role);
    expect(roles({}, "both")).toEqual(["none"]);
    expect(roles({ roleMatters: true }, "both")).toEqual(["sender", "receiver"]);
    const receiverOnly = { needs: { sender: false, delays: false, flows: "none" as const } };
    expect(roles(receiverOnly, "both")).toEqual(["receiver"]);
    expect(() => roles(receiverOnly, "sender")).toThrow(UsageError);
    expect(() =>
      roles({ needs: { sender: false, delays: true, flows: "none" as const } }, "receiver"),
    ).toThrow(/needs the delay/);
  });

  it("refuses names that cannot be folders, or would be taken for something else", () => {
    for (const point of ["", " a", "a\n", "x".repeat(65), "-x", "archive.json", "Archive.JSON"])
      expect(() => observe([], { point })).toThrow(UsageError);
  });

  it("names the estimator and what to lower where the kernels' memory is used up, and frees what it had", () => {
    const freed: string[] = [];
    const taps = (name: string, change: Partial<Estimator>) => ({
      estimator: { ...countingEstimator, name, ...change },
      parameters: parseParameters(countingEstimator),
    });
    const trap = () => void kernels.call.alloc(2 ** 30);
    const good = taps("good", {
      createTap: (context, parameters) => {
        const tap = countingEstimator.createTap(context, parameters);
        return {
          ...tap,
          begin: () => {},
          update: () => {},
          seal: () => tap.seal(),
          free: () => void freed.push("good"),
        };
      },
    });
    const greedy = taps("greedy", {
      createTap: () => {
        trap();
        throw new Error("not reached");
      },
    });
    expect(() => observe([[{ timeNs: 0 }]], { taps: [good, greedy] })).toThrow(
      /exhausted: greedy \(cells=7\) does not fit; held: good/,
    );
    expect(freed).toEqual(["good"]);
    const growing = taps("growing", {
      createTap: (context, parameters) => ({
        ...countingEstimator.createTap(context, parameters),
        begin: () => {},
        update: trap,
      }),
    });
    const failure = (() => {
      try {
        observe([[{ timeNs: 0 }]], { taps: [growing] });
      } catch (error) {
        return error as UsageError;
      }
      return null;
    })();
    expect(failure?.message).toMatch(/exhausted: growing \(cells=7\) needs more within an epoch/);
    expect(failure?.hint).toBe("shorten the epoch, or lower the parameters of growing");
  });
});
