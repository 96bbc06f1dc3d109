/** Answers for single packets: creating them, and combining the answers of several stores for the same packets. */
import type { PacketAnswers } from "./estimator.ts";

export const NO_MATCH = 0;
export const MATCH = 1;
export const MULTI_MATCH = 2;

export function emptyAnswers(count: number): PacketAnswers {
  return {
    count,
    kind: new Uint8Array(count),
    valueNs: new Float64Array(count).fill(Number.NaN),
    lowNs: new Float64Array(count).fill(Number.NaN),
    highNs: new Float64Array(count).fill(Number.NaN),
    varianceNs2: new Float64Array(count),
    groupPackets: new Float64Array(count),
  };
}

/**
 * Adds the answers of another epoch or part for the same packets. More than one answer is a Multi-Match; the answer of the larger group wins (MAPLE,
 * section 3.3.4).
 */
export function combineAnswers(into: PacketAnswers, other: PacketAnswers): void {
  for (let i = 0; i < into.count; i++) {
    if (other.kind[i] === NO_MATCH) continue;
    const first = into.kind[i] === NO_MATCH;
    const isBetter = first || other.groupPackets[i]! > into.groupPackets[i]!;
    into.kind[i] = first ? other.kind[i]! : MULTI_MATCH;
    into.lowNs[i] = first ? other.lowNs[i]! : Math.min(into.lowNs[i]!, other.lowNs[i]!);
    into.highNs[i] = first ? other.highNs[i]! : Math.max(into.highNs[i]!, other.highNs[i]!);
    if (!isBetter) continue;
    into.valueNs[i] = other.valueNs[i]!;
    into.varianceNs2[i] = other.varianceNs2[i]!;
    into.groupPackets[i] = other.groupPackets[i]!;
  }
}

/** Concatenates answers for different packets. */
export function joinAnswers(lists: readonly PacketAnswers[]): PacketAnswers {
  const out = emptyAnswers(lists.reduce((n, a) => n + a.count, 0));
  let at = 0;
  for (const answers of lists) {
    for (const name of ["kind", "valueNs", "lowNs", "highNs", "varianceNs2", "groupPackets"] as const)
      out[name].set(answers[name], at);
    at += answers.count;
  }
  return out;
}

/** Spreads the answers for some rows over all n rows; the other rows have no answer. */
export function scatterAnswers(some: PacketAnswers, rows: readonly number[], n: number): PacketAnswers {
  if (rows.length === n) return some;
  const all = emptyAnswers(n);
  rows.forEach((row, i) => {
    all.kind[row] = some.kind[i]!;
    all.valueNs[row] = some.valueNs[i]!;
    all.lowNs[row] = some.lowNs[i]!;
    all.highNs[row] = some.highNs[i]!;
    all.varianceNs2[row] = some.varianceNs2[i]!;
    all.groupPackets[row] = some.groupPackets[i]!;
  });
  return all;
}
