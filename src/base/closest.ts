/** Suggestions for misspelt names. */

/** Returns the name that differs by a typing error or two, if there is one. */
export function closest(name: string, names: readonly string[]): string | undefined {
  const allowed = Math.max(1, Math.floor(name.length / 3));
  let best: string | undefined;
  let minimum = allowed + 1;
  for (const candidate of names) {
    const slips = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (slips < minimum) [best, minimum] = [candidate, slips];
  }
  return best;
}

/** Returns the number of letters inserted, left out, changed, or swapped with their neighbour. */
function editDistance(a: string, b: string): number {
  if (a.length > 64 || b.length > 64) return Number.POSITIVE_INFINITY;
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const changed = a[i - 1] === b[j - 1] ? 0 : 1;
      let minimum = Math.min((next[j - 1] ?? 0) + 1, (row[j] ?? 0) + 1, (row[j - 1] ?? 0) + changed);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        minimum = Math.min(minimum, (before[j - 2] ?? 0) + 1);
      next.push(minimum);
    }
    [before, row] = [row, next];
  }
  return row[b.length] ?? 0;
}
