/** Alert rules, active and past alerts, and incidents of the selected time range. */
import { get } from "../api/client.ts";
import { type Alert, type AlertRule, type Alerts, useRoute } from "../api/network.ts";
import { useAnswer, useTicks } from "../api/use-answer.ts";
import { Actions, csvOf } from "../parts/actions.tsx";
import { queryCommand } from "../parts/command.ts";
import { Heads } from "../parts/heads.tsx";
import { incidentText } from "../parts/incident-text.ts";
import { IncidentActions, IncidentLine, useIncidents } from "../parts/incidents.tsx";
import { Time } from "../parts/numbers.tsx";
import { Answered, Empty } from "../parts/states.tsx";
import { durationText } from "../parts/text.ts";
import { hrefTo } from "../state/location.ts";
import { msOf } from "../state/time-range.ts";

export function AlertsScreen() {
  const has = useRoute("/v1/alerts");
  const ticks = useTicks(10_000);
  const asked = useAnswer(has ? "alerts" : null, (signal) => get<Alerts>("/v1/alerts", {}, signal), ticks);
  const incidents = useIncidents();
  return (
    <>
      <h1>Alerts</h1>
      {has === false && (
        <Empty title="This collector has no alerts">
          <p>
            Rules are part of a collector's settings in later versions of hoptime. Prometheus can watch
            /metrics.
          </p>
        </Empty>
      )}
      {has && (
        <Answered asked={asked} what="the alerts">
          {(data) => (
            <>
              <section class="card" aria-label="Alerts">
                <div class="card-head">
                  <h2>Alerts</h2>
                  <Actions
                    name="alerts"
                    command={queryCommand(["--list", "alerts"])}
                    csv={() => csvOf(alertRows(data.alerts))}
                  />
                </div>
                {data.alerts.length === 0 ? (
                  <Empty title="No alerts yet" />
                ) : (
                  <AlertTable alerts={data.alerts} />
                )}
              </section>
              <Rules data={data} />
            </>
          )}
        </Answered>
      )}
      {incidents.data && incidents.data.length > 0 && (
        <section class="card" aria-label="Incidents in this time">
          <div class="card-head">
            <h2>Incidents in this time</h2>
            <IncidentActions incidents={incidents.data} />
          </div>
          {incidents.data.map((i) => (
            <IncidentLine key={i.id} incident={i} />
          ))}
        </section>
      )}
    </>
  );
}

function AlertTable({ alerts }: { alerts: readonly Alert[] }) {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Alerts, the latest first">
      <table class="rows">
        <Heads of={[["Alert"], ["State"], ["Began"], ["Lasted", "wide-only"], ["What", "wide-only"]]} />
        <tbody>
          {alerts.map((a) => (
            <tr key={a.id} class="row">
              <th scope="row">
                <AlertLink alert={a} />
              </th>
              <td>
                <span class={`badge ${a.state === "active" ? "bad" : "fine"}`}>{a.state}</span>
              </td>
              <td>
                <Time ms={msOf(a.beganNs)} />
              </td>
              <td class="wide-only">
                {a.endedNs === null ? "goes on" : durationText(msOf(a.endedNs) - msOf(a.beganNs))}
              </td>
              <td class="wide-only sentence">{whatText(a)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Uses the page's sentence for an incident: times in the viewer's time zone, and the usual number format. */
const whatText = ({ incident, summary }: Alert): string => (incident ? incidentText(incident) : summary);

function alertRows(alerts: readonly Alert[]): (string | number | null)[][] {
  return [
    ["alert", "target", "state", "began_ns", "ended_ns", "worst", "what"],
    ...alerts.map((a) => [a.name, a.target, a.state, a.beganNs, a.endedNs, a.worst, whatText(a)]),
  ];
}

/** The target is a segment, or an incident whose name contains kind and segment. */
const INCIDENT = /^\d+-(?:delay|loss|clock)-/;

function AlertLink({ alert }: { alert: Alert }) {
  const [from, to] = alert.target.replace(INCIDENT, "").split(":");
  if (!from || !to) return <>{`${alert.name}: ${alert.target}`}</>;
  return (
    <a class="row-link" href={hrefTo(["segment", from, to])} title={alert.target}>
      {alert.name}: {from} → {to}
    </a>
  );
}

function RuleTable({ rules }: { rules: readonly AlertRule[] }) {
  return (
    <table class="rows">
      <Heads of={[["Rule"], ["When"], ["Where", "wide-only"], ["Goes to", "wide-only"], ["State"]]} />
      <tbody>
        {rules.map((r) => (
          <tr key={r.name}>
            <th scope="row">
              <strong>{r.name}</strong>
            </th>
            <td>{r.when === "incident" ? "an incident opens" : r.when}</td>
            <td class="wide-only">{r.segment ?? "anywhere"}</td>
            <td class="wide-only">{r.to.length === 0 ? "the log and /metrics" : r.to.join(", ")}</td>
            <td>
              <span class={`badge ${r.active > 0 ? "bad" : "fine"}`}>
                {r.active > 0 ? `${r.active} active` : "quiet"}
              </span>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Rules({ data }: { data: Alerts }) {
  return (
    <section class="card" aria-label="Rules">
      <h2>Rules</h2>
      {data.rules.length === 0 ? (
        <Empty title="No rules">
          <p>Rules are written in the collector's settings (docs/config.md).</p>
        </Empty>
      ) : (
        <RuleTable rules={data.rules} />
      )}
      {data.notify.length > 0 && (
        <p class="muted">
          Webhooks:{" "}
          {data.notify
            .map((n) => `${n.name} ${n.sent} sent, ${n.waiting} waiting, ${n.failed} failed`)
            .join("; ")}
        </p>
      )}
    </section>
  );
}
