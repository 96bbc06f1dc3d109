/** Access to values and entries that must exist. A missing one is a bug of ours, reported here rather than wherever `undefined` ends up. */

/** Returns the value; throws an Error with the name `what` if it is missing. */
export function required<T>(value: T, what: string): NonNullable<T> {
  if (value === undefined || value === null) throw new Error(`${what} is missing`);
  return value;
}

/** Returns the entry at `i`; a negative index counts from the end. */
export function entryAt<T>(list: readonly T[], i: number): NonNullable<T> {
  const entry = list.at(i);
  if (entry === undefined || entry === null) throw new Error(`no entry ${i} in a list of ${list.length}`);
  return entry;
}

/** Returns the entry of a key. */
export function entryOf<K, V>(map: ReadonlyMap<K, V>, key: K): V {
  const entry = map.get(key);
  if (entry === undefined) throw new Error(`no entry '${String(key)}' in a map of ${map.size}`);
  return entry;
}
