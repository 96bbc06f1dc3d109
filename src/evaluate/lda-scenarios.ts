/** The LDA paper's synthetic setting (section IV): a full OC-192 link, Weibull delays with a mean of 0.2 µs, loss in bursts. */
import { lgamma } from "../base/math/special.ts";
import type { Scenario } from "../simulate/scenario.ts";

export const WEIBULL_SHAPE = 0.6;
const MEAN_DELAY_NS = 200;
/** Packets lost in one episode, on average. */
const BURST = 100;

export interface WeibullSetting {
  packets: number;
  loss: number;
  seed: number;
  /** 200 in the paper; use more if rounding to whole ns matters. */
  meanDelayNs?: number;
}

export function weibullScenario({ packets, loss, seed, meanDelayNs }: WeibullSetting): Scenario {
  const scaleNs = (meanDelayNs ?? MEAN_DELAY_NS) / Math.exp(lgamma(1 + 1 / WEIBULL_SHAPE));
  return {
    seed,
    traffic: { kind: "population", ratePps: 5e6, packets, flows: 1000 },
    path: [
      { kind: "delay", model: { kind: "weibull", scaleNs, shape: WEIBULL_SHAPE, spaced: true } },
      ...(loss > 0 ? [{ kind: "loss", model: "bursts", probability: loss, meanBurst: BURST } as const] : []),
    ],
  };
}
