/** An incident as one sentence that could be read aloud in a call: "r2 → r3 slow since 14:03:10: 2.1 → 18 ms, 99 % of the rise, 412 flows". */
import type { Incident } from "../api/network.ts";
import { msOf } from "../state/time-range.ts";
import { countText, delayText, durationText, shareText, timeText } from "./text.ts";

export function incidentText(incident: Incident): string {
  const { segment, kind, candidates, paths, share, flows, state, baseline, peak, now } = incident;
  if (incident.clock)
    return `clock of ${incident.clock.points.join(" or ")} stepped by ${delayText(Math.abs(incident.clock.stepNs))} at ${timeText(msOf(incident.startNs))}: delays to and from it are off by that`;
  const [likeliest] = candidates;
  const who = segment
    ? `${segment.from} → ${segment.to}`
    : `${paths.join(", ")}${likeliest ? ` (perhaps ${likeliest.from} → ${likeliest.to})` : ""}`;
  const what = kind === "delay" ? "slow" : "losing packets";
  const value = kind === "delay" ? delayText : shareText;
  const startMs = msOf(incident.startNs);
  const when =
    state === "open"
      ? `since ${timeText(startMs)}`
      : `from ${timeText(startMs)} for ${durationText(msOf(incident.endNs) - startMs)}`;
  const change = `${value(baseline)} → ${value(state === "open" ? (now ?? peak) : peak)}`;
  const count = incident.flowCount ?? flows.length;
  const more = [
    ...(share === null ? [] : [`${Math.floor(100 * share)} % of the rise`]),
    ...(count === 0 ? [] : [`${countText(count)} ${count === 1 ? "flow" : "flows"}`]),
    ...(segment ? [] : [`undecided${incident.reason ? `: ${incident.reason}` : ""}`]),
  ];
  return `${who} ${state === "open" ? "" : "was "}${what} ${when}: ${[change, ...more].join(", ")}`;
}
