/**
 * The relation of two different records of one epoch of one tap. A rotated capture, or a program that is stopped and started, observes an epoch in parts;
 * observing a capture again after it has grown gives more of the same part. Parts are recognised by their times (record.ts, Span): parts separate in time may
 * be merged, once each.
 */
import { earlier, later } from "../base/time.ts";
import type { RecordHead } from "./record.ts";
import { JITTER_NS, type Span } from "./spans.ts";

export type Relation =
  /** All of the new one is in the old one. */
  | "contained"
  /** All of the old one is in the new one, and more. */
  | "extends"
  /** Different parts of the epoch. */
  | "apart"
  /** Neither: they contradict each other, or it cannot be known. */
  | "other";

export function relationOf(stored: RecordHead, record: RecordHead): Relation {
  const cut = ({ epoch }: RecordHead) => epoch.cutHead || epoch.cutTail;
  if (stored.void !== null || record.void !== null) return "other";
  if (stored.spans && record.spans) return relationOfSpans(stored.spans, record.spans);
  // Observed at once: then anything observed again is part of it.
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

/** Records of version 1 do not state their parts: one that begins alike and has more continues where the other ended. */
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
  return earlier(a.lastNs, b.lastNs) - later(a.firstNs, b.firstNs);
}
