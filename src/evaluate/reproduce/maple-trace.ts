/** The traffic of MAPLE's figures, its structures at the paper's sizes, and centres. */
import { Random } from "../../base/random.ts";
import { histogramOf } from "../../estimators/maple/cell-table.ts";
import type { Centres } from "../../estimators/maple/centres/centres.ts";
import { epochCentres } from "../../estimators/maple/centres/epoch-centres.ts";
import { CentrePipeline, type Strategy } from "../../estimators/maple/centres/pipeline.ts";
import { PLAIN_STORE } from "../maple-stores.ts";
import { referenceTrace, type Trace, type TraceEpoch } from "../reference-trace.ts";
import type { StudyContext } from "./study.ts";

export const K = 50;
export const BITS = 12.8;
export const SVBF = { ...PLAIN_STORE, kind: "svbf", hashes: 9 } as const;
/** As in section 5.3, at 12.8 bits; table 1 gives it 24.2 bits and six functions. */
export const COMB = { ...PLAIN_STORE, kind: "comb", hashes: 3, f: 8, theta: 3 } as const;
/** A code of six bits distinguishes 64 centres. */
export const RIBBON = { ...PLAIN_STORE, kind: "ribbon", codeBits: 6 } as const;
export const PBF = { ...PLAIN_STORE, kind: "pbf", hashes: 9 } as const;

/** `quick`: seconds (and epochs) of a quick run. */
export function traceOf({ kernels, scale, seed }: StudyContext, quick = 4): Promise<Trace> {
  return referenceTrace(kernels, { seed, seconds: scale === "full" ? 10 : quick });
}

export function traceText(trace: Trace): string {
  return `${trace.epochs.length} epochs of 1 s at 400,000 packets/s, 88 % utilisation, k = ${K}, 12.8 bits per packet; centres from two epochs before`;
}

/** Returns the epochs that have centres learnt two epochs before, with these centres. */
export function learn(trace: Trace, strategy: Strategy): { epoch: TraceEpoch; centres: Centres }[] {
  const pipeline = new CentrePipeline({ strategy, k: K, random: new Random(7), memory: 0 });
  return trace.epochs.flatMap((epoch, i) => {
    const current = pipeline.current;
    pipeline.observe(epoch.delayNs);
    pipeline.endEpoch();
    return i >= 2 ? [{ epoch, centres: current }] : [];
  });
}

export function ownCentres(
  { kernels }: StudyContext,
  delays: Float64Array,
  k: number,
  scale: "log" | "absolute",
): Centres {
  const at = kernels.alloc(8 * delays.length);
  try {
    kernels.f64.set(delays, at >>> 3);
    const options = scale === "log" ? { scale, s0Ns: 200 } : { scale };
    return epochCentres(histogramOf(kernels, at, delays.length), k, options);
  } finally {
    kernels.free(at);
  }
}
