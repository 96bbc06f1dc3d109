/** From a hop of a scenario to the stage that does it. */
import { classesStage } from "./classes.ts";
import { delayStage, lossStage, reorderStage } from "./delays.ts";
import { pathsStage, queueStage } from "./queues.ts";
import type { Hop } from "./scenario.ts";
import type { Stage, StageContext } from "./stage.ts";

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
