/** Incidents as JSON, and as one line for the log. */
import { formatDuration, formatTime } from "../../base/time.ts";
import type { Incident } from "../../network/incidents/incident.ts";
import type { Suffered } from "./suffered.ts";

export interface ReportedIncident extends Incident, Suffered {}

/** An incident as it appears in answers: times are decimal strings. */
export type IncidentJson = Omit<ReportedIncident, "startNs" | "endNs" | "closedNs"> & {
  startNs: string;
  endNs: string;
  closedNs: string | null;
};

/** Writes fields in a fixed order, so that an incident read from the results is written back unchanged. */
export function incidentJson(incident: ReportedIncident): IncidentJson {
  const { id, kind, state, segment, paths, now, clock, ended, confidence, share, reason, candidates } =
    incident;
  const { baseline, peak, also, loss, flows, flowCount, startNs, endNs, closedNs } = incident;
  return {
    ...{ id, kind, state, segment, paths, now, clock, ended, confidence, share, reason, candidates },
    ...{ baseline, peak, also, loss, flows, flowCount },
    startNs: `${startNs}`,
    endNs: `${endNs}`,
    closedNs: closedNs === null ? null : `${closedNs}`,
  };
}

export function readIncident({
  startNs,
  endNs,
  closedNs,
  clock = null,
  ...rest
}: IncidentJson): ReportedIncident {
  return {
    ...rest,
    clock,
    // Incidents written by earlier versions have no count.
    flowCount: rest.flowCount ?? rest.flows.length,
    startNs: BigInt(startNs),
    endNs: BigInt(endNs),
    closedNs: closedNs === null ? null : BigInt(closedNs),
  };
}

/** Returns one line of text for the log. */
export function incidentLine({
  clock,
  kind,
  segment,
  paths,
  baseline,
  peak,
  confidence,
  state,
  startNs,
}: Incident): string {
  if (clock)
    return `clock of ${clock.points.join(" or ")} stepped by ${formatDuration(Math.abs(clock.stepNs))} at ${formatTime(startNs)}: delays to and from it are off by that`;
  const where = segment ? `${segment.from} → ${segment.to}` : `somewhere on ${paths.join(", ")}`;
  const value = (x: number) => (kind === "delay" ? formatDuration(x) : `${(100 * x).toFixed(2)} %`);
  const sure = segment ? `, confidence ${(100 * confidence).toFixed(1)} %` : ", undecided which segment";
  return `${kind} of ${where} from ${value(baseline)} to ${value(peak)} since ${formatTime(startNs)}${state === "open" ? sure : ""}`;
}
