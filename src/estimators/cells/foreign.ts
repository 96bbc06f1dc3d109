/** The note about packets counted only at the receiver. All sketches use the same words, so an answer has the note only once. */

/** Percent of received packets counted only at the receiver, from which on hardly any packet of the segment is left. */
const NEARLY_ALL = 90;

/** Returns true if the ends saw different packets: the count at one end then does not show what the other lost. */
export function areOthers(packets: number, received: number): boolean {
  return 100 * packets >= NEARLY_ALL * Math.max(1, received);
}

/** The share is rounded to one digit, so that similar epochs get the same note. */
export function foreignNote(packets: number, received: number): string {
  if (areOthers(packets, received))
    return "nearly all packets received were counted at the receiver only: the filters differ, or the clock offset (or the delay) is as long as an epoch; epochs cut by packets (delimited) need no clocks";
  const percent = (100 * packets) / Math.max(1, received);
  const share =
    percent < 0.1 ? "less than 0.1 %" : `about ${Number(Math.min(100, percent).toPrecision(1))} %`;
  return `${share} of the packets received were counted at the receiver only: foreign, duplicated, rewritten on the way, or in flight at the edge of an epoch`;
}
