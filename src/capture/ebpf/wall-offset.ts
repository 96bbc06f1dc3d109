/**
 * Returns the wall clock minus the monotonic clock that programs in the kernel read. The offset changes only when the wall clock is set, at a leap second, or
 * when the machine wakes up: slewing affects both clocks. Both coarse clocks show the time of the last tick, so their difference is exact.
 */
import { readFileSync } from "node:fs";
import type { Libc } from "../source/interface/libc.ts";

const CLOCK_REALTIME_COARSE = 5;
const CLOCK_MONOTONIC_COARSE = 6;
const NS_PER_S = 1_000_000_000n;

/** Returns the wall clock in ns since 1970 at the kernel's monotonic time 0. */
export function wallOffsetNs(libc: Pick<Libc, "clockNs">): bigint {
  for (;;) {
    const before = libc.clockNs(CLOCK_MONOTONIC_COARSE);
    const wallNs = libc.clockNs(CLOCK_REALTIME_COARSE);
    // Read again if there was a tick between the two readings.
    if (libc.clockNs(CLOCK_MONOTONIC_COARSE) === before) return wallNs - before + ownMonotonicNs();
  }
}

/** Returns the monotonic clock that programs in the kernel read. */
export function kernelMonotonicNs(): bigint {
  return process.hrtime.bigint() - ownMonotonicNs();
}

let own: bigint | null = null;

/** Returns by how much this process's monotonic clock is ahead of the kernel's, which is non-zero in a time namespace. */
function ownMonotonicNs(): bigint {
  own ??= parseTimeNamespace(readOffsets());
  return own;
}

export function parseTimeNamespace(text: string): bigint {
  const [, seconds = "0", ns = "0"] = /^monotonic\s+(-?\d+)\s+(\d+)/m.exec(text) ?? [];
  return BigInt(seconds) * NS_PER_S + BigInt(ns);
}

function readOffsets(): string {
  try {
    return readFileSync("/proc/self/timens_offsets", "utf8");
  } catch {
    return "";
  }
}
