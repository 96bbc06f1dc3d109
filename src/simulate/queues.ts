/** First-in first-out queues (DropTail, RED): one queue with cross traffic, or several in parallel (ECMP, switch fabric). */
import { UsageError } from "../base/errors.ts";
import { FifoLayout } from "../base/kernel-layout.ts";
import type { Kernels } from "../base/kernels.ts";
import { CrossFeed } from "./cross-feed.ts";
import { writeFields } from "./keys.ts";
import type { Hop, PathsHop, QueueHop, QueueSpec } from "./scenario.ts";
import {
  BLANK,
  type HopStatistics,
  QUEUE_DEFAULTS,
  type Stage,
  type StageContext,
  solveRate,
} from "./stage.ts";

type FifoCount = "packets" | "bytes" | "tailDrops" | "redDrops" | "longest" | "busyNs";

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
    this.address = kernels.call.simFifoNew() >>> 0;
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
    kernels.call.simFifoStart(this.address, BigInt(context.seed), BigInt(stream));
  }

  read(name: FifoCount): number {
    return this.#kernels.f64[(this.address + FifoLayout[name]) >>> 3]!;
  }

  free(): void {
    this.#kernels.call.simFifoFree(this.address);
  }
}

function fifoStatistics(context: StageContext, kind: Hop["kind"], queues: Fifo[]): HopStatistics {
  const sum = (name: FifoCount) => queues.reduce((total, q) => total + q.read(name), 0);
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

export function queueStage(context: StageContext, spec: QueueHop): Stage {
  const { kernels, cross } = context;
  const queue = new Fifo(context, spec, context.offered.bytes + (cross?.bytes ?? 0), context.stream);
  const feed = new CrossFeed(context);
  return {
    ordered: true,
    apply: (batch) =>
      feed.run(batch, (row, crossBatch, position, ended) =>
        kernels.call.simFifoRun(queue.address, batch.address, row, crossBatch, position, ended),
      ),
    statistics: () => fifoStatistics(context, "queue", [queue]),
    free: () => {
      queue.free();
      feed.free();
    },
  };
}

export function pathsStage(context: StageContext, spec: PathsHop): Stage {
  const { kernels, offered, seed, stream } = context;
  const count = spec.paths.length;
  if (count === 0) throw new UsageError("bad-parameter", "paths: at least one is needed");
  // Assumes that the load is spread evenly.
  const queues = spec.paths.map((p, i) => new Fifo(context, p, offered.bytes / count, stream * 1000 + i));
  const table = kernels.alloc(4 * count);
  queues.forEach((q, i) => {
    kernels.u32[(table >>> 2) + i] = q.address;
  });
  const hashSeed = BigInt.asUintN(64, BigInt(seed) * 0x9e37_79b9_7f4a_7c15n + BigInt(stream));
  return {
    ordered: false,
    apply: (batch) =>
      kernels.call.simPathsRun(table, count, spec.choose === "packet" ? 1 : 0, hashSeed, batch.address),
    statistics: () => fifoStatistics(context, "paths", queues),
    free: () => {
      for (const q of queues) q.free();
      kernels.free(table);
    },
  };
}
