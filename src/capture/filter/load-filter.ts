/** A filter for those who mostly have none: the language is loaded where there is one. */
import type { Kernels } from "../../base/kernels.ts";
import type { CompiledFilter } from "./filter.ts";

export async function loadFilter(text: string, kernels: Kernels): Promise<CompiledFilter> {
  const { compileFilter } = await import("./filter.ts");
  return compileFilter(text, kernels);
}
