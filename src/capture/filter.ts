/** Placeholder contract until the filter language lands in this file: refuses every expression. */
import { UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import type { RowFilter } from "./reader.ts";

export function compileFilter(text: string, _kernels: Kernels): RowFilter {
  throw new UsageError("bad-filter", `--filter: '${text}' cannot be used yet`);
}
