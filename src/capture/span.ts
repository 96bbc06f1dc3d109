/** How long a capture is, from its beginning: read so far, and as far as the size of the file says for the rest. */
import type { Kernels } from "../base/kernels.ts";
import { CaptureReader } from "./reader.ts";

/** Batches that are read: about 65,000 packets. */
const BATCHES = 32;

/** Null where it cannot be known without reading standard input away. */
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
