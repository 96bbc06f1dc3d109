/** Random delays (drawn from a distribution instead of a queue), loss and reordering. */
import { UsageError } from "../base/errors.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { writeFields } from "./keys.ts";
import type { DelayModel, LossHop } from "./scenario.ts";
import { BLANK, type Stage, type StageContext } from "./stage.ts";

const DELAY_KIND = { constant: 0, weibull: 1, pareto: 2, exponential: 3, lognormal: 4, uniform: 5 } as const;

function delayParameters(m: DelayModel): [number, number] {
  switch (m.kind) {
    case "constant":
      return [m.ns, 0];
    case "weibull":
    case "pareto":
      return [m.scaleNs, m.shape];
    case "exponential":
      return [m.meanNs, 0];
    case "lognormal":
      return [m.medianNs, m.sigma];
    case "uniform":
      return [m.lowNs, m.highNs];
    case "per-flow":
      return [m.medianNs ?? 100_000, m.sigma ?? 0.75];
    case "bimodal":
      return [m.lowNs ?? 100_000, m.highNs ?? 320_000];
  }
}

/** Returns what is wrong with a model's parameters in combination; null if nothing is. */
export function delayFault(model: DelayModel): string | null {
  return model.kind === "uniform" && model.highNs < model.lowNs ? "highNs is below lowNs" : null;
}

/** Returns the order of magnitude of a model's mean delay. */
export function typicalDelayNs(model: DelayModel): number {
  const [a, b] = delayParameters(model);
  return model.kind === "uniform" || model.kind === "bimodal" ? Math.max(a, b) : a;
}

export function isSpaced(model: DelayModel): boolean {
  return "spaced" in model && model.spaced === true;
}

export function delayStage(context: StageContext, model: DelayModel): Stage {
  const { kernels, seed, stream } = context;
  const [a, b] = delayParameters(model);
  const rng = kernels.call.simRngNew(BigInt(seed), BigInt(stream)) >>> 0;
  const last = kernels.alloc(16);
  writeFields(kernels, last, [0, -1]);
  const hashSeed = BigInt.asUintN(64, BigInt(seed) * 0xd1b5_4a32_d192_ed03n + BigInt(stream));
  let apply: (batch: PacketBatch) => void;
  if (model.kind === "per-flow" || model.kind === "bimodal") {
    const share = model.kind === "bimodal" ? (model.shareLow ?? 0.5) : 0;
    const jitter = model.jitter ?? (model.kind === "bimodal" ? 0.1 : 0.3);
    const modes = model.kind === "bimodal" ? 1 : 0;
    apply = (batch) => kernels.call.simFlowDelayRun(rng, batch.address, hashSeed, modes, a, b, share, jitter);
  } else {
    const kind = DELAY_KIND[model.kind];
    const spaced = isSpaced(model) ? 1 : 0;
    apply = (batch) => kernels.call.simDelayRun(rng, batch.address, kind, a, b, spaced, last);
  }
  return {
    ordered: model.kind === "constant" || isSpaced(model),
    apply,
    statistics: () => ({ ...BLANK, hop: context.hop, kind: "delay" }),
    free: () => {
      kernels.free(rng);
      kernels.free(last);
    },
  };
}

export function lossStage(context: StageContext, spec: LossHop): Stage {
  const { kernels, seed, stream } = context;
  const p = spec.probability;
  if (!(p >= 0 && p < 1)) throw new UsageError("bad-parameter", "loss probability must lie in [0, 1)");
  if (spec.model === "bursts" && !(spec.meanBurst >= 1))
    throw new UsageError("bad-parameter", "meanBurst must be at least 1 packet");
  const rng = kernels.call.simRngNew(BigInt(seed), BigInt(stream)) >>> 0;
  const state = kernels.alloc(8);
  writeFields(kernels, state, [0]);
  let lost = 0;
  let packets = 0;
  return {
    ordered: true,
    apply: (batch) => {
      packets += batch.count;
      if (spec.model === "uniform") {
        lost += kernels.call.simLossUniform(rng, batch.address, p) >>> 0;
        return;
      }
      // Stationary share of the bad state: enter / (enter + leave) = p.
      const leave = 1 / spec.meanBurst;
      const enter = (p * leave) / (1 - p);
      lost += kernels.call.simLossBursts(rng, batch.address, state, enter, leave) >>> 0;
    },
    statistics: () => ({ ...BLANK, hop: context.hop, kind: "loss", packets, lost }),
    free: () => {
      kernels.free(rng);
      kernels.free(state);
    },
  };
}

export function reorderStage(context: StageContext, probability: number, extentNs: number): Stage {
  const { kernels, seed, stream } = context;
  if (!(probability >= 0 && probability <= 1) || !(extentNs >= 0))
    throw new UsageError("bad-parameter", "reorder: probability in [0, 1] and extentNs of at least 0");
  const rng = kernels.call.simRngNew(BigInt(seed), BigInt(stream)) >>> 0;
  return {
    ordered: false,
    apply: (batch) => void kernels.call.simReorder(rng, batch.address, probability, extentNs),
    statistics: () => ({ ...BLANK, hop: context.hop, kind: "reorder" }),
    free: () => kernels.free(rng),
  };
}
