/**
 * One link shared by several classes of traffic: strict priority or deficit round robin. A packet may wait for packets that arrive after it, so this stage
 * holds packets until they are served (up to the sum of the classes' capacities) and returns them in order of departure.
 */
import { LinkClassLayout, LinkLayout } from "../base/kernel-layout.ts";
import type { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "../capture/batch.ts";
import { CrossFeed } from "./cross-feed.ts";
import { writeFields } from "./keys.ts";
import type { ClassesHop } from "./scenario.ts";
import { BLANK, QUEUE_DEFAULTS, type Stage, type StageContext, solveRate } from "./stage.ts";
import type { Batches } from "./streams.ts";

/** Bytes per turn and unit of weight: one full-sized packet. */
const QUANTUM = 1500;

export function classesStage(context: StageContext, spec: ClassesHop): Stage {
  const { kernels, offered, cross } = context;
  const rateBps = solveRate(spec, offered.bytes + (cross?.bytes ?? 0), offered.durationNs);
  const link = makeLink(kernels, spec, rateBps);
  const feed = new CrossFeed(context);
  return {
    ordered: false,
    apply: () => {
      throw new Error("a shared link holds packets back: run it as a stream");
    },
    async *run(batches: Batches) {
      const out = new PacketBatch(kernels);
      try {
        for await (const batch of batches) {
          await feed.run(batch, (row, crossBatch, position, ended) =>
            kernels.call.simLinkPush(link, batch.address, row, crossBatch, position, ended),
          );
          yield* departed(kernels, link, out);
        }
        kernels.call.simLinkFlush(link);
        yield* departed(kernels, link, out);
      } finally {
        out.free();
      }
    },
    statistics: () => ({
      ...BLANK,
      hop: context.hop,
      kind: "classes",
      rateBps,
      ...linkStatistics(kernels, link, spec.classes.length),
    }),
    free: () => {
      kernels.call.simLinkFree(link);
      feed.free();
    },
  };
}

function makeLink(kernels: Kernels, spec: ClassesHop, rateBps: number): number {
  const link = kernels.call.simLinkNew(spec.classes.length) >>> 0;
  const drr = spec.scheduler === "drr" ? 1 : 0;
  writeFields(kernels, link, [8e9 / rateBps, Math.round(spec.propagationNs ?? 0), drr]);
  const map = kernels.call.simLinkMap(link) >>> 0;
  // In reverse order: if two classes list the same DSCP, the first one gets it.
  for (const [i, one] of [...spec.classes.entries()].reverse()) {
    const { dscp = [], weight = 1, capacityPackets = QUEUE_DEFAULTS.capacityPackets } = one;
    const address = kernels.call.simLinkClass(link, i) >>> 0;
    writeFields(kernels, address, [capacityPackets, weight * QUANTUM]);
    for (const d of dscp) kernels.u8[map + d] = i;
  }
  return link;
}

/** Returns the packets that have left the link so far, batch by batch. */
function* departed(kernels: Kernels, link: number, out: PacketBatch): Generator<PacketBatch> {
  for (let more = 1; more === 1; ) {
    more = kernels.call.simLinkPop(link, out.address);
    if (out.count > 0) yield out;
  }
}

function linkStatistics(kernels: Kernels, link: number, classes: number) {
  const total = { packets: 0, bytes: 0, tailDrops: 0, longest: 0 };
  for (let i = 0; i < classes; i++) {
    const at = kernels.call.simLinkClass(link, i) >>> 0;
    const read = (field: "packets" | "bytes" | "drops") => kernels.f64[(at + LinkClassLayout[field]) >>> 3]!;
    total.packets += read("packets");
    total.bytes += read("bytes");
    total.tailDrops += read("drops");
    total.longest = Math.max(total.longest, kernels.u32[(at + LinkClassLayout.longest) >>> 2]!);
  }
  return { ...total, busyNs: kernels.f64[(link + LinkLayout.busyNs) >>> 3]! };
}
