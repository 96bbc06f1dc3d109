/** Estimates the duration of a capture from its beginning, extrapolated by the size of the file. */
import type { Kernels } from "../base/kernels.ts";
import { CaptureReader } from "./reader.ts";

/** Number of batches read: about 65,000 packets. */
const BATCHES = 32;

/** Returns null if the duration cannot be known without consuming standard input. */
export async function estimateSpan(kernels: Kernels, path: string): Promise<number | null> {
  const reader = await CaptureReader.open(kernels, path);
  try {
    if (!reader.source.rereadable || reader.source.size === null) return null;
    let more = true;
    for (let i = 0; more && i < BATCHES; i++) more = await reader.next();
    const read = reader.source.consumed();
    const rest = more && read > 0 ? reader.source.size / read : 1;
    return Math.max(0, reader.maxTimeNs) * rest;
  } finally {
    reader.close();
    reader.free();
  }
}
