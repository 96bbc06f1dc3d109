/**
 * Returns a function that caches the results of `make` by text, for inputs that recur often, such as names of points or parameters. The cache holds at most
 * `most` entries and is cleared when full.
 */
export function remembered<T>(most: number, make: (text: string) => T): (text: string) => T {
  const known = new Map<string, T>();
  return (text) => {
    const found = known.get(text);
    if (found !== undefined) return found;
    const made = make(text);
    if (known.size >= most) known.clear();
    known.set(text, made);
    return made;
  };
}
