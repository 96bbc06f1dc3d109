/** Batches made by hand, for tests that need rows without a capture. */
import type { Kernels } from "../../src/base/kernels.ts";
import { PacketBatch } from "../../src/capture/batch.ts";

export interface Row {
  timeNs: number;
  /** Upper and lower half of the digest. */
  digest?: [high: number, low: number];
  flow?: number;
  flags?: number;
  wireLength?: number;
}

export function makeBatch(kernels: Kernels, rows: readonly Row[]): PacketBatch {
  const batch = new PacketBatch(kernels, Math.max(1, rows.length));
  batch.count = rows.length;
  rows.forEach((row, i) => {
    batch.timeNs[i] = row.timeNs;
    const [high, low] = row.digest ?? [0xffff_ffff, i];
    batch.digest.set([low, high], 2 * i);
    batch.flowHash.set([row.flow ?? 1, 0], 2 * i);
    batch.meta.set([0, 0], 2 * i);
    batch.addrA.set([row.flow ?? 1, 0x0a00_0001], 2 * i);
    batch.flags[i] = row.flags ?? 0;
    batch.header[i] = 0;
    batch.captured[i] = 0;
    batch.iface[i] = 0;
    batch.wireLength[i] = row.wireLength ?? 100;
  });
  return batch;
}
