/** Wraps an estimator to time its updates and to note its memory. */
import type { Estimator, Tap } from "../../estimators/estimator.ts";

export interface TapCost {
  /** CPU time and rows of each update. The process's CPU time includes compilation and garbage collection, which affect few updates. */
  readonly updates: { readonly cpuNs: number; readonly rows: number }[];
  /** Memory of the larger tap when it was sealed. */
  memoryBytes: number;
}

/** Share of updates that are left out: those with the highest CPU time per row. */
const DEAREST = 0.1;

export function noCost(): TapCost {
  return { updates: [], memoryBytes: 0 };
}

/** Returns the CPU time per row over all updates except the most expensive 10 %. */
export function cpuPerRow({ updates }: TapCost): number {
  const sorted = updates.toSorted((a, b) => a.cpuNs / a.rows - b.cpuNs / b.rows);
  const kept = sorted.slice(0, Math.ceil((1 - DEAREST) * sorted.length));
  const total = (of: "cpuNs" | "rows") => kept.reduce((sum, update) => sum + update[of], 0);
  return total("cpuNs") / Math.max(1, total("rows"));
}

export function timed(estimator: Estimator, cost: TapCost): Estimator {
  return {
    ...estimator,
    createTap: (context, values) => timedTap(estimator.createTap(context, values), cost),
  };
}

function timedTap(tap: Tap, cost: TapCost): Tap {
  return {
    get memoryBytes() {
      return tap.memoryBytes;
    },
    begin: (...given) => tap.begin(...given),
    update(batch, from, to) {
      const before = process.cpuUsage();
      tap.update(batch, from, to);
      const { user, system } = process.cpuUsage(before);
      if (to > from) cost.updates.push({ cpuNs: 1e3 * (user + system), rows: to - from });
    },
    ...(tap.isFull ? { isFull: () => tap.isFull?.() ?? false } : {}),
    seal() {
      cost.memoryBytes = Math.max(cost.memoryBytes, tap.memoryBytes);
      return tap.seal();
    },
    free: () => tap.free(),
  };
}
