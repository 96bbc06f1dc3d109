/** Options of commands that observe interfaces. */
import type { Command } from "commander";
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
