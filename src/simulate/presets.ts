/** Scenarios that several evaluations share, so that their results are comparable. */
import type { LossHop, PopulationTraffic, Scenario, SyntheticTraffic } from "./scenario.ts";

/** 10 s at 400 kpps: heavy-tailed flows over four OC-192 links, mean packet length 720 bytes. */
export function referenceTraffic(changes: Partial<SyntheticTraffic> = {}): SyntheticTraffic {
  return { kind: "synthetic", ratePps: 400_000, durationS: 10, ...changes };
}

/** The reference traffic through one RED queue; its drain rate follows from the utilisation. */
export function referenceQueue(
  utilisation: number,
  options: { seed?: number; traffic?: Partial<SyntheticTraffic> } = {},
): Scenario {
  return {
    seed: options.seed ?? 1,
    traffic: referenceTraffic(options.traffic),
    path: [{ kind: "queue", discipline: "red", utilisation }],
  };
}

/** The same arrivals with delays that are not correlated in time: each flow has its own lognormal delay, with 30 % jitter. */
export function independentFlows(
  options: { seed?: number; traffic?: Partial<SyntheticTraffic>; loss?: LossHop } = {},
): Scenario {
  return {
    seed: options.seed ?? 1,
    traffic: referenceTraffic(options.traffic),
    path: [{ kind: "delay", model: { kind: "per-flow" } }, ...(options.loss ? [options.loss] : [])],
  };
}

/**
 * The evaluation of LDS: about 140 k flows, 7.35 M packets at 27 kpps, each flow with a delay of 100 or 320 us. With these weights the smallest of 4 x 17,500
 * cells has an error of 4.4 / 1.4 / 0.5 / 0.08 % for flows of 100-499 / 500-999 / 1k-5k / >= 5k packets.
 */
export function twoLatencies(
  options: { seed?: number; traffic?: Partial<PopulationTraffic> } = {},
): Scenario {
  return {
    seed: options.seed ?? 1,
    traffic: {
      kind: "population",
      ratePps: 27_000,
      packets: 7_350_000,
      flows: 190_000,
      alpha: 0.7,
      weightMax: 34_000,
      ...options.traffic,
    },
    path: [{ kind: "delay", model: { kind: "bimodal" } }],
  };
}

/** The evaluation of LDA (section IV): independent Weibull delays of scale 133 us; with `spaced`, only one packet is in transit at a time. */
export function weibullDelays(
  options: { seed?: number; packets?: number; shape?: number; spaced?: boolean; loss?: LossHop } = {},
): Scenario {
  return {
    seed: options.seed ?? 1,
    traffic: { kind: "population", ratePps: 5_000_000, packets: options.packets ?? 5_000_000 },
    path: [
      {
        kind: "delay",
        model: {
          kind: "weibull",
          scaleNs: 133_000,
          shape: options.shape ?? 0.6,
          spaced: options.spaced ?? false,
        },
      },
      ...(options.loss ? [options.loss] : []),
    ],
  };
}
