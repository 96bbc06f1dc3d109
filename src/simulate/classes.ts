/**
 * One link, several classes of traffic: strict priority or deficit round robin. What a packet waits for may arrive after it, so this stage
 * holds packets until they are served (at most the classes' capacities) and hands them on in the order of departure.
 */
import { UsageError } from "../base/errors.ts";
import { PacketBatch } from "../capture/batch.ts";
import { CrossFeed } from "./cross-feed.ts";
import { writeFields } from "./keys.ts";
import type { ClassesHop } from "./scenario.ts";
import { BLANK, QUEUE_DEFAULTS, type Stage, type StageContext, solveRate } from "./stage.ts";
import type { Batches } from "./streams.ts";

/** Bytes per turn and unit of weight: one full packet. */
const QUANTUM = 1500;

// Class and Link of kernels/simulate/classes.ts, in f64 positions.
const CLASS = { packets: 5, bytes: 6, drops: 7 } as const;
const LONGEST_U32 = 9;
const LINK_BUSY = 5;

export function classesStage(context: StageContext, spec: ClassesHop): Stage {
  const { kernels, offered, cross } = context;
  if (spec.classes.length < 1 || spec.classes.length > 64)
    throw new UsageError("bad-parameter", "classes: from 1 to 64 are needed");
  const rateBps = solveRate(spec, offered.bytes + (cross?.bytes ?? 0), offered.durationNs);
  const count = spec.classes.length;
  const link = kernels.call.simLinkNew(count) >>> 0;
  writeFields(kernels, link, [
    8e9 / rateBps,
    Math.round(spec.propagationNs ?? 0),
    spec.scheduler === "drr" ? 1 : 0,
  ]);
  const classAt = (i: number) => kernels.call.simLinkClass(link, i) >>> 0;
  const map = kernels.call.simLinkMap(link) >>> 0;
  // Backwards, so that the first class that lists a DSCP has it.
  for (let i = count - 1; i >= 0; i--) {
    const { dscp = [], weight = 1, capacityPackets = QUEUE_DEFAULTS.capacityPackets } = spec.classes[i]!;
    if (!(weight > 0) || !(capacityPackets >= 1))
      throw new UsageError("bad-parameter", "classes: weight above 0 and capacityPackets of at least 1");
    writeFields(kernels, classAt(i), [capacityPackets, weight * QUANTUM]);
    for (const d of dscp) {
      if (!Number.isInteger(d) || d < 0 || d > 63)
        throw new UsageError("bad-parameter", `classes: ${d} is not a DSCP (0 to 63)`);
      kernels.u8[map + d] = i;
    }
  }
  const feed = new CrossFeed(context);
  const push = (batch: PacketBatch) =>
    feed.run(batch, (row, crossBatch, position, ended) =>
      kernels.call.simLinkPush(link, batch.address, row, crossBatch, position, ended),
    );

  return {
    ordered: false,
    apply: () => {
      throw new Error("a shared link holds packets back: run it as a stream");
    },
    async *run(batches: Batches) {
      const out = new PacketBatch(kernels);
      try {
        for await (const batch of batches) {
          await push(batch);
          for (let more = 1; more === 1; ) {
            more = kernels.call.simLinkPop(link, out.address);
            if (out.count > 0) yield out;
          }
        }
        kernels.call.simLinkFlush(link);
        for (let more = 1; more === 1; ) {
          more = kernels.call.simLinkPop(link, out.address);
          if (out.count > 0) yield out;
        }
      } finally {
        out.free();
      }
    },
    statistics: () => {
      const total = { packets: 0, bytes: 0, drops: 0 };
      let longest = 0;
      for (let i = 0; i < count; i++) {
        const at = classAt(i);
        for (const name of ["packets", "bytes", "drops"] as const)
          total[name] += kernels.f64[(at >>> 3) + CLASS[name]]!;
        longest = Math.max(longest, kernels.u32[(at >>> 2) + LONGEST_U32]!);
      }
      return {
        ...BLANK,
        hop: context.hop,
        kind: "classes",
        rateBps,
        packets: total.packets,
        bytes: total.bytes,
        tailDrops: total.drops,
        longest,
        busyNs: kernels.f64[(link >>> 3) + LINK_BUSY]!,
      };
    },
    free: () => {
      kernels.call.simLinkFree(link);
      feed.free();
    },
  };
}
