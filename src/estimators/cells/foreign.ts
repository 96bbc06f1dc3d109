/** What all sketches of two ends say alike of packets that only the receiver has counted: an answer then says it once for all of them. */

/** Hardly a packet of the segment is among them. */
const NEARLY_ALL = 90;

/** The ends hold different packets: what one counts says nothing of what the other lost. */
export function areOthers(packets: number, received: number): boolean {
  return 100 * packets >= NEARLY_ALL * Math.max(1, received);
}

/** The share is rounded to one digit, so that epochs alike say it in the same words. */
export function foreignNote(packets: number, received: number): string {
  if (areOthers(packets, received))
    return "nearly all packets received were counted at the receiver only: the filters differ, or the clock offset (or the delay) is as long as an epoch; epochs cut by packets (delimited) need no clocks";
  const percent = (100 * packets) / Math.max(1, received);
  const share =
    percent < 0.1 ? "less than 0.1 %" : `about ${Number(Math.min(100, percent).toPrecision(1))} %`;
  return `${share} of the packets received were counted at the receiver only: foreign, duplicated, rewritten on the way, or in flight at the edge of an epoch`;
}
