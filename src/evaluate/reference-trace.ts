/** Simulated traffic as columns by epoch, with true delays; MAPLE's thresholds are measured on it. */

import type { Kernels } from "../base/kernels.ts";
import { entryAt } from "../base/lists.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../capture/reader.ts";
import { simulate } from "../simulate/simulate.ts";

/** The packets that arrived, of one epoch (by send time), in order. */
export interface TraceEpoch {
  count: number;
  digest: BigUint64Array;
  flowHash: BigUint64Array;
  delayNs: Float64Array;
  sentNs: Float64Array;
  wireLength: Uint32Array;
  ipid: Uint32Array;
  /** IPv4 source address. */
  source: Uint32Array;
}

export interface Trace {
  epochs: TraceEpoch[];
  lost: number;
  rateBps: number;
}

export interface TraceOptions {
  seed: number;
  utilisation?: number;
  seconds: number;
  ratePps?: number;
  epochNs?: number;
}

/** Runs the reference traffic: heavy-tailed flows through one RED queue at the given utilisation. */
export async function referenceTrace(kernels: Kernels, options: TraceOptions): Promise<Trace> {
  const { seed, seconds } = options;
  const epochNs = options.epochNs ?? 1e9;
  const simulation = simulate(kernels, {
    seed,
    traffic: { kind: "synthetic", ratePps: options.ratePps ?? 400_000, durationS: seconds },
    path: [
      {
        kind: "queue",
        discipline: "red",
        capacityPackets: 10_000,
        red: { minTh: 4000, maxTh: 9000, weight: 0.002, maxP: 1 / 50 },
        utilisation: options.utilisation ?? 0.88,
      },
    ],
  });
  const offered = await simulation.offered();
  const rateBps = (offered.bytes * 8e9) / offered.durationNs / (options.utilisation ?? 0.88);
  const mask = FlowKeySpec.parse("5tuple").store(kernels);
  const parts: TraceEpoch[][] = Array.from({ length: Math.ceil((seconds * 1e9) / epochNs) }, () => []);
  let lost = 0;
  for await (const batch of simulation.combined()) {
    kernels.call.keyFlows(batch.address, mask, DEFAULT_SEED);
    const { count, timeNs, delayNs } = batch;
    for (let from = 0; from < count; ) {
      const epoch = Math.min(parts.length - 1, Math.floor(timeNs[from]! / epochNs));
      let to = from;
      const rows: number[] = [];
      for (; to < count && Math.min(parts.length - 1, Math.floor(timeNs[to]! / epochNs)) === epoch; to++) {
        if (Number.isNaN(delayNs[to]!)) lost++;
        else rows.push(to);
      }
      entryAt(parts, epoch).push({
        count: rows.length,
        digest: BigUint64Array.from(rows, (i) => kernels.u64[(batch.column("digest") >>> 3) + i]!),
        flowHash: BigUint64Array.from(rows, (i) => kernels.u64[(batch.column("flowHash") >>> 3) + i]!),
        delayNs: Float64Array.from(rows, (i) => Math.round(delayNs[i]!)),
        sentNs: Float64Array.from(rows, (i) => timeNs[i]!),
        wireLength: Uint32Array.from(rows, (i) => batch.wireLength[i]!),
        ipid: Uint32Array.from(rows, (i) => batch.ipid[i]!),
        source: Uint32Array.from(rows, (i) => batch.addrA[2 * i + 1]!),
      });
      from = to;
    }
  }
  kernels.free(mask);
  return { epochs: parts.map(join), lost, rateBps };
}

function join(parts: TraceEpoch[]): TraceEpoch {
  const count = parts.reduce((n, p) => n + p.count, 0);
  const out: TraceEpoch = {
    count,
    digest: new BigUint64Array(count),
    flowHash: new BigUint64Array(count),
    delayNs: new Float64Array(count),
    sentNs: new Float64Array(count),
    wireLength: new Uint32Array(count),
    ipid: new Uint32Array(count),
    source: new Uint32Array(count),
  };
  let at = 0;
  for (const p of parts) {
    out.digest.set(p.digest, at);
    out.flowHash.set(p.flowHash, at);
    out.delayNs.set(p.delayNs, at);
    out.sentNs.set(p.sentNs, at);
    out.wireLength.set(p.wireLength, at);
    out.ipid.set(p.ipid, at);
    out.source.set(p.source, at);
    at += p.count;
  }
  return out;
}

/** Returns the q-quantile by nearest rank; sorts a copy. */
export function quantile(values: ArrayLike<number>, q: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))]!;
}

export function mean(values: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]!;
  return sum / values.length;
}
