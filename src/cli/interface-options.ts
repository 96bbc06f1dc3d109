/** Options of commands that observe as packets come: from interfaces, or from captures that are replayed. */
import type { Command } from "commander";
import { invalidValue } from "../base/errors.ts";
import {
  DIRECTIONS,
  type InterfaceOptions,
  TIMESTAMPS,
} from "../capture/source/interface/interface-source.ts";
import { choiceOption, integerOption } from "./options.ts";
import { warn } from "./output.ts";

export interface InterfaceFlags {
  direction?: (typeof DIRECTIONS)[number];
  promiscuous?: boolean;
  snap?: number;
  timestamps?: (typeof TIMESTAMPS)[number];
  speed?: number;
}

export function addInterfaceOptions(command: Command): void {
  command
    .option(
      "--direction <way>",
      `with an interface: packets that it receives, sends, or both: ${DIRECTIONS.join(", ")} (default: both)`,
      choiceOption("--direction", DIRECTIONS),
    )
    .option("--promiscuous", "with an interface: packets for other hosts too, as on a mirror port")
    .option(
      "--snap <bytes>",
      "with an interface: bytes captured of each packet (default: --cover and 32 for the headers before it)",
      integerOption("--snap", 64, 65_535),
    )
    .option(
      "--timestamps <kind>",
      `with an interface: ${TIMESTAMPS.join(", ")}: of the kernel, or of the card where it can (default: software)`,
      choiceOption("--timestamps", TIMESTAMPS),
    )
    .option(
      "--speed <n>",
      "with captures: replay them in real time (1), so many times as fast (10), or at once (max; default)",
      speedOption,
    );
}

/** What is observed is said on standard error when it begins. */
export function interfaceOptions({
  direction,
  promiscuous,
  snap,
  timestamps,
}: InterfaceFlags): InterfaceOptions {
  return {
    onOpen: (text) => warn(`hoptime: observing ${text}`),
    ...(direction === undefined ? {} : { direction }),
    ...(promiscuous === undefined ? {} : { promiscuous }),
    ...(snap === undefined ? {} : { snapBytes: snap }),
    ...(timestamps === undefined ? {} : { timestamps }),
  };
}

function speedOption(text: string): number {
  const speed = text === "max" ? Number.POSITIVE_INFINITY : Number(text);
  if (!(speed > 0) || text.trim() === "") throw invalidValue("speed", text, "a number above 0, or max");
  return speed;
}
