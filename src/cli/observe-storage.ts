/** Options for where `hoptime observe` stores records: a directory, a collector, or a cluster. */
import { type Command, Option } from "commander";
import { UsageError } from "../base/errors.ts";
import type { ObservePointOptions } from "../observe/observe-point.ts";
import {
  addCollectorOptions,
  addCredentialsOption,
  type CollectorFlags,
  defaultSpool,
  endpointOf,
  isRemote,
} from "./collector-options.ts";
import { flagOf } from "./flags.ts";
import { durationOption, sizeOption } from "./options.ts";
import { warn } from "./output.ts";

export interface StorageFlags extends CollectorFlags {
  to: string;
  keep?: number;
  maxSize?: number;
  spool?: string;
  spoolSize?: number;
}

/** Options for how long a directory keeps records and how they reach a collector. */
export function addStorageOptions(command: Command): void {
  command
    .option("--keep <time>", "remove records older than this, e.g. 7d", durationOption("--keep"))
    .option(
      "--max-size <bytes>",
      "remove the oldest records beyond this size, e.g. 10GB",
      sizeOption("max-size"),
    );
  addCredentialsOption(addCollectorOptions(command))
    .option("--spool <dir>", "with a collector: directory where records wait until they are sent")
    .addOption(
      new Option("--spool-size <bytes>", "remove the oldest from the spool beyond this (default: 1GB)")
        .argParser(sizeOption("spool-size"))
        .hideHelp(),
    );
}

/** Returns the settings of the collector if --to is the address of one. */
export function collectorOf(flags: StorageFlags, point: string): Pick<ObservePointOptions, "collector"> {
  const { to, spool, spoolSize } = flags;
  if (!isRemote(to)) {
    for (const flag of ["tokenFile", "spool", "ca", "cert", "certKey", "creds"] as const)
      if (flags[flag] !== undefined)
        throw new UsageError("bad-option", `${flagOf(flag)} needs --to http://HOST:PORT or nats://HOST:PORT`);
    return {};
  }
  for (const flag of ["keep", "maxSize"] as const)
    if (flags[flag] !== undefined)
      throw new UsageError(
        "bad-option",
        `${flagOf(flag)} applies to directories only`,
        "leave it out: the collector decides what it keeps",
      );
  const { url: _, ...endpoint } = endpointOf(to, flags);
  return {
    collector: {
      ...endpoint,
      spoolDirectory: spool ?? defaultSpool(to, point),
      maxSpoolBytes: spoolSize,
      onState: (text) => warn(`hoptime: ${text}`),
    },
  };
}
