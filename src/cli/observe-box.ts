/** `hoptime observe --ebpf-segment IN:OUT --segment A:B`: measures a path through this host as a segment, in its kernel. */
import type { Command } from "commander";
import { UsageError } from "../base/errors.ts";
import type { Way } from "../capture/ebpf/segment-load.ts";
import type { ObservationReport, ObservePointOptions } from "../observe/observe-point.ts";
import { observeSegment } from "../observe/observe-segment.ts";
import { flagOf } from "./flags.ts";
import { warn } from "./output.ts";
import { addSegmentOptions, describeBox, type EbpfSegmentFlags, wayOption } from "./top-box.ts";

export interface ObserveBoxFlags extends EbpfSegmentFlags {
  ebpfSegment?: Way[];
}

export const SEGMENT_EXAMPLES = `
  hoptime observe --ebpf-segment eth0:eth1 --segment A:B --estimators maple --to records # router
`;

export function addObserveBoxOptions(command: Command): void {
  command.option(
    "--ebpf-segment <in:out>",
    "observe the packets this host forwards from one interface to the other, e.g. eth0:eth1, timed in its kernel; with --segment A:B",
    wayOption("--ebpf-segment"),
  );
  addSegmentOptions(command);
}

/** Options for captures or for a single point. */
const NOT_HERE = [
  ...["point", "direction", "promiscuous", "snap", "timestamps", "speed", "follow", "sender", "delays"],
  ...["referenceKey", "drain", "controlTo", "role", "spool"],
];

interface BoxRun {
  ways: Way[];
  files: readonly string[];
  flags: EbpfSegmentFlags & { segment?: string[] };
  /** Returns whether an option was given, by name. */
  given: (name: string) => boolean;
  common: Omit<ObservePointOptions, "files" | "point">;
  collectorOf: (point: string) => ObservePointOptions["collector"];
}

export async function observeBox({
  ways,
  files,
  flags,
  given,
  common,
  collectorOf,
}: BoxRun): Promise<ObservationReport[]> {
  const [way, more] = ways;
  if (!way || more)
    throw new UsageError("bad-option", "takes one direction", "start hoptime once for each direction", {
      parameter: "ebpfSegment",
    });
  if (files.length > 0)
    throw new UsageError(
      "bad-option",
      `${files[0]}: --ebpf-segment already names the interfaces`,
      "leave it out",
    );
  const wrong = NOT_HERE.find(given);
  if (wrong !== undefined)
    throw new UsageError(
      "bad-option",
      `${flagOf(wrong)} cannot be combined with --ebpf-segment`,
      "leave it out",
    );
  const [text, another] = flags.segment ?? [];
  const match = /^([^:=]+):([^:=]+)(=[\s\S]*)?$/.exec(text ?? "");
  if (!match || another !== undefined)
    throw new UsageError("bad-option", "--ebpf-segment needs the names of both ends", "add --segment A:B");
  const { role: _, ...rest } = common;
  return await observeSegment({
    ...rest,
    way,
    points: [match[1]?.trim() ?? "", match[2]?.trim() ?? ""],
    arrival: flags.ebpfArrival,
    departure: flags.ebpfDeparture,
    collectorOf,
    onOpen: (box) => warn(`hoptime: ${describeBox(box)}`),
    // With an expression, its packets are counted separately, as at a single point.
    ...(match[3] === undefined ? {} : { segments: [text ?? ""] }),
  });
}
