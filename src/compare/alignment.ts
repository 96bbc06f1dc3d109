/**
 * Finds the clock offset of two captures if it exceeds the matching window: from packets with equal digests anywhere in both captures. The packets with the
 * smallest digests of each capture are the sample, so both captures sample the same packets independently; clock/alignment.ts finds the offset that they agree
 * on.
 */
import type { Kernels } from "../base/kernels.ts";
import { type CaptureOptions, CaptureReader } from "../capture/reader.ts";
import {
  type Alignment,
  type AlignmentPair,
  alignDistinct,
  findAlignment,
  MIN_PAIRS,
} from "../clock/alignment.ts";

const SAMPLE = 32_768;
/** Maximum number of packets per digest considered if hardly any packet is distinct. */
const MAX_EQUALS = 8;

export interface SampledAlignment extends Alignment {
  /** Packets that occur once in each capture, and how many of their pairs are within the window without alignment. */
  distinct: number;
  within: number;
}

/** Returns AFTER's clock minus BEFORE's, including the delay; null if no offset stands out. */
export async function sampleAlignment(
  kernels: Kernels,
  files: { before: string; after: string },
  capture: CaptureOptions,
  originNs: bigint,
  windowNs: number,
): Promise<SampledAlignment | null> {
  const before = await sampleOf(kernels, files.before, capture, originNs);
  const after = await sampleOf(kernels, files.after, capture, originNs);
  // Distinct packets first: every equal packet has several partners, most of them wrong.
  const pairs = pairsOf(before, after, 1);
  const few = pairs.length < MIN_PAIRS;
  const equals = few ? pairsOf(before, after, MAX_EQUALS) : [];
  const found = !few
    ? (findAlignment(pairs) ?? alignDistinct(pairs, windowNs))
    : equals.length < MIN_PAIRS
      ? null
      : findAlignment(equals);
  const within = pairs.filter(({ beforeNs, afterNs }) => Math.abs(afterNs - beforeNs) <= windowNs).length;
  return found && { ...found, distinct: pairs.length, within };
}

/** Times of each sampled digest. */
type Sample = Map<string, number[]>;

async function sampleOf(
  kernels: Kernels,
  path: string,
  capture: CaptureOptions,
  originNs: bigint,
): Promise<Sample> {
  const reader = await CaptureReader.open(kernels, path, capture);
  let kept: Sample = new Map();
  let limit = 0x1_0000_0000;
  while (await reader.next()) {
    const { digest, timeNs, count } = reader.batch;
    const shift = Number((reader.originNs ?? originNs) - originNs);
    for (let i = 0; i < count; i++) {
      const high = digest[2 * i + 1]!;
      if (high >= limit) continue;
      const name = `${high}:${digest[2 * i]!}`;
      const times = kept.get(name);
      if (!times) kept.set(name, [timeNs[i]! + shift]);
      else if (times.length <= MAX_EQUALS) times.push(timeNs[i]! + shift);
    }
    while (kept.size > SAMPLE) {
      limit /= 2;
      kept = new Map([...kept].filter(([name]) => Number.parseInt(name, 10) < limit));
    }
  }
  reader.close();
  reader.free();
  return kept;
}

/** Returns the pairs of packets with equal digests that occur at most `most` times in each capture. */
function pairsOf(before: Sample, after: Sample, most: number): AlignmentPair[] {
  const pairs: AlignmentPair[] = [];
  for (const [name, arrivals] of after) {
    const sent = before.get(name) ?? [];
    if (sent.length > most || arrivals.length > most) continue;
    for (const afterNs of arrivals) for (const beforeNs of sent) pairs.push({ beforeNs, afterNs });
  }
  return pairs;
}
