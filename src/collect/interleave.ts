/** Takes one of each source in turn, until all have ended: so no source waits for another one to end. */
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
