/** One of each in turn, until all have come to their end: what many wait for does not come one source after the other. */
export function* interleave<T>(sources: Iterable<Iterator<T>>): Generator<T> {
  let left = [...sources];
  while (left.length > 0) {
    const rest: Iterator<T>[] = [];
    for (const source of left) {
      const { done, value } = source.next();
      if (done) continue;
      rest.push(source);
      yield value;
    }
    left = rest;
  }
}
