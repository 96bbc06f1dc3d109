/**
 * Two records of one epoch of one tap that are not equal: what they are to each other. A capture that is rotated, or a program that is stopped and started, observes an
 * epoch in parts; observing a capture again that has grown gives more of the same part. Told by the times of what each holds (record.ts, Span): parts that
 * lie apart in time may be put together, once each.
 */
import { MAX_SPANS, type RecordHead, type Span } from "./record.ts";

export type Relation =
  /** All of the new one is in the old one. */
  | "contained"
  /** All of the old one is in the new one, and more. */
  | "extends"
  /** Different parts of the epoch. */
  | "apart"
  /** Neither: they contradict each other, or it cannot be known. */
  | "other";

/** Timestamps are out of order by so much where one file ends and the next begins. */
const JITTER_NS = 10_000_000n;

export function relationOf(stored: RecordHead, record: RecordHead): Relation {
  const cut = ({ epoch }: RecordHead) => epoch.cutHead || epoch.cutTail;
  if (stored.void !== null || record.void !== null) return "other";
  if (stored.spans && record.spans) return relationOfSpans(stored.spans, record.spans);
  // Observed in one go: whatever part of it is observed again.
  if (!cut(stored))
    return cut(record) && record.counters.packets <= stored.counters.packets ? "contained" : "other";
  if (!cut(record)) return record.counters.packets >= stored.counters.packets ? "extends" : "other";
  return formerRelation(stored, record);
}

function relationOfSpans(stored: readonly Span[], record: readonly Span[]): Relation {
  if (record.every((span) => stored.some((s) => holds(s, span)))) return "contained";
  if (stored.every((span) => record.some((s) => holds(s, span)))) return "extends";
  const meet = record.some((span) => stored.some((s) => overlap(s, span) > JITTER_NS));
  return meet ? "other" : "apart";
}

/** Records of version 1 do not tell what they hold: one that begins alike and has more goes on where the other ended. */
function formerRelation(stored: RecordHead, record: RecordHead): Relation {
  if (record.counters.packets === 0) return "contained";
  if (stored.counters.packets === 0) return "extends";
  const goesOn =
    stored.epoch.cutTail &&
    stored.epoch.cutHead === record.epoch.cutHead &&
    record.epoch.endNs >= stored.epoch.endNs &&
    record.counters.packets > stored.counters.packets;
  return goesOn ? "extends" : "other";
}

function holds(outer: Span, inner: Span): boolean {
  return inner.firstNs >= outer.firstNs && inner.lastNs <= outer.lastNs && inner.packets <= outer.packets;
}

function overlap(a: Span, b: Span): bigint {
  const from = a.firstNs > b.firstNs ? a.firstNs : b.firstNs;
  const to = a.lastNs < b.lastNs ? a.lastNs : b.lastNs;
  return to - from;
}

/** Of both, by time; neighbours become one where there are too many. */
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

/** A gap between two parts that is so many times the usual one between packets was not observed. */
const WIDE = 20n;

/** Between the parts lies more than the time between two packets: something of the epoch is missing. */
export function hasGap(spans: readonly Span[]): boolean {
  const packets = spans.reduce((n, s) => n + s.packets, 0);
  const seenNs = spans.reduce((n, s) => n + s.lastNs - s.firstNs, 0n);
  const usualNs = packets > 1 ? seenNs / BigInt(packets - 1) : 0n;
  const most = WIDE * usualNs > JITTER_NS ? WIDE * usualNs : JITTER_NS;
  return spans.some((span, i) => {
    const before = spans[i - 1];
    return before !== undefined && span.firstNs - before.lastNs > most;
  });
}
