/** Options for measuring in the kernel. */
import type { Command } from "commander";
import { UsageError } from "../base/errors.ts";
import { PLACES, type Place } from "../observe/kernel-choice.ts";
import type { ObservePointOptions } from "../observe/observe-point.ts";
import { choiceOption } from "./options.ts";
import { warn } from "./output.ts";

export interface KernelFlags {
  ebpf?: boolean;
  at?: Place;
}

export function addKernelOptions(command: Command): void {
  command
    .option("--ebpf", "interface: count in the kernel (lda, lds, colate, flows), without copying packets")
    .option(
      "--at <place>",
      `with --ebpf: where to attach: ${PLACES.join(", ")} (default: xdp for received packets, else what works)`,
      choiceOption("--at", PLACES),
    );
}

export function kernelOptions({ ebpf, at }: KernelFlags): Pick<ObservePointOptions, "ebpf"> {
  if (!ebpf) {
    if (at !== undefined) throw new UsageError("bad-option", "--at needs --ebpf");
    return {};
  }
  return { ebpf: { place: at, onFallback: (text) => warn(`hoptime: ${text}`) } };
}
