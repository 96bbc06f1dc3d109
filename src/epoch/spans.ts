/** Parts of an epoch: the time ranges in which packets of it were observed. */

import type { ByteReader, ByteWriter } from "../base/bytes.ts";
import { FormatError } from "../base/errors.ts";
import { later } from "../base/time.ts";

/** A part of an epoch: times of the first and the last packet, and their number. */
export interface Span {
  firstNs: bigint;
  lastNs: bigint;
  packets: number;
}

/** Maximum number of merged parts of one epoch. */
const MAX_SPANS = 4096;
/** Timestamps may be out of order by this much where one file ends and the next begins. */
export const JITTER_NS = 10_000_000n;

export function writeSpans(out: ByteWriter, spans: readonly Span[]): void {
  out.varint(spans.length);
  for (const { firstNs, lastNs, packets } of spans) {
    out.i64(firstNs);
    out.i64(lastNs);
    out.varint(packets);
  }
}

/** `minimum`: fewer spans mean damage. */
export function readSpans(reader: ByteReader, minimum: number): Span[] {
  const at = reader.offset;
  const count = reader.varint();
  if (count < minimum || count > MAX_SPANS)
    throw new FormatError("bad-header", reader.file, at, `a record of ${count} parts`);
  return Array.from({ length: count }, () => ({
    firstNs: reader.i64(),
    lastNs: reader.i64(),
    packets: reader.varint(),
  }));
}

/** Merges both lists, by time; adjacent spans are joined if there are too many. */
export function joinSpans(a: readonly Span[] = [], b: readonly Span[] = []): Span[] {
  let spans = [...a, ...b].sort((x, y) => (x.firstNs < y.firstNs ? -1 : x.firstNs > y.firstNs ? 1 : 0));
  while (spans.length > MAX_SPANS) {
    spans = spans.flatMap((span, i) => {
      const next = spans[i + 1];
      if (i % 2 === 1) return [];
      return next ? [{ ...span, lastNs: next.lastNs, packets: span.packets + next.packets }] : [span];
    });
  }
  return spans;
}

/** A gap between two parts of more than this many times the usual gap between packets was not observed. */
const WIDE = 20n;

/** Returns whether a gap between the parts is longer than between two packets: then some of the epoch is missing. */
export function hasGap(spans: readonly Span[]): boolean {
  const packets = spans.reduce((n, s) => n + s.packets, 0);
  const seenNs = spans.reduce((n, s) => n + s.lastNs - s.firstNs, 0n);
  const usualNs = packets > 1 ? seenNs / BigInt(packets - 1) : 0n;
  const most = later(WIDE * usualNs, JITTER_NS);
  return spans.some((span, i) => {
    const before = spans[i - 1];
    return before !== undefined && span.firstNs - before.lastNs > most;
  });
}
