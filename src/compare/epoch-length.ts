/** Default length of intervals: about sixty of them, of 10 ms to 1 s, in steps of 1, 2 and 5. */

export const DEFAULT_EPOCH_NS = 1e9;
const EPOCHS = 60;
const [MIN_NS, MAX_NS] = [10e6, 1e9];

export function epochFor(spanNs: number): number {
  const wanted = Math.min(MAX_NS, Math.max(MIN_NS, spanNs / EPOCHS));
  const scale = 10 ** Math.floor(Math.log10(wanted));
  return scale * ([1, 2, 5].find((m) => wanted <= m * scale * 1.0001) ?? 10);
}
