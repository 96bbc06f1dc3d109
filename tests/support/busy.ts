/** Limits of time hold for an idle machine: others stretch them by how many processes want each processor. */
import { cpus, loadavg } from "node:os";

export function busy(): number {
  return Math.max(1, (loadavg()[0] ?? 0) / cpus().length);
}
