/** Selects rows of segments, with the SQL for naming them. */

export interface RowSelection {
  from: string;
  to: string;
  label: string;
  estimator: string;
  fromNs: bigint;
  toNs: bigint;
}

/** A segment and estimator, from a start time on. */
export type RowsFrom = Pick<RowSelection, "from" | "to" | "label" | "estimator"> & { startNs: bigint };

export function namesOf({ from, to, label, estimator }: Omit<RowsFrom, "startNs">): string[] {
  return [from, to, label, estimator];
}

/** Each segment and estimator once. */
export function distinctNames(spans: readonly RowsFrom[]): string[][] {
  return [...new Map(spans.map((span) => [JSON.stringify(namesOf(span)), namesOf(span)])).values()];
}

/** SQL placeholders for `count` tuples of four names, numbered from `first`, as a list for IN. */
export function tuples(count: number, first: number): string {
  return Array.from({ length: count }, (_, i) => {
    const at = first + 4 * i;
    return `($${at}, $${at + 1}, $${at + 2}, $${at + 3})`;
  }).join(", ");
}

/** Returns the start of the step that contains a time. */
export function bucketOf(ns: bigint, step: number): bigint {
  const lengthNs = BigInt(step) * 1_000_000_000n;
  return lengthNs === 0n ? ns : ns - (((ns % lengthNs) + lengthNs) % lengthNs);
}
