/** The constant part of the difference of two clocks: its bounds, and well-known offsets.
 *
 * Bounds: no delay is negative, so the offset is at most the smallest forward difference; with reverse packets it is at least the largest reverse difference.
 * The middle of the two is right if the minimum delays of both directions are equal, and wrong by at most half the width: the argument of NTP (RFC 5905,
 * section 8). Well-known offsets: TAI against UTC (36 s from 2015, 37 s from 2017), GPS against UTC (17, 18 s), TAI against GPS (19 s), local time against UTC
 * (multiples of a quarter of an hour), and sums of a zone and one of those. They are recognised only if the remainder is a plausible delay. A clock that is
 * simply wrong, by up to a minute, is taken for a time scale in 3 % of cases; one that is wrong by up to a day for a zone in 0.4 %. One direction cannot show
 * an offset that leaves every delay plausible: the verdict is then "not-measurable", without a lower bound. "none" is reported if both directions agree with
 * equal clocks, or if one clock timestamped both captures.
 */
export type OffsetKind = "none" | "not-measurable" | "tai-utc" | "time-zone" | "constant" | "unknown";

export interface OffsetVerdict {
  kind: OffsetKind;
  /** AFTER's clock minus BEFORE's at the origin, as far as known; 0 for "none" in one direction. */
  estimateNs: number;
  /** Null: no bound on this side. */
  lowNs: number | null;
  highNs: number | null;
  explanation: string;
}

const SECOND = 1e9;
const QUARTER_HOUR = 900 * SECOND;
/** Zones run from -12 to +14 h, so two of them are at most 26 h apart. */
const MAX_QUARTERS = 104;
const ZONE_SLACK = 2 * SECOND;
/** Clocks set to TAI or GPS time are good ones: the remainder is a delay, or the error of an NTP clock. */
const SCALE_MIN = -0.05 * SECOND;
const SCALE_MAX = 0.3 * SECOND;
/** No minimum one-way delay of a working network is longer. */
export const LONGEST_DELAY_NS = 2 * SECOND;

const SCALES: readonly { seconds: number; ahead: string; behind: string }[] = [
  ...[36, 37].map((seconds) => ({ seconds, ahead: "TAI", behind: "UTC" })),
  ...[17, 18].map((seconds) => ({ seconds, ahead: "GPS time", behind: "UTC" })),
  { seconds: 19, ahead: "TAI", behind: "GPS time" },
];

export interface Recognised {
  kind: "tai-utc" | "time-zone";
  offsetNs: number;
  name: string;
}

/** Returns the well-known offset that explains a value (offset plus a delay); null if none does. */
export function recogniseOffset(valueNs: number): Recognised | null {
  const zone = recogniseZone(valueNs);
  if (zone) return zone.offsetNs === 0 ? null : zone;
  for (const { seconds, ahead, behind } of SCALES) {
    for (const sign of [1, -1]) {
      const rest = valueNs - sign * seconds * SECOND;
      const quarters = Math.round(rest / QUARTER_HOUR);
      const remains = rest - quarters * QUARTER_HOUR;
      if (remains < SCALE_MIN || remains > SCALE_MAX || Math.abs(quarters) > MAX_QUARTERS) continue;
      const [after, before] = sign > 0 ? [ahead, behind] : [behind, ahead];
      const also = quarters === 0 ? "" : ` and a time zone of ${hours(quarters)}`;
      return {
        kind: "tai-utc",
        offsetNs: sign * seconds * SECOND + quarters * QUARTER_HOUR,
        name: `AFTER counts ${after}, BEFORE ${before} (${sign * seconds} s)${also}`,
      };
    }
  }
  return null;
}

function recogniseZone(valueNs: number): Recognised | null {
  const quarters = Math.round(valueNs / QUARTER_HOUR);
  if (Math.abs(quarters) > MAX_QUARTERS || Math.abs(valueNs - quarters * QUARTER_HOUR) > ZONE_SLACK)
    return null;
  return {
    kind: "time-zone",
    offsetNs: quarters * QUARTER_HOUR,
    name: `AFTER's clock is set ${hours(quarters)} from BEFORE's: a time zone or summer time`,
  };
}

/** `forwardNs`: smallest forward difference; `reverseNs`: largest reverse difference, or null. Both without the drift. */
export function judgeOffset(forwardNs: number, reverseNs: number | null, quantumNs: number): OffsetVerdict {
  if (reverseNs !== null) return judgeTwoWay(forwardNs, reverseNs, quantumNs);
  const bounds = { lowNs: null, highNs: forwardNs };
  if (forwardNs >= -quantumNs && forwardNs <= LONGEST_DELAY_NS) {
    return {
      kind: "not-measurable",
      estimateNs: 0,
      ...bounds,
      explanation: "not measurable from one direction: delays include it",
    };
  }
  const known = recogniseOffset(forwardNs);
  if (known) return { kind: known.kind, estimateNs: known.offsetNs, ...bounds, explanation: known.name };
  if (forwardNs < 0) {
    return {
      kind: "constant",
      estimateNs: forwardNs,
      ...bounds,
      explanation:
        "packets seem to arrive before they were sent, unless the captures are given in the wrong order",
    };
  }
  return {
    kind: "unknown",
    estimateNs: 0,
    ...bounds,
    explanation: "that is longer than network delays are, and no known offset explains it",
  };
}

function judgeTwoWay(highNs: number, lowNs: number, quantumNs: number): OffsetVerdict {
  const middle = (highNs + lowNs) / 2;
  if (lowNs > highNs + quantumNs) {
    return {
      kind: "unknown",
      estimateNs: middle,
      lowNs: highNs,
      highNs: lowNs,
      explanation: "the two directions contradict each other: no constant offset makes all delays positive",
    };
  }
  if (lowNs <= quantumNs && highNs >= -quantumNs) {
    return {
      kind: "none",
      estimateNs: middle,
      lowNs,
      highNs,
      explanation: "both directions agree with clocks that show the same time",
    };
  }
  const known = recogniseOffset(middle);
  // The exact offset if the bounds allow it; the middle if the clocks differ by slightly more.
  if (known) {
    const fits = known.offsetNs >= lowNs - quantumNs && known.offsetNs <= highNs + quantumNs;
    const estimateNs = fits ? known.offsetNs : middle;
    return { kind: known.kind, estimateNs, lowNs, highNs, explanation: known.name };
  }
  return {
    kind: "constant",
    estimateNs: middle,
    lowNs,
    highNs,
    explanation: "only an offset within these bounds makes no delay negative in either direction",
  };
}

function hours(quarters: number): string {
  const sign = quarters < 0 ? "-" : "+";
  const minutes = Math.abs(quarters) * 15;
  return `${sign}${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")} h`;
}
