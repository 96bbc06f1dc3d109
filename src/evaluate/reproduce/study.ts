/**
 * The types of a reproduction. A study is one experiment; it yields one finding per table or figure of a paper: the paper's claim, the result of the published
 * algorithm, the result of ours, and a verdict. Findings are plain data, which is stored and from which reports are made.
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
/** `measured`: the paper makes no claim that could hold or not. */
export type Verdict = (typeof VERDICTS)[number];

/** A level that a correct implementation reaches: `value` is at most, or at least, `limit`. */
export interface Threshold {
  readonly what: string;
  readonly value: number;
  readonly limit: number;
  readonly sense: "at most" | "at least";
  readonly quantity: "share" | "time" | "count" | "plain";
  /** Value in the reference simulation. A single run is random, so it is compared with `limit`; only the median over seeds is compared with this value. */
  readonly reference?: number;
}

/** What is known about a finding before the study runs. */
export interface FindingHead {
  /** Identifier on the command line, e.g. lda-4a. */
  readonly id: string;
  /** Figure, table or section. */
  readonly where: string;
  readonly title: string;
  /** Paraphrased, with the paper's numbers. */
  readonly claim: string;
}

export interface Finding extends FindingHead {
  readonly paper: Paper;
  readonly setting: string;
  /** One line each; null if the paper has no algorithm for it. */
  readonly literal: string | null;
  readonly ours: string;
  readonly verdict: Verdict;
  readonly why: string;
  readonly table: { readonly columns: readonly string[]; readonly rows: readonly (readonly string[])[] };
  readonly figures: readonly Figure[];
  readonly thresholds: readonly Threshold[];
}

/** The result of a study for one of its heads. */
export type FindingBody = Omit<Finding, keyof FindingHead | "paper">;

export interface StudyContext {
  readonly kernels: Kernels;
  readonly scale: Scale;
  readonly seed: number;
  /** File with the network map for plans; default: a generated map. */
  readonly map?: string | undefined;
  readonly signal?: AbortSignal;
  /** `share`: completed share of the study, 0 to 1. */
  readonly onProgress?: (share: number) => void;
}

export interface Study {
  readonly name: string;
  readonly paper: Paper;
  readonly heads: readonly FindingHead[];
  /** The result depends on the given map. */
  readonly usesMap?: boolean;
  /** Returns one body per head, by id. */
  readonly run: (context: StudyContext) => Promise<Record<string, FindingBody>>;
}

export function isMet({ value, limit, sense }: Threshold): boolean {
  return sense === "at most" ? value <= limit : value >= limit;
}

/** Runs an experiment repeatedly, with progress, until the signal aborts it. */
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
