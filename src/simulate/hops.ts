/** From a hop of a scenario to the stage that does it. */
import { UsageError } from "../base/errors.ts";
import { classesStage } from "./classes.ts";
import { DELAY_MODELS, delayFault, delayStage, isSpaced, lossStage, reorderStage } from "./delays.ts";
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

const CHOICES: Record<string, [field: string, values: readonly string[]]> = {
  classes: ["scheduler", ["strict", "drr"]],
  paths: ["choose", ["flow", "packet"]],
  loss: ["model", ["uniform", "bursts"]],
};

/** Scenarios may come from files: what the types promise is checked, so that mistakes are named and not run. */
export function checkHops(path: readonly Hop[]): void {
  path.forEach((hop, i) => {
    const refuse = (what: string) => {
      throw new UsageError("bad-parameter", `hop ${i + 1} (${hop.kind}): ${what}`);
    };
    const choice = CHOICES[hop.kind];
    const value = choice && (hop as unknown as Record<string, unknown>)[choice[0]];
    if (choice && !choice[1].includes(value as string))
      refuse(`${choice[0]} is none of ${choice[1].join(", ")}`);
    if (hop.kind === "classes" && !Array.isArray(hop.classes)) refuse("classes must be a list");
    if (hop.kind === "paths" && !Array.isArray(hop.paths)) refuse("paths must be a list");
    if (hop.kind !== "delay") return;
    if (!DELAY_MODELS.includes(hop.model?.kind)) refuse(`model.kind is none of ${DELAY_MODELS.join(", ")}`);
    const fault = delayFault(hop.model);
    if (fault !== null) refuse(`${hop.model.kind}: ${fault}`);
    if (isSpaced(hop.model) && i > 0)
      refuse("a spaced delay must be the first hop: it moves the times of sending");
  });
}
