/** Loss that is probably not real: stated at the top of a report, with its likely cause, before anyone acts on the number. */
import { formatCount } from "../base/quantity.ts";
import type { ReportView } from "./report.ts";

/** Packets that are in one capture only, on both sides, as a share of all: loss takes away, it does not add. */
const MUCH_UNMATCHED = 0.05;
/** What the second capture dropped itself, as a share of what is missing there. */
const MUCH_DROPPED = 0.1;

/** One sentence; null where nothing speaks against the loss. */
export function lossDoubt({ segment, after }: Omit<ReportView, "flows" | "reverseFlows">): string | null {
  const { lost, appeared, matched, sent, received } = segment;
  if (lost === 0) return null;
  if (matched === 0) {
    return received === 0
      ? null
      : "no packet of the first capture was found in the second: addresses or ports are rewritten (NAT), one point sees a tunnel (‘inner’), or the captures are of different traffic or times";
  }
  if (Math.min(lost, appeared) > MUCH_UNMATCHED * Math.min(sent, received)) {
    return `${formatCount(appeared)} packets are only in the second capture, nearly as many as are missing there: part of the traffic is rewritten on the way (NAT), merged or split (offload), or in a tunnel at one point (‘inner’)`;
  }
  const dropped = after.dropped ?? 0;
  if (dropped > MUCH_DROPPED * lost)
    return `the second capture dropped ${formatCount(dropped)} packets itself: capture with a larger buffer (tcpdump -B) or a shorter snap length`;
  return after.partial === null ? null : "the second capture is incomplete";
}
