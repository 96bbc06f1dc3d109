/**
 * What lies on the path. A stage takes batches whose rows come in the order they arrive at it (time + delay) and adds to the delay column;
 * NaN = lost. Stages whose packets may overtake each other say so; the pipeline (pipeline.ts) puts them into order again.
 */
import { UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "../capture/batch.ts";
import { writeFields } from "./keys.ts";
import type { DelayModel, Hop, LossHop, PathsHop, QueueHop, QueueSpec } from "./scenario.ts";
import type { Source } from "./source.ts";

export interface HopStatistics {
  hop: number;
  kind: Hop["kind"];
  /** Queues: drain rate and offered load over it; cross traffic included in the counts. */
  rateBps: number | null;
  packets: number;
  bytes: number;
  tailDrops: number;
  redDrops: number;
  /** Lost by a loss model. */
  lost: number;
  /** Most packets in the queue at once. */
  longest: number;
  /** Time the link was sending. */
  busyNs: number;
}

export interface Stage {
  /** False: packets may leave in another order than they came. */
  readonly ordered: boolean;
  apply(batch: PacketBatch): void | Promise<void>;
  statistics(): HopStatistics;
  free(): void;
}

/** What a stage is made from, besides its hop. */
export interface StageContext {
  kernels: Kernels;
  seed: number;
  hop: number;
  /** Random stream of this hop. */
  stream: number;
  /** Offered by the traffic, for finding drain rates. */
  offered: { bytes: number; packets: number; durationNs: number };
  /** The hop's cross traffic, opened, and what it offers. */
  cross?: { source: Source; bytes: number } | undefined;
}

export const QUEUE_DEFAULTS = {
  capacityPackets: 10_000,
  red: { minTh: 4_000, maxTh: 9_000, weight: 0.002, maxP: 1 / 50 },
} as const;

const BLANK = {
  rateBps: null,
  packets: 0,
  bytes: 0,
  tailDrops: 0,
  redDrops: 0,
  lost: 0,
  longest: 0,
  busyNs: 0,
};

/** bit/s such that the offered bytes take the given share of the time. */
export function solveRate(
  spec: { rateBps?: number; utilisation?: number },
  bytes: number,
  durationNs: number,
): number {
  if (spec.rateBps !== undefined) {
    if (!(spec.rateBps > 0)) throw new UsageError("bad-parameter", "rateBps must be above 0");
    return spec.rateBps;
  }
  if (spec.utilisation === undefined || !(spec.utilisation > 0))
    throw new UsageError(
      "bad-parameter",
      "a queue needs rateBps or a utilisation above 0",
      "utilisation 0.88 finds the drain rate",
    );
  if (!(bytes > 0 && durationNs > 0))
    throw new UsageError("bad-parameter", "there is no traffic to find a drain rate from");
  return (8e9 * bytes) / durationNs / spec.utilisation;
}

// Fifo of kernels/simulate-queue.ts: statistics, in f64 positions from its start.
const FIFO = { packets: 14, bytes: 15, tailDrops: 16, redDrops: 17, longest: 19, busyNs: 20 } as const;

class Fifo {
  readonly address: number;
  readonly rateBps: number;
  readonly #kernels: Kernels;

  constructor(context: StageContext, spec: QueueSpec, bytes: number, stream: number) {
    const { kernels, offered } = context;
    this.#kernels = kernels;
    this.rateBps = solveRate(spec, bytes, offered.durationNs);
    const red = { ...QUEUE_DEFAULTS.red, ...spec.red };
    const nsPerByte = 8e9 / this.rateBps;
    const meanBytes = offered.packets > 0 ? offered.bytes / offered.packets : 500;
    const limit = spec.capacityPackets ?? QUEUE_DEFAULTS.capacityPackets;
    if (!(limit >= 1)) throw new UsageError("bad-parameter", "capacityPackets must be at least 1");
    if (!(red.minTh < red.maxTh)) throw new UsageError("bad-parameter", "RED: minTh must be below maxTh");
    this.address = kernels.call.simFifoNew!() >>> 0;
    writeFields(kernels, this.address, [
      nsPerByte,
      limit,
      spec.discipline === "red" ? 1 : 0,
      red.minTh,
      red.maxTh,
      red.weight,
      red.maxP,
      nsPerByte * meanBytes,
      Math.round(spec.propagationNs ?? 0),
    ]);
    kernels.call.simFifoStart!(this.address, BigInt(context.seed), BigInt(stream));
  }

  read(name: keyof typeof FIFO): number {
    return this.#kernels.f64[(this.address >>> 3) + FIFO[name]]!;
  }

  free(): void {
    this.#kernels.call.simFifoFree!(this.address);
  }
}

function fifoStatistics(context: StageContext, kind: Hop["kind"], queues: Fifo[]): HopStatistics {
  const sum = (name: keyof typeof FIFO) => queues.reduce((total, q) => total + q.read(name), 0);
  return {
    ...BLANK,
    hop: context.hop,
    kind,
    rateBps: queues.reduce((total, q) => total + q.rateBps, 0),
    packets: sum("packets"),
    bytes: sum("bytes"),
    tailDrops: sum("tailDrops"),
    redDrops: sum("redDrops"),
    longest: Math.max(...queues.map((q) => q.read("longest"))),
    busyNs: sum("busyNs"),
  };
}

function queueStage(context: StageContext, spec: QueueHop): Stage {
  const { kernels, cross } = context;
  const queue = new Fifo(context, spec, context.offered.bytes + (cross?.bytes ?? 0), context.stream);
  const crossBatch = cross ? new PacketBatch(kernels) : null;
  const position = kernels.alloc(8);
  let crossEnded = cross ? 0 : 1;
  if (crossBatch) crossBatch.count = 0;
  kernels.u32[position >>> 2] = 0;
  return {
    ordered: true,
    apply: async (batch) => {
      let row = 0;
      for (;;) {
        row = kernels.call.simFifoRun!(
          queue.address,
          batch.address,
          row,
          crossBatch?.address ?? 0,
          position,
          crossEnded,
        );
        if (row >= batch.count || !cross || !crossBatch) return;
        await cross.source.fill(crossBatch);
        kernels.u32[position >>> 2] = 0;
        if (crossBatch.count === 0) crossEnded = 1;
      }
    },
    statistics: () => fifoStatistics(context, "queue", [queue]),
    free: () => {
      queue.free();
      crossBatch?.free();
      cross?.source.free();
      kernels.free(position);
    },
  };
}

function pathsStage(context: StageContext, spec: PathsHop): Stage {
  const { kernels, offered, seed, stream } = context;
  const count = spec.paths.length;
  if (count === 0) throw new UsageError("bad-parameter", "paths: at least one is needed");
  // The load is taken to spread evenly.
  const queues = spec.paths.map((p, i) => new Fifo(context, p, offered.bytes / count, stream * 1000 + i));
  const table = kernels.alloc(4 * count);
  queues.forEach((q, i) => {
    kernels.u32[(table >>> 2) + i] = q.address;
  });
  const hashSeed = BigInt.asUintN(64, BigInt(seed) * 0x9e37_79b9_7f4a_7c15n + BigInt(stream));
  return {
    ordered: false,
    apply: (batch) =>
      kernels.call.simPathsRun!(table, count, spec.choose === "packet" ? 1 : 0, hashSeed, batch.address),
    statistics: () => fifoStatistics(context, "paths", queues),
    free: () => {
      for (const q of queues) q.free();
      kernels.free(table);
    },
  };
}

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
      return [m.medianNs ?? 100_000, m.sigma ?? 1];
    case "bimodal":
      return [m.lowNs ?? 100_000, m.highNs ?? 320_000];
  }
}

export function isSpaced(model: DelayModel): boolean {
  return "spaced" in model && model.spaced === true;
}

function delayStage(context: StageContext, model: DelayModel): Stage {
  const { kernels, seed, stream } = context;
  const [a, b] = delayParameters(model);
  if (!(a >= 0) || !(b >= 0))
    throw new UsageError("bad-parameter", `delay model '${model.kind}': not a number`);
  const rng = kernels.call.simRngNew!(BigInt(seed), BigInt(stream)) >>> 0;
  const last = kernels.alloc(16);
  writeFields(kernels, last, [0, -1]);
  const hashSeed = BigInt.asUintN(64, BigInt(seed) * 0xd1b5_4a32_d192_ed03n + BigInt(stream));
  let apply: (batch: PacketBatch) => void;
  if (model.kind === "per-flow" || model.kind === "bimodal") {
    const share = model.kind === "bimodal" ? (model.shareLow ?? 0.5) : 0;
    const jitter = model.jitter ?? (model.kind === "bimodal" ? 0.1 : 0.3);
    const modes = model.kind === "bimodal" ? 1 : 0;
    apply = (batch) =>
      kernels.call.simFlowDelayRun!(rng, batch.address, hashSeed, modes, a, b, share, jitter);
  } else {
    const kind = DELAY_KIND[model.kind];
    const spaced = isSpaced(model) ? 1 : 0;
    apply = (batch) => kernels.call.simDelayRun!(rng, batch.address, kind, a, b, spaced, last);
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

function lossStage(context: StageContext, spec: LossHop): Stage {
  const { kernels, seed, stream } = context;
  const p = spec.probability;
  if (!(p >= 0 && p < 1)) throw new UsageError("bad-parameter", "loss probability must lie in [0, 1)");
  if (spec.model === "bursts" && !(spec.meanBurst >= 1))
    throw new UsageError("bad-parameter", "meanBurst must be at least 1 packet");
  const rng = kernels.call.simRngNew!(BigInt(seed), BigInt(stream)) >>> 0;
  const state = kernels.alloc(8);
  writeFields(kernels, state, [0]);
  let lost = 0;
  let packets = 0;
  return {
    ordered: true,
    apply: (batch) => {
      packets += batch.count;
      if (spec.model === "uniform") {
        lost += kernels.call.simLossUniform!(rng, batch.address, p) >>> 0;
        return;
      }
      // Stationary share of the bad state = enter / (enter + leave) = p.
      const leave = 1 / spec.meanBurst;
      const enter = (p * leave) / (1 - p);
      lost += kernels.call.simLossBursts!(rng, batch.address, state, enter, leave) >>> 0;
    },
    statistics: () => ({ ...BLANK, hop: context.hop, kind: "loss", packets, lost }),
    free: () => {
      kernels.free(rng);
      kernels.free(state);
    },
  };
}

function reorderStage(context: StageContext, probability: number, extentNs: number): Stage {
  const { kernels, seed, stream } = context;
  if (!(probability >= 0 && probability <= 1) || !(extentNs >= 0))
    throw new UsageError("bad-parameter", "reorder: probability in [0, 1] and extentNs of at least 0");
  const rng = kernels.call.simRngNew!(BigInt(seed), BigInt(stream)) >>> 0;
  return {
    ordered: false,
    apply: (batch) => kernels.call.simReorder!(rng, batch.address, probability, extentNs),
    statistics: () => ({ ...BLANK, hop: context.hop, kind: "reorder" }),
    free: () => kernels.free(rng),
  };
}

export function makeStage(context: StageContext, hop: Hop): Stage {
  switch (hop.kind) {
    case "queue":
      return queueStage(context, hop);
    case "paths":
      return pathsStage(context, hop);
    case "delay":
      return delayStage(context, hop.model);
    case "loss":
      return lossStage(context, hop);
    case "reorder":
      return reorderStage(context, hop.probability, hop.extentNs);
    case "classes":
      throw new UsageError("not-supported", "classes are not here yet");
  }
}
