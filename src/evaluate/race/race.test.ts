import { describe, expect, it } from "vitest";
import { Kernels } from "../../base/kernels.ts";
import type { Estimator } from "../../estimators/estimator.ts";
import { globalMean } from "../../estimators/lab/global-mean/global-mean.ts";
import { lda } from "../../estimators/lda/lda.ts";
import { lds } from "../../estimators/lds/lds.ts";
import { maple } from "../../estimators/maple/maple.ts";
import { rli } from "../../estimators/rli/rli.ts";
import { independentFlows, referenceQueue } from "../../simulate/presets.ts";
import type { Budget } from "./budget.ts";
import { clockErrorAt, parseClockError, withoutClocks } from "./clock-error.ts";
import { errorAgain, racing, runRace } from "./race.ts";
import { simulatedSegment } from "./simulated.ts";

const scenario = independentFlows({ seed: 3, traffic: { durationS: 0.05 } });
const kernels = new Kernels();
const run = (
  budget: Budget | null,
  estimators: readonly Estimator[] = racing(),
  given = scenario,
  clock?: string,
) =>
  runRace(
    simulatedSegment(kernels, "test", given, {
      ...{ estimators, injectEvery: 50 },
      ...(clock === undefined ? {} : { clock: parseClockError(clock) }),
    }),
    { budget, estimators },
  );

describe("the error of another time", () => {
  it("is at most the largest of few errors, or half their intervals where those are wider", () => {
    expect(errorAgain([0.01, 0.02, 0.03], [0.01, 0.02, 0.03])).toEqual({ low: 0.01, high: 0.03 });
    expect(errorAgain([0.01, 0.02, 0.03], [0.1, 0.2, 0.3])).toEqual({ low: 0.01, high: 0.1 });
    expect(errorAgain([], [])).toBeNull();
    const many = Array.from({ length: 20 }, (_, i) => 0.01 * (i + 1));
    expect(
      errorAgain(
        many,
        many.map(() => 9),
      )?.high,
    ).toBeLessThanOrEqual(0.2);
  });
});

describe("runRace", () => {
  it("runs every estimator of the table that answers anything, within the memory that was asked for", async () => {
    const { rows } = await run({ kind: "memory", bytes: 65_536 });
    expect(rows.map((r) => r.estimator)).toEqual(racing().map((e) => e.name));
    for (const row of rows) {
      expect(row.fits, row.estimator).toBe(row.memoryBytes <= 1.1 * 65_536);
      expect(row.cpuNsPerPacket).toBeGreaterThanOrEqual(0);
    }
    expect(rows.filter((r) => r.fits).map((r) => r.estimator)).toEqual(
      expect.arrayContaining(["lda", "lds", "colate", "maple"]),
    );
    const of = (name: string) => rows.find((r) => r.estimator === name);
    // Each flow has its own latency, so a sketch of flows beats the mean of all.
    expect(of("lds")?.classes[2]?.median ?? 1).toBeLessThan(
      0.3 * (of("global-mean")?.classes[2]?.median ?? 0),
    );
    // A packet store answers for flows through lookups of their packets.
    expect(of("maple")?.byPackets).toBe(true);
    expect(of("maple")?.classes[2]?.median ?? 1).toBeLessThan(
      0.5 * (of("global-mean")?.classes[2]?.median ?? 0),
    );
    expect(of("lda")?.meanForAll?.[2]?.median).toBeGreaterThan(0.1);
  });

  it("makes bits per packet equal, as measured", async () => {
    for (const kind of ["wire", "stored"] as const) {
      const estimators = [lds, maple, rli] as Estimator[];
      const { rows } = await run({ kind, bitsPerPacket: 16, list: false }, estimators);
      for (const row of rows.filter((r) => r.fits))
        expect(row[`${kind}Bits`], `${kind} ${row.estimator}`).toBeLessThanOrEqual(1.1 * 16);
      expect(rows[0]?.fits).toBe(true);
      expect(rows[0]?.[`${kind}Bits`]).toBeGreaterThan(0.5 * 16);
      const references = rows[2];
      expect(references?.wireBits).toBeCloseTo((references?.storedBits ?? 0) + (8 * 64) / 50, 0);
    }
  });

  it("counts no packet of our own in what the others estimate", async () => {
    const queue = referenceQueue(0.7, { seed: 3, traffic: { durationS: 0.05 } });
    const { rows } = await run(null, [globalMean, rli] as Estimator[], queue);
    expect(rows[0]?.segmentError).toBeLessThan(1e-9);
    const alone = await run(null, [globalMean] as Estimator[], queue);
    expect(alone.packets).toBe((await run(null, [globalMean, rli] as Estimator[], queue)).packets);
  });

  it("takes an estimator that nobody here knows", async () => {
    const own = { ...globalMean, name: "newcomer" } as Estimator;
    const { rows } = await run(null, [own]);
    expect(rows.map((r) => r.estimator)).toEqual(["newcomer"]);
    expect(rows[0]?.segmentError).toBeLessThan(1e-9);
  });

  it("has the clock's error in all answers, and not in the truth", async () => {
    const exact = await run(null, [globalMean, lda] as Estimator[]);
    const off = await run(null, [globalMean, lda] as Estimator[], scenario, "offset=10us");
    expect(off.meanNs).toBe(exact.meanNs);
    for (const [i, row] of off.rows.entries()) {
      const before = (exact.rows[i]?.segmentError ?? 1) * exact.meanNs;
      expect(Math.abs((row.segmentError ?? 0) * exact.meanNs - 10_000)).toBeLessThanOrEqual(before + 1);
    }
  });
});

describe("a clock's error", () => {
  it("is an offset, a skew and a slow wave", () => {
    const error = parseClockError("offset=-2us,skew=5,wander=1us,period=4s");
    expect(clockErrorAt(error, 0)).toBe(-2000);
    expect(clockErrorAt(error, 1e9)).toBe(-2000 + 5000 + 1000);
    expect(clockErrorAt(error, 3e9)).toBe(-2000 + 15_000 - 1000);
    for (const wrong of ["offset", "skew=x", "drift=1", "period=0s"])
      expect(() => parseClockError(wrong), wrong).toThrow();
  });

  it("of a scenario is that of its two clocks", () => {
    const clocks = { sender: { offsetNs: 100, skewPpm: 1 }, receiver: { offsetNs: 350 } };
    const { error, scenario: plain } = withoutClocks({ ...scenario, clocks });
    expect(error).toMatchObject({ offsetNs: 250, skewPpm: -1 });
    expect(plain.clocks).toBeUndefined();
  });
});
