/** The state of a monitored path in its last complete epoch. */
import type { PathWatch, WatchedPath } from "../../network/incidents/path-watch.ts";
import type { LocaliseEstimate } from "../../network/localise/segment-estimate.ts";

export interface NetworkPath extends WatchedPath {
  /** The estimator whose answers count; null: the first with an answer. */
  estimator: string | null;
}

export interface PathState extends NetworkPath {
  /** The last complete epoch; null before the first. */
  startNs: string | null;
  endNs: string | null;
  segments: {
    from: string;
    to: string;
    latency: { meanNs: number; lowNs: number | null; highNs: number | null } | null;
    /** Share of the sum over all segments. */
    share: number | null;
    packets: number | null;
    lost: number | null;
    lossRate: number | null;
  }[];
  latency: { meanNs: number; lowNs: number | null; highNs: number | null } | null;
  /** Ids of the open incidents. */
  incidents: string[];
}

/** Interval of a sum: the segments' errors are independent, so their squares add up. */
function around(meanNs: number, parts: readonly PathPart[]): { lowNs: number | null; highNs: number | null } {
  const half = (end: "lowNs" | "highNs"): number | null => {
    let squares = 0;
    for (const part of parts) {
      const [value, mean] = [part?.[end] ?? null, part?.meanNs ?? null];
      if (value === null || mean === null) return null;
      squares += (value - mean) ** 2;
    }
    return Math.sqrt(squares);
  };
  const [below, above] = [half("lowNs"), half("highNs")];
  return {
    lowNs: below === null ? null : meanNs - below,
    highNs: above === null ? null : meanNs + above,
  };
}

type PathPart = NonNullable<ReturnType<PathWatch["latest"]>>["row"][number] | undefined;

/** Differences up to this many standard errors may be packets in flight at the epoch's ends, so they count as no loss. */
const IN_FLIGHT = 2;

/** Returns the loss beyond packets in flight; null if unknown. */
function lostBeyondFlight({
  lost,
  lostError = 0,
}: Pick<LocaliseEstimate, "lost" | "lostError">): number | null {
  if (lostError === Number.POSITIVE_INFINITY) return null;
  return lost <= IN_FLIGHT * lostError ? 0 : lost;
}

/** State of the last complete epoch: per segment and for the whole path. */
export function pathState(points: readonly string[], last: ReturnType<PathWatch["latest"]>) {
  const parts = points.slice(1).map((_, i) => last?.row[i]);
  const sum = parts.reduce<number | null>(
    (total, e) => (total === null || !e || e.meanNs === null ? null : total + e.meanNs),
    0,
  );
  const positive = parts.every((e) => e && e.meanNs !== null && e.meanNs >= 0);
  return {
    startNs: last ? `${last.startNs}` : null,
    endNs: last ? `${last.endNs}` : null,
    latency: sum === null ? null : { meanNs: sum, ...around(sum, parts) },
    segments: parts.map((e, i) => {
      const sent = e ? e.packets + e.lost : 0;
      const lost = e ? lostBeyondFlight(e) : null;
      return {
        from: points[i] ?? "",
        to: points[i + 1] ?? "",
        latency: e && e.meanNs !== null ? { meanNs: e.meanNs, lowNs: e.lowNs, highNs: e.highNs } : null,
        share: e && e.meanNs !== null && sum !== null && sum > 0 && positive ? e.meanNs / sum : null,
        packets: e ? e.packets : null,
        lost,
        lossRate: lost !== null && sent > 0 ? lost / sent : null,
      };
    }),
  };
}
