/**
 * MAPLE epoch by epoch: mixed ribbons (5.2 bits per packet) compared with SVBF (12.8), and the share of packets that PBF leaves out if it uses the shares of
 * the epoch two before (the paper) or an average over epochs.
 */
import type { Kernels } from "../base/kernels.ts";
import { Random } from "../base/random.ts";
import { CentrePipeline } from "../estimators/maple/centres/pipeline.ts";
import { ask, fill } from "./maple-questions.ts";
import { mixedStore, PLAIN_STORE, relativeErrors } from "./maple-stores.ts";
import { quantile, referenceTrace, type TraceEpoch } from "./reference-trace.ts";

export interface EpochErrors {
  readonly median: number;
  readonly p90: number;
}

export interface MapleEpoch {
  readonly epoch: number;
  /** Offered load relative to the drain rate. */
  readonly load: number;
  readonly svbf: EpochErrors;
  readonly mixed: EpochErrors;
  /** Share of packets that PBF leaves out: with the shares of one epoch, and with averaged shares. */
  readonly leftOut: readonly [number, number];
}

const MAX_MIXED_BITS = 5.2;

/** Ten seconds of the reference traffic at 88 %, in epochs of 1 s, starting with the third. */
export async function mapleEpochs(kernels: Kernels, seed: number): Promise<MapleEpoch[]> {
  const trace = await referenceTrace(kernels, { seed, seconds: 10 });
  const pipeline = (memory: number) =>
    new CentrePipeline({ strategy: "hybrid", k: 50, random: new Random(7), memory });
  const [byOne, averaged] = [pipeline(0), pipeline(0.8)];
  const rows: MapleEpoch[] = [];
  for (const [epoch, e] of trace.epochs.entries()) {
    if (epoch >= 2)
      rows.push({
        epoch,
        load: (8 * e.wireLength.reduce((a, b) => a + b, 0)) / trace.rateBps,
        svbf: svbfErrors(kernels, e, averaged),
        mixed: mixedErrors(kernels, e, trace.rateBps),
        leftOut: [pbfLeftOut(kernels, e, byOne), pbfLeftOut(kernels, e, averaged)],
      });
    for (const one of [byOne, averaged]) {
      one.observe(e.delayNs);
      one.endEpoch();
    }
  }
  return rows;
}

function errorsOf(e: TraceEpoch, estimateNs: Float64Array): EpochErrors {
  const errors = relativeErrors(e, estimateNs);
  return { median: quantile(errors, 0.5), p90: quantile(errors, 0.9) };
}

function pbfLeftOut(kernels: Kernels, e: TraceEpoch, { current }: CentrePipeline): number {
  const filled = fill(kernels, e, current, { ...PLAIN_STORE, kind: "pbf", hashes: 9 }, 12.8);
  const share = filled.store.leftOut / e.count;
  filled.free();
  return share;
}

function svbfErrors(kernels: Kernels, e: TraceEpoch, { current }: CentrePipeline): EpochErrors {
  const filled = fill(kernels, e, current, { ...PLAIN_STORE, kind: "svbf", hashes: 9 }, 12.8);
  const { estimateNs } = ask(kernels, filled);
  filled.free();
  return errorsOf(e, estimateNs);
}

function mixedErrors(kernels: Kernels, e: TraceEpoch, rateBps: number): EpochErrors {
  const { filled, estimateNs } = mixedStore(kernels, e, rateBps);
  const bits = filled.store.bits / e.count;
  filled.free();
  if (bits > MAX_MIXED_BITS) throw new Error(`${bits} bits per packet, more than ${MAX_MIXED_BITS}`);
  return errorsOf(e, estimateNs);
}
