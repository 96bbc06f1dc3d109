/** Incidents as sentences, if the collector monitors paths: the open ones, and those of the selected time range. */
import { useEffect } from "preact/hooks";
import { get } from "../api/client.ts";
import { onOtherEvent } from "../api/live.ts";
import { type Incident, useRoute } from "../api/network.ts";
import { type Asked, useAnswer, useTicks } from "../api/use-answer.ts";
import { hrefTo } from "../state/location.ts";
import { useCalmRange } from "../state/series.ts";
import { msOf, nsText, timeRange } from "../state/time-range.ts";
import { Actions, csvOf } from "./actions.tsx";
import { queryCommand, spanParts } from "./command.ts";
import { incidentText } from "./incident-text.ts";

const AGAIN_MS = 10_000;

export function useIncidents(): Asked<Incident[]> {
  const has = useRoute("/v1/incidents");
  const range = useCalmRange();
  const ticks = useTicks(AGAIN_MS);
  const asked = useAnswer(
    has ? `incidents ${range.key}` : null,
    async (signal) => {
      const open = await get<{ incidents: Incident[] }>("/v1/incidents", { state: "open" }, signal);
      const span = { since: nsText(range.fromMs), until: nsText(range.toMs) };
      const closed = await get<{ incidents: Incident[] }>(
        "/v1/incidents",
        { state: "closed", ...span },
        signal,
      );
      return [...open.incidents, ...closed.incidents];
    },
    ticks,
  );
  const { again } = asked;
  useEffect(() => onOtherEvent((type) => type.startsWith("incident") && again()), []);
  return asked;
}

export function Incidents() {
  const { data } = useIncidents();
  if (!data || data.length === 0) return null;
  const open = data.filter((i) => i.state === "open");
  const closed = data.filter((i) => i.state === "closed");
  return (
    <section class="incidents" aria-label="Incidents">
      {open.map((incident) => (
        <IncidentLine key={incident.id} incident={incident} />
      ))}
      {closed.length > 0 && (
        <details>
          <summary>
            {closed.length} {closed.length === 1 ? "incident" : "incidents"} ended in this time
          </summary>
          {closed.map((incident) => (
            <IncidentLine key={incident.id} incident={incident} />
          ))}
        </details>
      )}
      <IncidentActions incidents={data} />
    </section>
  );
}

/** Actions for these incidents and the open ones: command and table. */
export function IncidentActions({ incidents }: { incidents: readonly Incident[] }) {
  return (
    <Actions
      name="incidents"
      command={queryCommand(["--list", "incidents"], ...spanParts(timeRange.value))}
      csv={() =>
        csvOf([
          ["id", "state", "kind", "from", "to", "start_ns", "end_ns", "baseline", "peak", "now", "what"],
          ...incidents.map((i) => [
            ...[i.id, i.state, i.kind, i.segment?.from ?? null, i.segment?.to ?? null, i.startNs, i.endNs],
            ...[i.baseline, i.peak, i.now, incidentText(i)],
          ]),
        ])
      }
    />
  );
}

const AROUND_MS = 60_000;

export function IncidentLine({ incident }: { incident: Incident }) {
  const { segment, startNs, endNs, state, confidence } = incident;
  const span =
    state === "open"
      ? {}
      : {
          since: new Date(msOf(startNs) - AROUND_MS).toISOString(),
          until: new Date(msOf(endNs) + AROUND_MS).toISOString(),
        };
  return (
    <div class={`incident ${state}`} title={`confidence ${(100 * confidence).toFixed(1)} %`}>
      <strong>{incidentText(incident)}</strong>
      {segment && <a href={hrefTo(["segment", segment.from, segment.to], span)}>Open the segment</a>}
      {segment && <a href={hrefTo(["flows", segment.from, segment.to], span)}>Who suffers</a>}
      <a href={hrefTo(["map"], span)}>On the map</a>
    </div>
  );
}
