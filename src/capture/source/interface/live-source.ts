/** Opens an interface as a source by whatever is available: a packet ring (interface-source.ts), or a capture program as a child process (child-source.ts). */
import type { Kernels } from "../../../base/kernels.ts";
import type { Source } from "../source.ts";
import { openChildCapture } from "./child-source.ts";
import type { InterfaceSourceOptions } from "./interface-options.ts";
import { openInterface } from "./interface-source.ts";
import { findLibc, loadLibc } from "./libc.ts";

/** Resolves once the interface is being captured. Throws a UsageError that says what is missing and how to get it. */
export async function openLive(
  kernels: Kernels,
  name: string,
  options: InterfaceSourceOptions = {},
): Promise<Source> {
  if (process.platform === "linux" && (await findLibc())) {
    const source = openInterface(kernels, name, options);
    try {
      await source.open();
      return source;
    } catch (error) {
      source.close();
      throw error;
    }
  }
  const child = await openChildCapture(kernels, name, options);
  if (child) return child;
  await loadLibc(name);
  throw new Error("koffi is there after all");
}
