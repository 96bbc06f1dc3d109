/**
 * What a reproduction is made of. A study is one experiment that is run once; it yields findings, one per table or figure of a paper: what the paper says, what the
 * algorithm as written gives, what ours gives, and a verdict. Findings are plain data: they are stored, and reports are made of them.
 */
import type { Kernels } from "../../base/kernels.ts";
import type { Figure } from "../../present/figure/figure.ts";

export const PAPERS = {
  lda: "LDA and MPLANE (Kompella, Levchenko, Snoeren and Varghese, ToN 2012)",
  lds: "LDS (Sanjuàs-Cuxart, Barlet-Ros, Duffield and Kompella, IMC 2011)",
  rli: "RLI (Lee, Duffield and Kompella, ToN)",
  maple: "MAPLE (Lee, Duffield and Kompella, IMC 2012)",
  colate: "COLATE (Shahzad and Liu, SIGMETRICS 2014)",
  beyond: "Beyond the papers",
} as const;
export type Paper = keyof typeof PAPERS;

export type Scale = "quick" | "full";

export const VERDICTS = ["holds", "holds for a class", "does not hold", "measured"] as const;
/** `measured`: the paper claims nothing that could hold or not. */
export type Verdict = (typeof VERDICTS)[number];

/** A level that a right implementation reaches: `value` is at most, or at least, `limit`. */
export interface Threshold {
  readonly what: string;
  readonly value: number;
  readonly limit: number;
  readonly sense: "at most" | "at least";
  readonly quantity: "share" | "time" | "count" | "plain";
  /** What the reference simulation gave. One trace is off by chance: a single run is held against `limit`, the median over seeds against this as well. */
  readonly reference?: number;
}

/** What is known of a finding before it is made. */
export interface FindingHead {
  /** As typed: lda-4a. */
  readonly id: string;
  /** Figure, table or section. */
  readonly where: string;
  readonly title: string;
  /** In our words, with the paper's numbers. */
  readonly claim: string;
}

export interface Finding extends FindingHead {
  readonly paper: Paper;
  readonly setting: string;
  /** In one line each; null where the paper has no algorithm of its own for it. */
  readonly literal: string | null;
  readonly ours: string;
  readonly verdict: Verdict;
  readonly why: string;
  readonly table: { readonly columns: readonly string[]; readonly rows: readonly (readonly string[])[] };
  readonly figures: readonly Figure[];
  readonly thresholds: readonly Threshold[];
}

/** What a study finds of one of its heads. */
export type FindingBody = Omit<Finding, keyof FindingHead | "paper">;

export interface StudyContext {
  readonly kernels: Kernels;
  readonly scale: Scale;
  readonly seed: number;
  /** A file with the map of the network for plans; left out: one that is grown. */
  readonly map?: string | undefined;
  readonly signal?: AbortSignal;
  /** `share` of the study that is done, 0 to 1. */
  readonly onProgress?: (share: number) => void;
}

export interface Study {
  readonly name: string;
  readonly paper: Paper;
  readonly heads: readonly FindingHead[];
  /** Its result depends on the map that is given. */
  readonly usesMap?: boolean;
  /** One body per head, by id. */
  readonly run: (context: StudyContext) => Promise<Record<string, FindingBody>>;
}

export function isMet({ value, limit, sense }: Threshold): boolean {
  return sense === "at most" ? value <= limit : value >= limit;
}

/** Runs of an experiment in a row, with progress, until the signal ends them. */
export async function repeat<T>(
  context: StudyContext,
  count: number,
  one: (i: number) => Promise<T> | T,
): Promise<T[]> {
  const results: T[] = [];
  for (let i = 0; i < count; i++) {
    context.signal?.throwIfAborted();
    results.push(await one(i));
    context.onProgress?.((i + 1) / count);
  }
  return results;
}
