/** A function whose answers are remembered by a text, for inputs that come again and again: names of points, parameters. Bounded: all are forgotten when there are too many, so that it never costs more than a lookup. */
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
