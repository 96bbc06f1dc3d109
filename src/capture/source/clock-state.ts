/** What the operating system says about the clock that packets are timestamped by, at the time of capture. */

export interface ClockState {
  /** Equal for all points on one machine since its last boot: they share a clock. 0: not known. */
  id: bigint;
  synchronised: boolean;
  /** The protocol that disciplines the clock, if such a program runs. */
  discipline: "ntp" | "ptp" | null;
  /** Error of the time shown: estimated, and maximum. */
  estimatedErrorNs: number;
  maximumErrorNs: number;
}

/** Returns the worse of two states. */
export function joinClocks(a: ClockState | undefined, b: ClockState | undefined): ClockState | undefined {
  if (!a || !b) return a ?? b;
  return {
    id: a.id === b.id ? a.id : 0n,
    synchronised: a.synchronised && b.synchronised,
    discipline: a.discipline === b.discipline ? a.discipline : null,
    estimatedErrorNs: Math.max(a.estimatedErrorNs, b.estimatedErrorNs),
    maximumErrorNs: Math.max(a.maximumErrorNs, b.maximumErrorNs),
  };
}
