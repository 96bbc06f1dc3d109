/** Reads the counts at the cursor of the kernel that walks frames of a packet ring (kernels/decode/walk-ring.ts). */
import { CursorBytes, CursorLayout, walkConstants } from "../../../base/kernel-layout.ts";
import type { Kernels } from "../../../base/kernels.ts";
import type { CaptureStatistics } from "../../reader.ts";
import { SKIP_REASONS } from "../../reasons.ts";
import type { CaptureTotals } from "../source.ts";

const { SHORT_SIZES } = walkConstants;

/** Returns the frames that were not usable packets, by reason. */
export function skippedOf(kernels: Kernels, cursor: number): Record<string, number> {
  const skipped: Record<string, number> = {};
  for (const [reason, i] of SKIP_REASONS) {
    const n = kernels.readCounter(cursor + CursorBytes + 8 * i);
    if (n > 0) skipped[reason] = n;
  }
  return skipped;
}

/** Allocates zeroed counters for the sizes of truncated packets. */
export function newShorts(kernels: Kernels): number {
  const shorts = kernels.alloc(4 * SHORT_SIZES);
  kernels.u32.fill(0, shorts >>> 2, (shorts >>> 2) + SHORT_SIZES);
  return shorts;
}

interface WalkedInterface {
  name: string;
  rows: number;
  totals: CaptureTotals;
  description: string;
  link: number;
  snapLength: number;
  warnings: string[];
}

/** Returns the statistics of the one interface that the frames came from. */
export function walkedStatistics(
  kernels: Kernels,
  { cursor, shorts }: { cursor: number; shorts: number },
  { name, rows, totals, description, link, snapLength, warnings }: WalkedInterface,
): CaptureStatistics {
  const { frames, skipped, dropped } = totals;
  return {
    ...{ file: name, format: "interface", packets: frames, ipPackets: rows },
    ...walkedOf(kernels, cursor, shorts),
    ...{ skipped: { ...skipped }, dropped, partial: null, warnings },
    interfaces: [{ index: 0, name, description, link, snapLength, resolution: "1e-9 s", dropped }],
  };
}

type Walked = Pick<CaptureStatistics, "bytes" | "originNs" | "firstNs" | "lastNs" | "shorts">;

function walkedOf(kernels: Kernels, cursor: number, shorts: number): Walked {
  const begun = kernels.readU32(cursor + CursorLayout.started) !== 0;
  const originNs = begun ? kernels.readI64(cursor + CursorLayout.origin) : null;
  const latest = kernels.readF64(cursor + CursorLayout.maxTime);
  const sizes = kernels.u32.subarray(shorts >>> 2, (shorts >>> 2) + SHORT_SIZES);
  return {
    bytes: kernels.readCounter(cursor + CursorLayout.bytes),
    originNs,
    firstNs: originNs,
    lastNs: originNs === null ? null : originNs + BigInt(Math.round(latest)),
    shorts: [...sizes.entries()].filter(([, n]) => n > 0),
  };
}
