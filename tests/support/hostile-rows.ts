/** Rows with difficult values for taps: equal and extreme digests, times before the epoch, both IP versions, odd lengths, lost and negative delays. */
import type { Kernels } from "../../src/base/kernels.ts";
import { Random } from "../../src/base/random.ts";
import { PacketBatch } from "../../src/capture/batch.ts";
import { FlowKeySpec } from "../../src/capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../../src/capture/reader.ts";
import type { SealedEpoch, Tap } from "../../src/estimators/estimator.ts";

export interface HostileRow {
  timeNs: number;
  digest: [low: number, high: number];
  meta: [low: number, high: number];
  /** Eight words: addrA to addrD. */
  address: number[];
  wireLength: number;
  delayNs: number;
  /** Bits in addition to the TTL, such as the simulator's mark of reference packets. */
  flags?: number;
}

const IPV6 = 1 << 27;
const PORTS = 1 << 28;

export function hostileRows(seed: string, count: number): HostileRow[] {
  const random = new Random(seed);
  const rows: HostileRow[] = [];
  for (let i = 0; i < count; i++) {
    const repeated = rows.length > 0 && random.bernoulli(0.1) ? rows[random.below(rows.length)]! : null;
    const extreme = random.bernoulli(0.02);
    const host = random.bernoulli(0.5) ? random.below(3) : random.below(200);
    const v6 = random.bernoulli(0.3);
    const word = () => (extreme ? (random.bernoulli(0.5) ? 0 : 0xffff_ffff) : random.uint32());
    rows.push({
      timeNs: random.bernoulli(0.05)
        ? -random.below(1e9)
        : random.below(random.bernoulli(0.02) ? 2 ** 50 : 2e9),
      digest: repeated?.digest ?? [word(), word()],
      meta: [random.below(4), 6 | (v6 ? IPV6 : 0) | PORTS],
      address: Array.from({ length: 8 }, (_, w) => (w < (v6 ? 8 : 2) ? host + w : 0)),
      wireLength: random.bernoulli(0.05) ? random.below(2) * 65_535 : 40 + random.below(1460),
      delayNs: random.bernoulli(0.05) ? Number.NaN : random.below(1e6) - (extreme ? 1e5 : 0),
    });
  }
  return rows;
}

/** Returns the rows with every n-th marked as a reference packet, for estimators that get delays from references. */
export function withReferences(rows: readonly HostileRow[], every: number): HostileRow[] {
  return rows.map((row, i) => (i % every === 0 ? { ...row, flags: 1 << 22 } : row));
}

/** Returns keyed batches of the rows; the caller frees them. */
export function toBatches(kernels: Kernels, rows: readonly HostileRow[], size: number): PacketBatch[] {
  const mask = FlowKeySpec.parse().store(kernels);
  const batches: PacketBatch[] = [];
  for (let start = 0; start < rows.length; start += size) {
    const part = rows.slice(start, start + size);
    const batch = new PacketBatch(kernels, part.length);
    batch.count = part.length;
    for (const [i, row] of part.entries()) {
      batch.timeNs[i] = row.timeNs;
      batch.delayNs[i] = row.delayNs;
      batch.digest.set(row.digest, 2 * i);
      batch.meta.set(row.meta, 2 * i);
      batch.addrA.set(row.address.slice(0, 2), 2 * i);
      batch.addrB.set(row.address.slice(2, 4), 2 * i);
      batch.addrC.set(row.address.slice(4, 6), 2 * i);
      batch.addrD.set(row.address.slice(6, 8), 2 * i);
      batch.wireLength[i] = row.wireLength;
      batch.ipid[i] = i & 0xffff;
      batch.flags[i] = 64 | (row.flags ?? 0);
      batch.header[i] = 0;
      batch.captured[i] = 0;
      batch.iface[i] = 0;
    }
    kernels.call.keyFlows(batch.address, mask, DEFAULT_SEED);
    batches.push(batch);
  }
  kernels.free(mask);
  return batches;
}

/** Updates the tap with the rows, in batches of `size`; frees both when the tap is sealed. */
export function sealRows(
  kernels: Kernels,
  tap: Pick<Tap, "update" | "seal" | "free">,
  rows: readonly HostileRow[],
  size = 500,
): SealedEpoch {
  for (const batch of toBatches(kernels, rows, size)) {
    tap.update(batch, 0, batch.count);
    batch.free();
  }
  const sealed = tap.seal();
  tap.free();
  return sealed;
}
