/**
 * Compares expected with received records. A record of a point is expected for every epoch that the other endpoint of one of its segments has;
 * received records count as expected in any case.
 */
import { NO_ARRIVALS, type PointArrivals } from "../results/arrivals-table.ts";
import type { ResultsStore } from "../results/results-store.ts";
import type { SegmentCoverage } from "../results/segment-reader.ts";

export async function coverageOf(results: ResultsStore, fromNs: bigint, toNs: bigint) {
  const segments = await results.coverage(fromNs, toNs);
  const arrivals = await results.arrivals.totals(fromNs, toNs);
  return {
    fromNs: `${fromNs}`,
    toNs: `${toNs}`,
    points: pointsOf(segments, arrivals),
    segments: segments.map((s) => ({ ...s, coverage: s.epochs > 0 ? s.answered / s.epochs : null })),
  };
}

function pointsOf(segments: readonly SegmentCoverage[], arrivals: readonly PointArrivals[]) {
  const key = (point: string, label: string, estimator: string) => JSON.stringify([point, label, estimator]);
  const missing = new Map<string, number>();
  for (const { from, to, label, estimator, missingFrom, missingTo } of segments)
    for (const [point, n] of [
      [from, missingFrom],
      [to, missingTo],
    ] as const) {
      // A point of several segments lacks each record only once, so the maximum counts, not the sum.
      const at = key(point, label, estimator);
      missing.set(at, Math.max(missing.get(at) ?? 0, n));
    }
  const known = new Map(arrivals.map((a) => [key(a.point, a.label, a.estimator), a]));
  const all = [...new Set([...known.keys(), ...missing.keys()])].sort();
  return all.map((at) => {
    const [point = "", label = "", estimator = ""] = JSON.parse(at) as string[];
    const { records: arrived, late, duplicate, refused, bytes } = known.get(at) ?? NO_ARRIVALS;
    const lacks = missing.get(at) ?? 0;
    const expected = arrived + lacks;
    return {
      ...{ point, label, estimator, expected, arrived, missing: lacks, late, duplicate, refused, bytes },
      coverage: expected > 0 ? arrived / expected : null,
    };
  });
}
