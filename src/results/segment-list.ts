/** Sorts and filters the segments of an overview: for the table on the overview page, and for `hoptime query URL --list segments`. */
import { HEALTHS, type Health, healthOf, overNormal } from "./health.ts";
import type { SegmentOverview } from "./overview.ts";

/** Number of steps in an overview's sparklines, and on the map's slider. */
export const OVERVIEW_STEPS = 60;
export const MAP_STEPS = 120;

const VALUES = {
  name: (s: SegmentOverview) => `${s.from} ${s.to} ${s.label}`,
  delay: (s: SegmentOverview) => s.latest?.latency?.meanNs ?? -1,
  normal: (s: SegmentOverview) => overNormal(s) ?? -1,
  loss: (s: SegmentOverview) => (s.sent ? (s.lost ?? 0) / s.sent : -1),
  coverage: (s: SegmentOverview) => s.latest?.answered ?? -1,
  state: (s: SegmentOverview, nowMs: number) => -HEALTHS.indexOf(healthOf(s, nowMs)),
} satisfies Record<string, (s: SegmentOverview, nowMs: number) => number | string>;

export type SegmentOrder = keyof typeof VALUES;
export const SEGMENT_ORDERS = Object.keys(VALUES) as SegmentOrder[];

/** Default order: descending, except by name. */
export const isDownUsual = (sort: SegmentOrder): boolean => sort !== "name";

export function orderSegments<T extends SegmentOverview>(
  segments: readonly T[],
  { sort, down, nowMs }: { sort: SegmentOrder; down: boolean; nowMs: number },
): T[] {
  const keyed = segments.map((segment) => ({
    segment,
    by: VALUES[sort](segment, nowMs),
    name: `${segment.from} ${segment.to}`,
  }));
  keyed.sort((a, b) => {
    const order = a.by < b.by ? -1 : a.by > b.by ? 1 : 0;
    return (down ? -order : order) || (a.name < b.name ? -1 : 1);
  });
  return keyed.map((k) => k.segment);
}

export function isLookedFor(
  segment: SegmentOverview,
  { search, state, nowMs }: { search: string; state: Health | null; nowMs: number },
): boolean {
  const { from, to, label, estimator } = segment;
  return (
    (state === null || healthOf(segment, nowMs) === state) &&
    `${from} → ${to} ${label} ${estimator}`.toLowerCase().includes(search.toLowerCase())
  );
}
