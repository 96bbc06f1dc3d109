import { PLAIN_STORE } from "../maple-stores.ts";
import { referenceTrace, type Trace } from "../reference-trace.ts";
import type { StudyContext } from "./study.ts";

export const K = 50;
export const BITS = 12.8;
export const SVBF = { ...PLAIN_STORE, kind: "svbf", hashes: 9 } as const;
export const COMB = { ...PLAIN_STORE, kind: "comb", hashes: 3, f: 8, theta: 3 } as const;
/** Six bits hold the code of 64 centres. */
export const RIBBON = { ...PLAIN_STORE, kind: "ribbon", codeBits: 6 } as const;
export const PBF = { ...PLAIN_STORE, kind: "pbf", hashes: 9 } as const;

/** `quick`: seconds, and epochs, of a quick run. */
export function traceOf({ kernels, scale, seed }: StudyContext, quick = 4): Promise<Trace> {
  return referenceTrace(kernels, { seed, seconds: scale === "full" ? 10 : quick });
}

export function traceText(trace: Trace): string {
  return `${trace.epochs.length} epochs of 1 s at 400,000 packets/s, 88 % utilisation, k = ${K}, 12.8 bits per packet; centres from two epochs before`;
}
