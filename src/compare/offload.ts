/**
 * Segments that a network card or kernel merged or cut beside the capture (GRO, LRO, TSO): a point that sees one long packet where the other sees
 * several has none to match. Looked for only where both captures hold packets that the other does not: longer packets at one point than at the other
 * in the first of each.
 */
import type { Kernels } from "../base/kernels.ts";
import { type CaptureOptions, CaptureReader } from "../capture/reader.ts";
import type { PassResult } from "./pass.ts";

/** Below this share of packets without a partner, on either side, there is nothing to explain. */
const MIN_UNMATCHED = 0.01;
const LOOKED_AT = 32_768;
/** Longer by this factor is more than another header. */
const LONGER = 1.5;

/** A sentence, or null where offload explains nothing. */
export async function mergedSegments(
  kernels: Kernels,
  files: { before: string; after: string },
  capture: CaptureOptions,
  { before, after, rereadable }: PassResult,
  matched: number,
): Promise<string | null> {
  const unmatched = (side: PassResult["before"]) => used(side) - matched > MIN_UNMATCHED * used(side);
  if (!rereadable || !unmatched(before) || !unmatched(after)) return null;
  const [a, b] = [
    await longest(kernels, files.before, capture),
    await longest(kernels, files.after, capture),
  ];
  if (Math.max(a, b) < LONGER * Math.min(a, b)) return null;
  const [long, short] = a > b ? [before, after] : [after, before];
  return `packets are up to ${Math.max(a, b)} bytes long in ${long.file} and up to ${Math.min(a, b)} in ${short.file}: segments were merged at one point (GRO, LRO, TSO), and what is merged cannot match; capture with ethtool -K IFACE gro off lro off tso off gso off`;
}

const used = (side: PassResult["before"]) => side.ipPackets - (side.skipped["filtered"] ?? 0);

async function longest(kernels: Kernels, file: string, capture: CaptureOptions): Promise<number> {
  const reader = await CaptureReader.open(kernels, file, capture);
  let maximum = 0;
  for (let rows = 0; rows < LOOKED_AT && (await reader.next()); rows += reader.batch.count) {
    const { wireLength, count } = reader.batch;
    for (let i = 0; i < count; i++) maximum = Math.max(maximum, wireLength[i]!);
  }
  reader.close();
  reader.free();
  return maximum;
}
