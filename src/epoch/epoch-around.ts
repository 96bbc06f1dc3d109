/** Times of a capture's first and last packet, ns since 1970. */
export interface Span {
  readonly firstNs: bigint;
  readonly lastNs: bigint;
}

const MS = 1_000_000n;
/** How many lengths are tried. */
const TRIES = 20_000;

/**
 * The length of an epoch, ns, such that all of these packets are in the same one: epochs are cut at its multiples since 1970. Whole milliseconds. A little
 * more than the captures last is mostly enough, as the place of the cuts changes with every millisecond.
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
