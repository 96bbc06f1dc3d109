/** Time limits are for an idle machine; tests multiply them by the number of processes per processor. */
import { cpus, loadavg } from "node:os";

export function busy(): number {
  return Math.max(1, (loadavg()[0] ?? 0) / cpus().length);
}
