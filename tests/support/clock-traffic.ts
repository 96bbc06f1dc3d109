/** Seeded packets between two clocks, with the true values: input for the tests of src/clock. */
import type { Random } from "../../src/base/random.ts";

/** Returns the delay of a packet sent `gapNs` after the previous one. */
export type DelayModel = (timeNs: number, gapNs: number) => number;

/** A wire with hardware timestamps: 5 us within 100 ns. */
export function hardware(dice: Random): DelayModel {
  return () => 5000 + 100 * (2 * dice.float() - 1);
}

/** Queueing without memory that almost never reaches the minimum: 1 ms plus an exponential with mean 10 ms. */
export function rarelyAtMinimum(dice: Random): DelayModel {
  return () => 1e6 + dice.exponential(1e7);
}

/** Waiting time of an M/M/1 queue (Lindley's recursion) at a given load, plus 20 us and 1 us of jitter. */
export function queue(dice: Random, load: (timeNs: number) => number, meanGapNs: number): DelayModel {
  let waiting = 0;
  let service = 0;
  return (timeNs, gapNs) => {
    waiting = Math.max(0, waiting + service - gapNs);
    service = dice.exponential(load(timeNs) * meanGapNs);
    return 20_000 + waiting + 1000 * dice.float();
  };
}

/** A queue that never empties: a random walk. */
export function saturated(dice: Random): DelayModel {
  let level = 1e9;
  return () => (level += 20_000 * dice.normal());
}

export interface Pairs {
  sendNs: Float64Array;
  diffNs: Float64Array;
  n: number;
}

/**
 * Sends n packets at Poisson times over a span. `clock(t)` is AFTER's clock minus BEFORE's; `sign` -1 makes reverse packets. Both timestamps are truncated to
 * multiples of `quantumNs`.
 */
export function send(
  dice: Random,
  n: number,
  spanNs: number,
  delay: DelayModel,
  clock: (timeNs: number) => number,
  options: { quantumNs?: number; sign?: 1 | -1 } = {},
): Pairs {
  const quantum = options.quantumNs ?? 1;
  const sign = options.sign ?? 1;
  const sendNs = new Float64Array(n);
  const diffNs = new Float64Array(n);
  let now = 0;
  for (let i = 0; i < n; i++) {
    const gap = dice.exponential(spanNs / n);
    now += gap;
    const before = Math.floor(now / quantum) * quantum;
    const after = Math.floor((now + sign * delay(now, gap) + clock(now)) / quantum) * quantum;
    sendNs[i] = before;
    diffNs[i] = after - before;
  }
  return { sendNs, diffNs, n };
}

export const drifting = (ppm: number) => (timeNs: number) => ppm * 1e-6 * timeNs;
