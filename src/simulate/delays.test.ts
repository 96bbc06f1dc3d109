import { describe, expect, it } from "vitest";
import { Kernels } from "../base/kernels.ts";
import { lgamma } from "../base/math/special.ts";
import type { DelayModel, Hop } from "./scenario.ts";
import { simulate } from "./simulate.ts";

const kernels = new Kernels();
const PACKETS = 200_000;

async function run(path: Hop[], { seed = 1, packets = PACKETS, named = false } = {}) {
  const sim = simulate(kernels, {
    seed,
    traffic: { kind: "population", ratePps: 1e6, packets, flows: 2000 },
    path,
  });
  const sent: number[] = [];
  const delays: number[] = [];
  const flows: string[] = [];
  for await (const { timeNs, delayNs, addrA, meta, count } of sim.combined())
    for (let i = 0; i < count; i++) {
      sent.push(timeNs[i]!);
      delays.push(delayNs[i]!);
      if (named) flows.push(`${addrA[2 * i]},${addrA[2 * i + 1]},${meta[2 * i]}`);
    }
  return { sent, delays, flows, sim };
}

describe("delay models", () => {
  // The share of delays below a point is binomial: with 200,000 draws, five standard deviations are at most 0.0056 (exceeded once in 10^6).
  const below: [DelayModel, at: number, share: number][] = [
    [{ kind: "weibull", scaleNs: 133_000, shape: 0.6 }, 50_000, 1 - Math.exp(-((50 / 133) ** 0.6))],
    [{ kind: "weibull", scaleNs: 133_000, shape: 0.6 }, 400_000, 1 - Math.exp(-((400 / 133) ** 0.6))],
    [{ kind: "pareto", scaleNs: 100_000, shape: 3 }, 150_000, 1 - 1.5 ** -3],
    [{ kind: "exponential", meanNs: 200_000 }, 200_000, 1 - Math.exp(-1)],
    [{ kind: "lognormal", medianNs: 50_000, sigma: 0.7 }, 50_000 * Math.exp(0.7), 0.8413447],
    [{ kind: "uniform", lowNs: 1000, highNs: 5000 }, 2000, 0.25],
  ];
  for (const [model, at, share] of below) {
    it(`${model.kind} has its distribution at ${at} ns`, async () => {
      const { delays } = await run([{ kind: "delay", model }]);
      const seen = delays.filter((d) => d <= at).length / delays.length;
      expect(Math.abs(seen - share)).toBeLessThan(0.0056);
    });
  }

  it("Weibull has its mean", async () => {
    const { delays } = await run([
      { kind: "delay", model: { kind: "weibull", scaleNs: 133_000, shape: 0.8 } },
    ]);
    const mean = 133_000 * Math.exp(lgamma(1 + 1 / 0.8));
    // The coefficient of variation is 1.26; the limit is six standard deviations.
    expect(Math.abs(delays.reduce((a, b) => a + b, 0) / delays.length / mean - 1)).toBeLessThan(0.017);
  });

  it("spaced: a packet is sent only after the one before has arrived", async () => {
    const { sent, delays } = await run([
      { kind: "delay", model: { kind: "weibull", scaleNs: 133_000, shape: 0.6, spaced: true } },
    ]);
    let early = 0;
    for (let i = 1; i < sent.length; i++) if (sent[i]! <= sent[i - 1]! + delays[i - 1]!) early++;
    expect(early).toBe(0);
  });

  it("per flow: packets of a flow share its latency, and flows differ", async () => {
    const { delays, flows } = await run([{ kind: "delay", model: { kind: "per-flow", jitter: 0 } }], {
      named: true,
    });
    const latency = new Map<string, number>();
    let differing = 0;
    delays.forEach((d, i) => {
      const known = latency.get(flows[i]!);
      if (known !== undefined && known !== d) differing++;
      latency.set(flows[i]!, d);
    });
    expect(differing).toBe(0);
    const logs = [...latency.values()].map((d) => Math.log(d / 100_000));
    const mean = logs.reduce((a, b) => a + b, 0) / logs.length;
    const deviation = Math.sqrt(logs.reduce((a, b) => a + (b - mean) ** 2, 0) / logs.length);
    // About 2,000 flows, sigma 0.75; the limit is six standard deviations.
    expect(Math.abs(mean)).toBeLessThan(0.11);
    expect(Math.abs(deviation - 0.75)).toBeLessThan(0.08);
  });

  it("jitter has mean 1 and the deviation given; two latencies are half and half", async () => {
    const { delays } = await run([
      { kind: "delay", model: { kind: "bimodal", jitter: 0.3, lowNs: 100_000, highNs: 100_000 } },
    ]);
    const mean = delays.reduce((a, b) => a + b, 0) / delays.length;
    const deviation = Math.sqrt(delays.reduce((a, b) => a + (b - mean) ** 2, 0) / delays.length);
    expect(Math.abs(mean / 100_000 - 1)).toBeLessThan(0.005);
    expect(Math.abs(deviation / mean - 0.3)).toBeLessThan(0.006);
    const two = await run([{ kind: "delay", model: { kind: "bimodal", jitter: 0 } }], { named: true });
    const modes = new Map(two.flows.map((f, i) => [f, two.delays[i]!]));
    expect(new Set(modes.values())).toEqual(new Set([100_000, 320_000]));
    const low = [...modes.values()].filter((d) => d === 100_000).length / modes.size;
    expect(Math.abs(low - 0.5)).toBeLessThan(0.06);
  });
});

describe("loss", () => {
  it("uniform loss has the configured share, at random", async () => {
    const { delays, sim } = await run([{ kind: "loss", model: "uniform", probability: 0.01 }]);
    const lost = delays.filter((d) => Number.isNaN(d)).length;
    // Binomial; six standard deviations.
    expect(Math.abs(lost / PACKETS - 0.01)).toBeLessThan(6 * Math.sqrt(0.01 / PACKETS));
    expect(sim.statistics[0]!.lost).toBe(lost);
    const pairs = delays.filter((d, i) => i > 0 && Number.isNaN(d) && Number.isNaN(delays[i - 1]!)).length;
    // 20 are expected (Poisson); six standard deviations.
    expect(Math.abs(pairs - 20)).toBeLessThan(27);
  });

  it("episodes have the configured mean length and share", async () => {
    const { delays } = await run([{ kind: "loss", model: "bursts", probability: 0.05, meanBurst: 20 }], {
      seed: 2,
      packets: 500_000,
    });
    const lost = delays.filter((d) => Number.isNaN(d)).length;
    const episodes = delays.filter(
      (d, i) => Number.isNaN(d) && !(i > 0 && Number.isNaN(delays[i - 1]!)),
    ).length;
    // 1,250 episodes of geometric length: the standard deviation is 2.8 % for the mean and about 4 % for the share. The limits are five of them (once in 10^6).
    expect(Math.abs(lost / episodes / 20 - 1)).toBeLessThan(0.14);
    expect(Math.abs(lost / delays.length / 0.05 - 1)).toBeLessThan(0.2);
  });
});

describe("reordering", () => {
  it("delays the configured share by at most the extent, and the receiver sees it", async () => {
    const path: Hop[] = [{ kind: "reorder", probability: 0.02, extentNs: 50_000 }];
    const { delays } = await run(path);
    const held = delays.filter((d) => d > 0);
    expect(Math.abs(held.length / PACKETS - 0.02)).toBeLessThan(6 * Math.sqrt(0.02 / PACKETS));
    expect(Math.max(...held)).toBeLessThanOrEqual(50_000);
    const sim = simulate(kernels, { traffic: { kind: "population", ratePps: 1e6, packets: PACKETS }, path });
    let before = -1;
    let backwards = 0;
    let late = 0;
    let sentBefore = -1;
    for await (const { timeNs, delayNs, count } of sim.at("receiver"))
      for (let i = 0; i < count; i++) {
        if (timeNs[i]! < before) backwards++;
        before = timeNs[i]!;
        const sentAt = timeNs[i]! - delayNs[i]!;
        if (sentAt < sentBefore) late++;
        sentBefore = Math.max(sentBefore, sentAt);
      }
    expect(backwards).toBe(0);
    expect(late).toBeGreaterThan(3000);
  });
});
