/** What the kernel says of the clock that packets are timestamped by, when they are. */

export interface ClockState {
  /** Equal for all points of one machine since it started: they share a clock. 0: not known. */
  id: bigint;
  synchronised: boolean;
  /** By what, where a program is seen that does. */
  discipline: "ntp" | "ptp" | null;
  /** Of the time it shows: as estimated, and at most. */
  estimatedErrorNs: number;
  maximumErrorNs: number;
}

/** Of two times, the worse. */
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
