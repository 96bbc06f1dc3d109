/** The same estimator with its updates timed and its memory noted. */
import type { Estimator, Tap } from "../../estimators/estimator.ts";

export interface TapCost {
  cpuNs: number;
  rows: number;
  /** Of the larger tap, when it was sealed. */
  memoryBytes: number;
}

export function noCost(): TapCost {
  return { cpuNs: 0, rows: 0, memoryBytes: 0 };
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
      cost.cpuNs += 1e3 * (user + system);
      cost.rows += to - from;
    },
    ...(tap.isFull ? { isFull: () => tap.isFull?.() ?? false } : {}),
    seal() {
      cost.memoryBytes = Math.max(cost.memoryBytes, tap.memoryBytes);
      return tap.seal();
    },
    free: () => tap.free(),
  };
}
