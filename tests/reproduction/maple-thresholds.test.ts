/**
 * MAPLE compared with the levels of independent reference simulations: heavy-tailed traffic at 400 kpps through a RED queue at 88 %, epochs of 1 s, k = 50 and
 * 12.8 bits per packet unless stated otherwise. One trace is used for all; seeds are fixed, so nothing here fails by chance.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { Kernels } from "../../src/base/kernels.ts";
import { Random } from "../../src/base/random.ts";
import { histogramOf } from "../../src/estimators/maple/cell-table.ts";
import { type Centres, centreOf } from "../../src/estimators/maple/centres/centres.ts";
import { epochCentres } from "../../src/estimators/maple/centres/epoch-centres.ts";
import { logarithmicCentres } from "../../src/estimators/maple/centres/logarithmic.ts";
import { CentrePipeline, type Strategy } from "../../src/estimators/maple/centres/pipeline.ts";
import {
  ask,
  askAbsent,
  askAcross,
  type FilledStore,
  fill,
  groupErrors,
  type Outcome,
  subFlows,
} from "../../src/evaluate/maple-questions.ts";
import { absoluteErrors, mixedStore, PLAIN_STORE, relativeErrors } from "../../src/evaluate/maple-stores.ts";
import {
  mean,
  quantile,
  referenceTrace,
  type Trace,
  type TraceEpoch,
} from "../../src/evaluate/reference-trace.ts";
import { BITS, COMB, K, PBF, SVBF } from "../../src/evaluate/reproduce/maple-trace.ts";

/** The mixed store's bits were chosen with seed 1, so another seed is used here. HOPTIME_MAPLE_SEED sets a new one. */
const SEED = Number(process.env["HOPTIME_MAPLE_SEED"] ?? 31);
const ribbon = (codeBits: number) => ({ ...PLAIN_STORE, kind: "ribbon", codeBits }) as const;

const kernels = new Kernels();
let trace: Trace;
/** The epochs that have centres learnt two epochs before, with these centres (hybrid). */
let learnt: { epoch: TraceEpoch; centres: Centres }[];

beforeAll(async () => {
  trace = await referenceTrace(kernels, { seed: SEED, seconds: 10 });
  const pipeline = new CentrePipeline({ strategy: "hybrid", k: K, random: new Random(7) });
  learnt = [];
  for (const [i, epoch] of trace.epochs.entries()) {
    if (i >= 2) learnt.push({ epoch, centres: pipeline.current });
    pipeline.observe(epoch.delayNs);
    pipeline.endEpoch();
  }
});

function histogram(delays: Float64Array) {
  const at = kernels.alloc(8 * delays.length);
  kernels.f64.set(delays, at >>> 3);
  const found = histogramOf(kernels, at, delays.length);
  kernels.free(at);
  return found;
}

const flowErrors = (epoch: TraceEpoch, estimates: Float64Array) =>
  groupErrors(epoch, estimates, (i) => epoch.flowHash[i]!);

/** The mean of `measure` over four of the learnt epochs. */
function average(measure: (epoch: TraceEpoch, centres: Centres) => number[]): number[] {
  const rows = learnt.slice(0, 4).map(({ epoch, centres }) => measure(epoch, centres));
  return rows[0]!.map((_, j) => mean(rows.map((r) => r[j]!)));
}

function askPbf(epoch: TraceEpoch, centres: Centres): Outcome {
  const filled = fill(kernels, epoch, centres, PBF, BITS);
  const outcome = ask(kernels, filled);
  filled.free();
  return outcome;
}

function sharesOf({ delayNs }: TraceEpoch, centres: Centres): number[] {
  const shares = new Array<number>(centres.valuesNs.length).fill(0);
  for (const delay of delayNs) shares[centreOf(centres, delay)]! += 1 / delayNs.length;
  return shares;
}

describe("the paper's structures", () => {
  test("SVBF fails for 9 to 11 %, is wrong for 1 to 4 %; packets are off by 3.5 to 6 %, flows by at most 4.5 % (medians)", () => {
    const [failure, wrong, packet, flow] = average((epoch, centres) => {
      const filled = fill(kernels, epoch, centres, SVBF, BITS);
      const { failure, falseRate, estimateNs } = ask(kernels, filled);
      filled.free();
      return [
        failure,
        falseRate,
        quantile(relativeErrors(epoch, estimateNs), 0.5),
        quantile(flowErrors(epoch, estimateNs), 0.5),
      ];
    }) as [number, number, number, number];
    expect(failure).toBeGreaterThan(0.09);
    expect(failure).toBeLessThan(0.11);
    expect(wrong).toBeGreaterThan(0.01);
    expect(wrong).toBeLessThan(0.04);
    expect(packet).toBeGreaterThan(0.035);
    expect(packet).toBeLessThan(0.06);
    expect(flow).toBeLessThan(0.045);
  });

  test("larger aggregates have smaller errors: packet, flow, host, prefix, sub-flow (figure 8a)", () => {
    const { epoch, centres } = learnt[1]!;
    const filled = fill(kernels, epoch, centres, SVBF, BITS);
    const { estimateNs } = ask(kernels, filled);
    filled.free();
    const medians = [
      quantile(relativeErrors(epoch, estimateNs), 0.5),
      quantile(flowErrors(epoch, estimateNs), 0.5),
      quantile(
        groupErrors(epoch, estimateNs, (i) => epoch.source[i]!),
        0.5,
      ),
      quantile(
        groupErrors(epoch, estimateNs, (i) => epoch.source[i]! >>> 16),
        0.5,
      ),
      quantile(groupErrors(epoch, estimateNs, subFlows(epoch)), 0.5),
    ];
    const [packet, flow, host, prefix, subFlow] = medians as [number, number, number, number, number];
    expect(flow).toBeLessThan(packet);
    expect(host).toBeLessThan(flow);
    // Few prefixes: their median is that of a handful of means.
    expect(prefix).toBeLessThan(packet);
    expect(subFlow).toBeLessThan(host);
  });

  test("COMB(8, 3) in the same memory fails for half, and its packets are further off than SVBF's (figure 6)", () => {
    const { epoch, centres } = learnt[0]!;
    const [comb, svbf] = [COMB, SVBF].map((geometry) => {
      const filled = fill(kernels, epoch, centres, geometry, BITS);
      const outcome = ask(kernels, filled);
      filled.free();
      return outcome;
    }) as [ReturnType<typeof ask>, ReturnType<typeof ask>];
    expect(comb.failure).toBeGreaterThan(0.49);
    expect(comb.failure).toBeLessThan(0.51);
    expect(comb.falseRate).toBeGreaterThan(8 * svbf.falseRate);
    const p85 = (o: ReturnType<typeof ask>) => quantile(absoluteErrors(epoch, o.estimateNs), 0.85);
    expect(p85(comb)).toBeGreaterThan(3 * p85(svbf));
  });

  test("PBF, cut to shares as old as the centres, leaves out 6 % in the mean of a trace and up to what the paper's trace had, 24 %, and fails for no more than SVBF of the rest", () => {
    const found = learnt.map(({ epoch, centres }) => askPbf(epoch, centres));
    const left = mean(found.map((f) => f.leftOut));
    expect(left).toBeGreaterThan(0.06);
    expect(left).toBeLessThan(0.24);
    expect(mean(found.map((f) => f.failure))).toBeLessThan(0.11);
  });

  test("PBF by the counts of one epoch, as the paper has it, leaves out how far the two epochs are apart", () => {
    const pipeline = new CentrePipeline({ strategy: "hybrid", k: K, random: new Random(7), memory: 0 });
    const left: number[] = [];
    for (const [i, epoch] of trace.epochs.entries()) {
      if (i >= 2) {
        const centres = pipeline.current;
        const [now, then] = [epoch, trace.epochs[i - 2]!].map((e) => sharesOf(e, centres)) as [
          number[],
          number[],
        ];
        const apart = now.reduce((sum, share, j) => sum + Math.max(0, share - then[j]!), 0);
        left.push(askPbf(epoch, centres).leftOut);
        expect(Math.abs(left.at(-1)! - apart)).toBeLessThan(0.01);
      }
      pipeline.observe(epoch.delayNs);
      pipeline.endEpoch();
    }
    // An average over epochs is as good or better, by more than half a percentage point.
    const averaged = mean(learnt.map(({ epoch, centres }) => askPbf(epoch, centres).leftOut));
    expect(mean(left)).toBeGreaterThan(averaged - 0.005);
  });

  test("stale epochs asked by mistake cost little: 0, 1 and 2 of them (figure 8c)", () => {
    const three = learnt.slice(0, 3);
    const stores = three.map(({ epoch, centres }) => fill(kernels, epoch, centres, SVBF, BITS));
    const { epoch } = three.at(-1)!;
    const order = [...stores].reverse();
    const errors = [1, 2, 3].map((n) => absoluteErrors(epoch, askAcross(kernels, order.slice(0, n), epoch)));
    const p95 = errors.map((e) => quantile(e, 0.95));
    const p50 = errors.map((e) => quantile(e, 0.5));
    expect(p95).toEqual([...p95].sort((a, b) => a - b));
    expect(p50[2]! / p50[0]!).toBeLessThan(1.6);
    expect(mean(errors[2]!) / mean(errors[0]!)).toBeGreaterThan(1.3);
    for (const s of stores) s.free();
  });
});

describe("centres", () => {
  const cost = (centres: Centres, { delayNs }: TraceEpoch) =>
    delayNs.reduce((sum, d) => sum + Math.abs(d - centres.valuesNs[centreOf(centres, d)]!), 0) /
    delayNs.length;

  test("where traffic is steady, learnt centres are better than fixed ones, and the oracle is best (figure 5a)", () => {
    // Stationary: the same delays three times, learnt from every other packet and evaluated on the rest.
    const half = (epoch: TraceEpoch, rest: 0 | 1) => epoch.delayNs.filter((_, i) => i % 2 === rest);
    const some = trace.epochs
      .slice(0, 4)
      .map((e) => ({ seen: half(e, 0), judged: { ...e, delayNs: half(e, 1) } }));
    const errorOf = (strategy: Strategy) =>
      mean(
        some.map(({ seen, judged }) => {
          const pipeline = new CentrePipeline({ strategy, k: K, random: new Random(3) });
          for (let i = 0; i < 3; i++) {
            pipeline.observe(seen);
            pipeline.endEpoch();
          }
          return cost(pipeline.current, judged);
        }),
      );
    const [log, hybrid, kmedians] = [errorOf("log"), errorOf("hybrid"), errorOf("kmedians")];
    const oracle = mean(
      some.map(({ judged }) =>
        cost(epochCentres(histogram(judged.delayNs), K, { scale: "absolute" }), judged),
      ),
    );
    expect(oracle).toBeLessThan(kmedians);
    expect(kmedians).toBeLessThan(hybrid);
    expect(hybrid).toBeLessThan(log);
  });

  test("a congestion that was not there two epochs before: k-medians alone fail, hybrid does as log, the oracle is best", async () => {
    const quiet = await referenceTrace(kernels, { seed: 4, seconds: 2, utilisation: 0.55 });
    const congested = trace.epochs.reduce((a, b) => (mean(b.delayNs) > mean(a.delayNs) ? b : a));
    const errorOf = (strategy: Strategy) => {
      const pipeline = new CentrePipeline({ strategy, k: K, random: new Random(3) });
      for (const epoch of quiet.epochs) {
        pipeline.observe(epoch.delayNs);
        pipeline.endEpoch();
      }
      return cost(pipeline.current, congested);
    };
    const [log, hybrid, kmedians] = [errorOf("log"), errorOf("hybrid"), errorOf("kmedians")];
    const oracle = cost(epochCentres(histogram(congested.delayNs), K, { scale: "absolute" }), congested);
    expect(oracle).toBeLessThan(0.5 * log);
    expect(hybrid).toBeLessThan(2.5 * log);
    expect(kmedians).toBeGreaterThan(4 * log);
    expect(kmedians).toBeGreaterThan(2 * hybrid);
  });

  test("a centre in the middle of its sub-range is better than one at its start", () => {
    const { epoch } = learnt[0]!;
    const middle = logarithmicCentres(K);
    const start = {
      ...middle,
      valuesNs: middle.valuesNs.map((v) => v - 0.45 * 10 ** Math.floor(Math.log10(v))),
    };
    expect(cost(middle, epoch)).toBeLessThan(0.75 * cost(start, epoch));
  });
});

describe("the ribbon", () => {
  function run(
    k: number,
    r: number,
    sizeAware = false,
    epoch: TraceEpoch = learnt[1]!.epoch,
  ): { filled: FilledStore; estimateNs: Float64Array; epoch: TraceEpoch } {
    const own = epoch.wireLength;
    const transmission = Float64Array.from(own, (l) => Math.round((8e9 * l) / trace.rateBps));
    const stored = sizeAware ? epoch.delayNs.map((d, i) => d - transmission[i]!) : epoch.delayNs;
    const centres = epochCentres(histogram(stored), k, { scale: "log", s0Ns: 200 });
    const filled = fill(kernels, epoch, centres, ribbon(r), 0, stored);
    const outcome = ask(kernels, filled);
    expect([outcome.failure, outcome.falseRate]).toEqual([0, 0]);
    const estimateNs = sizeAware
      ? outcome.estimateNs.map((x, i) => x + transmission[i]!)
      : outcome.estimateNs;
    return { filled, estimateNs, epoch };
  }

  test.each([
    [64, 6, 0.03],
    [50, 9, 0.04],
    [400, 12, 0.006],
  ])(
    "k = %i in %i bits: at most 1.04 r bits, never wrong, absent packets answered k / 2^r, packets off by at most %d (median)",
    (k, r, limit) => {
      const { filled, estimateNs, epoch } = run(k, r);
      expect(filled.store.bits / epoch.count).toBeLessThan(1.04 * r);
      expect(quantile(relativeErrors(epoch, estimateNs), 0.5)).toBeLessThan(limit);
      const falsePositives = trace.epochs[0]!.digest;
      expect(Math.abs(askAbsent(kernels, filled, falsePositives) - k / 2 ** r)).toBeLessThan(0.005);
      filled.free();
    },
  );

  const judge = (epoch: TraceEpoch, estimateNs: Float64Array) => {
    const errors = relativeErrors(epoch, estimateNs);
    return {
      median: quantile(errors, 0.5),
      p90: quantile(errors, 0.9),
      mean: mean(errors),
      flow: quantile(flowErrors(epoch, estimateNs), 0.5),
      absolute: mean(absoluteErrors(epoch, estimateNs)),
    };
  };
  const judgeSvbf = (epoch: TraceEpoch, centres: Centres) => {
    const filled = fill(kernels, epoch, centres, SVBF, BITS);
    expect(filled.store.bits / epoch.count).toBeGreaterThan(12.79);
    const { estimateNs } = ask(kernels, filled);
    filled.free();
    return judge(epoch, estimateNs);
  };
  const judgeMixed = (epoch: TraceEpoch, rateBps: number) => {
    const { filled, estimateNs } = mixedStore(kernels, epoch, rateBps);
    expect(filled.store.bits / epoch.count).toBeLessThan(5.2);
    const { failure, falseRate } = ask(kernels, filled);
    filled.free();
    expect([failure, falseRate]).toEqual([0, 0]);
    return judge(epoch, estimateNs);
  };

  test("5.2 bit/packet have smaller errors than SVBF at 12.8 on the same packets in the mean over four epochs, the median at least as small within 5 %", () => {
    const svbf = average((epoch, centres) => Object.values(judgeSvbf(epoch, centres)));
    const ours = average((epoch) => {
      const { filled, estimateNs } = run(32, 5, true, epoch);
      expect(filled.store.bits / epoch.count).toBeLessThan(5.2);
      filled.free();
      return Object.values(judge(epoch, estimateNs));
    });
    // Median, p90, mean and absolute error of packets, and median of flows.
    ours.forEach((error, i) => {
      expect(error / svbf[i]!, `measure ${i}`).toBeLessThan(i === 0 || i === 3 ? 1.05 : 1);
    });
  });

  test("mixed ribbons of 5.2 bit/packet have a lower median, p90 and mean error than SVBF at 12.8 in most single epochs, and in the mean", () => {
    const four = learnt.slice(0, 4).map(({ epoch, centres }) => ({
      ours: judgeMixed(epoch, trace.rateBps),
      svbf: judgeSvbf(epoch, centres),
    }));
    for (const what of ["median", "p90", "mean", "flow", "absolute"] as const) {
      const ratios = four.map(({ ours, svbf }) => ours[what] / svbf[what]);
      if (process.env["HOPTIME_MAPLE_SEED"])
        console.log(`seed ${SEED}, ${what}: ${ratios.map((r) => r.toFixed(2)).join(" ")}`);
      expect(mean(ratios), what).toBeLessThan(1);
      expect(ratios.filter((r) => r < 1).length, what).toBeGreaterThanOrEqual(3);
    }
  });
});

test("MAPLE with true delays is far better than interpolation; MAPLE over interpolation is hardly worse than it (figure 9)", () => {
  const { epoch } = learnt[1]!;
  // One packet in 300 is a reference with known delay; the others are interpolated between the references around them.
  const every = 300;
  const interpolated = Float64Array.from({ length: epoch.count }, (_, i) => {
    const left = Math.floor(i / every) * every;
    const right = Math.min(epoch.count - 1, left + every);
    const share = right === left ? 0 : (i - left) / (right - left);
    return Math.round(epoch.delayNs[left]! * (1 - share) + epoch.delayNs[right]! * share);
  });
  const stored = (delays: Float64Array) => {
    const centres = epochCentres(histogram(delays), 64, { scale: "log", s0Ns: 200 });
    const filled = fill(kernels, epoch, centres, ribbon(6), 0, delays);
    const { estimateNs } = ask(kernels, filled);
    filled.free();
    return quantile(flowErrors(epoch, estimateNs), 0.5);
  };
  const [maple, rli, both] = [
    stored(epoch.delayNs),
    quantile(flowErrors(epoch, interpolated), 0.5),
    stored(interpolated),
  ];
  expect(maple).toBeLessThan(rli / 5);
  expect(both).toBeLessThan(1.1 * rli);
  expect(both).toBeGreaterThan(0.95 * rli);
});
