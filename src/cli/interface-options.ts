/** Options of commands that observe live: from interfaces, or from replayed captures. */
import type { Command } from "commander";
import { invalidValue, UsageError } from "../base/errors.ts";
import { countOf } from "../base/quantity.ts";
import {
  DIRECTIONS,
  type InterfaceOptions,
  TIMESTAMPS,
} from "../capture/source/interface/interface-options.ts";
import { choiceOption, integerOption } from "./options.ts";
import { warn } from "./output.ts";

type Direction = (typeof DIRECTIONS)[number];

export interface InterfaceFlags {
  direction?: Direction[];
  promiscuous?: boolean;
  snap?: number;
  timestamps?: (typeof TIMESTAMPS)[number];
  speed?: number;
}

export function addInterfaceOptions(command: Command): void {
  command
    .option(
      "--direction <way>",
      `interface: packets to observe: ${DIRECTIONS.join(", ")}; of several interfaces, one each: in,out`,
      directionOption,
    )
    .option("--promiscuous", "interface: also packets for other hosts (mirror port)")
    .option("--snap <bytes>", "interface: bytes captured of each packet", integerOption("--snap", 64, 65_535))
    .option(
      "--timestamps <kind>",
      `interface: ${TIMESTAMPS.join(" or ")} (by the network card)`,
      choiceOption("--timestamps", TIMESTAMPS),
    )
    .option("--speed <n>", "captures: replay in real time (1), faster (10) or max", speedOption);
}

/** Returns the options of each of `count` interfaces. What is observed is printed on standard error at the start. */
export function interfaceOptions(flags: InterfaceFlags, count = 1): InterfaceOptions[] {
  const { direction = [], promiscuous, snap, timestamps } = flags;
  if (direction.length > 1 && direction.length !== count)
    throw new UsageError(
      "bad-option",
      `${direction.length} directions for ${countOf(count, "interface")}`,
      "give one for all, or one each",
      { parameter: "direction" },
    );
  const common = {
    onOpen: (text: string) => warn(`hoptime: observing ${text}`),
    ...(promiscuous === undefined ? {} : { promiscuous }),
    ...(snap === undefined ? {} : { snapBytes: snap }),
    ...(timestamps === undefined ? {} : { timestamps }),
  };
  return Array.from({ length: count }, (_, i) => {
    const way = direction[i] ?? direction[0];
    return way === undefined ? common : { ...common, direction: way };
  });
}

function directionOption(text: string): Direction[] {
  return text.split(",").map((word) => choiceOption("--direction", DIRECTIONS)(word.trim()));
}

function speedOption(text: string): number {
  const speed = text === "max" ? Number.POSITIVE_INFINITY : Number(text);
  if (!(speed > 0) || text.trim() === "") throw invalidValue("speed", text, "a number above 0, or max");
  return speed;
}
