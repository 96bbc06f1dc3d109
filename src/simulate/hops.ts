/** Makes the stage for a hop of a scenario. */
import { UsageError } from "../base/errors.ts";
import { classesStage } from "./classes.ts";
import { delayFault, delayStage, isSpaced, lossStage, reorderStage, typicalDelayNs } from "./delays.ts";
import { pathsStage, queueStage } from "./queues.ts";
import type { Hop, Scenario } from "./scenario.ts";
import { QUEUE_DEFAULTS, type Stage, type StageContext } from "./stage.ts";

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
      return classesStage(context, hop);
  }
}

/** Maximum kernel memory for the packets held at once: the kernels have 4 GiB, and the rest of the run needs some of it. */
const MAX_HELD_BYTES = 2 ** 31;
/** A queue stores one departure time per packet, with the number of packets rounded up to a power of two; stages that reorder packets store whole rows. */
const QUEUED_BYTES = 16;
const ROW_BYTES = 128;

/** Checks what the schema cannot express: fields of a hop that depend on each other, and the memory of all hops together. */
export function checkHops({ path, traffic }: Pick<Scenario, "path" | "traffic">): void {
  const ratePps = traffic.kind === "replay" ? 0 : traffic.ratePps;
  let held = 0;
  for (const [i, hop] of path.entries()) {
    const refuse = (what: string, hint?: string) => {
      throw new UsageError("bad-parameter", `path[${i}] (${hop.kind}): ${what}`, hint);
    };
    held += heldBytes(hop, ratePps);
    if (held > MAX_HELD_BYTES)
      refuse(
        `the hops up to here hold up to ${Math.round(held / 2 ** 20).toLocaleString("en-US")} MiB of packets, more than the ${MAX_HELD_BYTES / 2 ** 20} MiB there are`,
        "lower capacityPackets, the delay, or the rate of the traffic",
      );
    if (hop.kind !== "delay") continue;
    const fault = delayFault(hop.model);
    if (fault !== null) refuse(`${hop.model.kind}: ${fault}`);
    if (isSpaced(hop.model) && i > 0)
      refuse("a spaced delay must be the first hop: it moves the times of sending");
  }
}

/** Returns the memory of the packets waiting in the hop: the maximum or, if delays are unbounded, the mean. */
function heldBytes(hop: Hop, ratePps: number): number {
  const capacity = (queue: { capacityPackets?: number }) =>
    queue.capacityPackets ?? QUEUE_DEFAULTS.capacityPackets;
  const sum = (queues: readonly { capacityPackets?: number }[]) =>
    queues.reduce((total, queue) => total + capacity(queue), 0);
  switch (hop.kind) {
    case "queue":
      return capacity(hop) * QUEUED_BYTES;
    case "paths":
      return sum(hop.paths) * QUEUED_BYTES;
    case "classes":
      return sum(hop.classes) * ROW_BYTES;
    case "delay":
      // Constant and spaced delays preserve the order, so no packets are held back.
      return hop.model.kind === "constant" || isSpaced(hop.model)
        ? 0
        : (ratePps * typicalDelayNs(hop.model) * ROW_BYTES) / 1e9;
    case "reorder":
      return (ratePps * hop.extentNs * ROW_BYTES) / 1e9;
    case "loss":
      return 0;
  }
}
