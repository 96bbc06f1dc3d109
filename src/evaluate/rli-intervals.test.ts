/**
 * Coverage and width of RLI's 95 % intervals of flow means, over several seeds (HOPTIME_FULL=1; otherwise the first of them). Seeds are fixed, so these tests
 * do not fail by chance. Flows of a trace share their queue and have correlated errors: with other seeds the share changes by about one percentage point
 * (bench/rli.ts prints it for any).
 */
import { describe, expect, test } from "vitest";
import { FULL } from "../../tests/support/rounds.ts";
import { Kernels } from "../base/kernels.ts";
import { parseParameters } from "../estimators/parameters.ts";
import { rli } from "../estimators/rli/rli.ts";
import { RECEIVER, type Scenario } from "../simulate/scenario.ts";
import { simulate } from "../simulate/simulate.ts";
import { flowErrors } from "./flow-errors.ts";
import { rliContestants, rliScenario, runRli, SCHEMES, withReferences } from "./rli-experiment.ts";
import { runSegment } from "./run-segment.ts";

const seedsOf = (...seeds: number[]) => (FULL ? seeds : seeds.slice(0, 1));
const TEN_AND_MORE = [{ from: 10, to: null }];
const BACKLOG = { more: ",line=backlog" };

describe.each([
  { utilisation: 0.55, widest: 0.95 },
  { utilisation: 0.7, widest: 1.15 },
  { utilisation: 0.88, widest: 1 },
])("at a utilisation of $utilisation", ({ utilisation, widest }) => {
  test("the truth lies inside as often as stated, and the interval is no wider than needed", async () => {
    let [flows, inside] = [0, 0];
    const seeds = seedsOf(1, 2, 3);
    for (const seed of seeds) {
      const setting = { utilisation, seed, traffic: { durationS: 0.4 } };
      const run = await runRli(new Kernels(), setting, SCHEMES.adaptive);
      const [all] = flowErrors(run.truth, run.entries[0]!.answer.flows, TEN_AND_MORE);
      flows += all!.answered;
      inside += all!.answered * all!.withinInterval!;
      expect(all!.medianWidth).toBeLessThan(widest);
    }
    expect(flows).toBeGreaterThan(1000 * seeds.length);
    expect(inside / flows).toBeGreaterThan(0.94);
    expect(inside / flows).toBeLessThan(0.995);
  });

  test("at 80 % confidence fewer lie inside than at 99 %", async () => {
    const setting = { utilisation, traffic: { durationS: 0.3 } };
    const shares: number[] = [];
    for (const confidence of [0.8, 0.99]) {
      const run = await runRli(new Kernels(), setting, SCHEMES.adaptive, [], { confidence });
      shares.push(flowErrors(run.truth, run.entries[0]!.answer.flows, TEN_AND_MORE)[0]!.withinInterval!);
    }
    expect(shares[0]).toBeGreaterThan(0.75);
    expect(shares[0]).toBeLessThan(0.97);
    expect(shares[1]).toBeGreaterThan(0.97);
  });
});

/**
 * References sent by time, one per 780 us, meet packets in transmission that packets of one link never meet, and miss queues that are empty again before the
 * next reference. Without the backlog, the coverage of flows of 100 packets at 20 % over one link was 83 %. Other seeds changed the shares by less than two
 * percentage points: a false alarm is rarer than 1 in 1,000.
 */
describe.each([
  { utilisation: 0.05, widest: 0.2 },
  { utilisation: 0.1, widest: 0.4 },
  { utilisation: 0.2, widest: 0.8 },
  { utilisation: 0.3, widest: 1.1 },
  { utilisation: 0.55, widest: 2.2 },
  { utilisation: 0.88, widest: 1.3 },
])("references by time at a utilisation of $utilisation", ({ utilisation, widest }) => {
  test.each([1, 4])(
    "over %i links the truth lies inside as often as is said",
    {
      timeout: 240_000,
    },
    async (inputs) => {
      const classes = [
        { from: 10, to: 99 },
        { from: 100, to: null },
      ];
      const sums = classes.map(() => ({ flows: 0, inside: 0 }));
      for (const seed of seedsOf(31, 32)) {
        const setting = { utilisation, seed, traffic: { durationS: 0.3, inputs } };
        const run = await runRli(new Kernels(), setting, SCHEMES["780 us"], [], BACKLOG);
        const found = flowErrors(run.truth, run.entries[0]!.answer.flows, classes);
        for (const [i, { answered, withinInterval, medianWidth }] of found.entries()) {
          sums[i]!.flows += answered;
          sums[i]!.inside += answered * withinInterval!;
          expect(medianWidth).toBeLessThan(widest);
        }
      }
      for (const { flows, inside } of sums) expect(inside / flows).toBeGreaterThan(0.93);
    },
  );
});

/**
 * With dense references little is interpolated; the remaining error is when in a busy gap a packet was sent, and what repeats from gap to gap. Constants were
 * chosen with seeds 41 to 43; the seeds here are different. Flows share their queue: the share of the 200 or so large ones changes by two percentage points
 * from seed to seed.
 */
describe.each([0.3, 0.7, 0.88, 0.95])(
  "one reference in ten packets at a utilisation of %d",
  (utilisation) => {
    test("the truth lies inside as often as stated", async () => {
      const classes = [
        { from: 1, to: 9 },
        { from: 10, to: 99 },
        { from: 100, to: null },
      ];
      const sums = classes.map(() => ({ flows: 0, inside: 0 }));
      for (const seed of [51, 52]) {
        const setting = { utilisation, seed, traffic: { durationS: 0.2 } };
        const run = await runRli(new Kernels(), setting, { kind: "packets", every: 10 });
        const found = flowErrors(run.truth, run.entries[0]?.answer.flows ?? [], classes);
        for (const [i, { answered, withinInterval }] of found.entries()) {
          const sum = sums[i] ?? { flows: 0, inside: 0 };
          sum.flows += answered;
          sum.inside += answered * (withinInterval ?? 0);
        }
      }
      const [small = 0, middle = 0, large = 0] = sums.map((s) => s.inside / s.flows);
      // Measured with other seeds (71 to 74, 4 x 57,000 flows): 93.7 to 95.7, 94.1 to 97.2 and 93.5 to 99.8 %. Flows of a run are not independent: with two
      // seeds the share varies by one percentage point.
      expect(small).toBeGreaterThan(0.93);
      expect(middle).toBeGreaterThan(0.925);
      expect(large).toBeGreaterThan(0.92);
    });
  },
);

test("a queue that other traffic shares is recognised, and its intervals hold", async () => {
  // Four times as much cross traffic leaves behind the queue, so references wait for packets that are not observed.
  for (const utilisation of [0.1, 0.3]) {
    let [flows, inside] = [0, 0];
    for (const seed of [31, 32]) {
      const kernels = new Kernels();
      const traffic = { kind: "synthetic", durationS: 4, inputs: 4 } as const;
      const cross = { ...traffic, ratePps: 16_000 };
      const hop = { kind: "queue", discipline: "red", utilisation, cross } as const;
      const scenario: Scenario = { seed, traffic: { ...traffic, ratePps: 4_000 }, path: [hop] };
      const injected = withReferences(scenario, { kind: "time", everyNs: 5_003_177 }, 0);
      const simulation = simulate(kernels, injected.scenario);
      for await (const _ of simulation.at(RECEIVER));
      const drainBps = simulation.statistics[0]!.rateBps!;
      const run = await runSegment(
        kernels,
        injected.scenario,
        rliContestants(drainBps, BACKLOG.more).slice(0, 1),
      );
      const [all] = flowErrors(run.truth, run.entries[0]!.answer.flows, TEN_AND_MORE);
      flows += all!.answered;
      inside += all!.answered * all!.withinInterval!;
    }
    expect(flows).toBeGreaterThan(300);
    // 400 flows that share their queue: three standard deviations of a few hundred flows are 4 percentage points below 94 %.
    expect(inside / flows).toBeGreaterThan(0.9);
  }
});

test("without a known drain rate a note says that the interval lacks it", async () => {
  // Without the drain rate, the transmission time of packets is unknown; busy gaps show how much it may add.
  const kernels = new Kernels();
  const { scenario, drainBps } = await rliScenario(kernels, {
    utilisation: 0.7,
    traffic: { durationS: 0.3 },
  });
  const injected = withReferences(scenario, SCHEMES.adaptive, drainBps);
  const run = await runSegment(kernels, injected.scenario, [
    { estimator: rli, parameters: parseParameters(rli, "max=2000000") },
  ]);
  const { answer } = run.entries[0]!;
  expect(answer.segment!.notes.join()).toMatch(/give that as drain/);
  expect(flowErrors(run.truth, answer.flows, TEN_AND_MORE)[0]!.withinInterval).toBeGreaterThan(0.94);
});
