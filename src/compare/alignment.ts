/**
 * How far two captures' clocks are apart when that is more than the matching window: from packets with equal digests anywhere in both captures. The
 * smallest digests of each are the sample, so that both keep the same packets without knowing of each other; clock/alignment.ts finds the offset
 * that they agree on.
 */
import type { Kernels } from "../base/kernels.ts";
import { type CaptureOptions, CaptureReader } from "../capture/reader.ts";
import { type Alignment, findAlignment } from "../clock/alignment.ts";

const SAMPLE = 32_768;

/** Of AFTER's clock against BEFORE's, with the delay on the way; null where no offset stands out. */
export async function sampleAlignment(
  kernels: Kernels,
  files: { before: string; after: string },
  capture: CaptureOptions,
  originNs: bigint,
): Promise<Alignment | null> {
  const samples = [];
  for (const path of [files.before, files.after]) {
    const reader = await CaptureReader.open(kernels, path, capture);
    let kept: { high: number; low: number; timeNs: number }[] = [];
    let limit = 0x1_0000_0000;
    while (await reader.next()) {
      const { digest, timeNs, count } = reader.batch;
      const shift = Number((reader.originNs ?? originNs) - originNs);
      for (let i = 0; i < count; i++) {
        const high = digest[2 * i + 1]!;
        if (high < limit) kept.push({ high, low: digest[2 * i]!, timeNs: timeNs[i]! + shift });
      }
      while (kept.length > SAMPLE) {
        limit /= 2;
        kept = kept.filter((p) => p.high < limit);
      }
    }
    reader.close();
    reader.free();
    samples.push({ kept, limit });
  }
  const [a, b] = samples as [(typeof samples)[0], (typeof samples)[0]];
  const byDigest = new Map<string, number[]>();
  for (const p of a.kept) {
    const name = `${p.high}:${p.low}`;
    const list = byDigest.get(name);
    if (list) list.push(p.timeNs);
    else byDigest.set(name, [p.timeNs]);
  }
  const pairs = [];
  for (const p of b.kept) {
    for (const beforeNs of (byDigest.get(`${p.high}:${p.low}`) ?? []).slice(0, 8))
      pairs.push({ beforeNs, afterNs: p.timeNs });
  }
  if (pairs.length < 3) return null;
  return findAlignment(pairs);
}
