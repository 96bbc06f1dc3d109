/** Which rows of segments are asked for, and how a question names them. */

export interface RowSelection {
  from: string;
  to: string;
  label: string;
  estimator: string;
  fromNs: bigint;
  toNs: bigint;
}

/** Of a segment and estimator, from a time on. */
export type RowsFrom = Pick<RowSelection, "from" | "to" | "label" | "estimator"> & { startNs: bigint };

export function namesOf({ from, to, label, estimator }: Omit<RowsFrom, "startNs">): string[] {
  return [from, to, label, estimator];
}

/** Of each segment and estimator once. */
export function distinctNames(spans: readonly RowsFrom[]): string[][] {
  return [...new Map(spans.map((span) => [JSON.stringify(namesOf(span)), namesOf(span)])).values()];
}

/** Places of so many tuples of four names, the first of them after `$before`, as a list of IN. */
export function tuples(count: number, first: number): string {
  return Array.from({ length: count }, (_, i) => {
    const at = first + 4 * i;
    return `($${at}, $${at + 1}, $${at + 2}, $${at + 3})`;
  }).join(", ");
}

/** Start of the step that a time lies in. */
export function bucketOf(ns: bigint, step: number): bigint {
  const lengthNs = BigInt(step) * 1_000_000_000n;
  return lengthNs === 0n ? ns : ns - (((ns % lengthNs) + lengthNs) % lengthNs);
}
