/** Loss that is probably not real: stated at the top of a report, with its likely cause, before anyone acts on it. */
import { countOf, formatCount } from "../base/quantity.ts";
import type { ReportView } from "./report.ts";

/** Packets in one capture only, on both sides, as a share of all: loss removes packets, but does not add any. */
const MUCH_UNMATCHED = 0.05;
/** Packets dropped by the second capture itself, as a share of those missing there. */
const MUCH_DROPPED = 0.1;

/** Returns one sentence; null if nothing contradicts the loss of that direction. */
export function lossDoubt(
  report: Omit<ReportView, "flows" | "reverseFlows">,
  way: "forward" | "reverse" = "forward",
): string | null {
  const segment = way === "forward" ? report.segment : report.reverse;
  if (!segment || segment.lost === 0) return null;
  const [near, far] = way === "forward" ? ["first", "second"] : ["second", "first"];
  const receiver = way === "forward" ? report.after : report.before;
  const { lost, appeared, matched, sent, received } = segment;
  if (matched === 0 && received === 0) return null;
  if (way === "forward" && report.lossCause !== undefined) return report.lossCause;
  if (matched === 0) {
    return `no packet of the ${near} capture was found in the ${far}: addresses or ports are rewritten (NAT), one point sees a tunnel (‘inner’), or the captures are of different traffic or times`;
  }
  if (Math.min(lost, appeared) > MUCH_UNMATCHED * Math.min(sent, received)) {
    return `${countOf(appeared, "packet")} only in the ${far} capture, and ${formatCount(lost)} missing there: part of the traffic is rewritten on the way (NAT), merged or split (offload), or in a tunnel at one point (‘inner’)`;
  }
  const dropped = receiver.dropped ?? 0;
  if (dropped > MUCH_DROPPED * lost)
    return `the ${far} capture itself dropped ${countOf(dropped, "packet")}: capture with a larger buffer (tcpdump -B) or a shorter snap length`;
  return receiver.partial === null ? null : `the ${far} capture is incomplete`;
}
