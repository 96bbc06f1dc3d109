/** Times of a capture's first and last packet, ns since 1970. */
export interface Span {
  readonly firstNs: bigint;
  readonly lastNs: bigint;
}

const MS = 1_000_000n;
/** Number of lengths tried. */
const TRIES = 20_000;

/**
 * Returns an epoch length, ns, such that all of these packets are in the same epoch: epochs are cut at its multiples since 1970. Whole milliseconds. Usually
 * slightly more than the captures' duration suffices, because the position of the cuts changes with every millisecond.
 */
export function epochAround(spans: readonly Span[]): number {
  const byTime = (a: bigint, b: bigint) => Number(a - b);
  const first = spans.map((s) => s.firstNs).sort(byTime)[0] ?? 0n;
  const last =
    spans
      .map((s) => s.lastNs)
      .sort(byTime)
      .at(-1) ?? 0n;
  const least = (last - first) / MS + 1n;
  const step = least / BigInt(TRIES / 4) + 1n;
  for (let i = 0n; i < TRIES; i++) {
    const length = (least + i * step) * MS;
    if (first / length === last / length) return Number(length);
  }
  return Number(least * MS);
}
