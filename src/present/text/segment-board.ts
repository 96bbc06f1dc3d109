/** Collects a collector's events: keeps the newest row of each segment for a table, and turns incidents into lines. */
import { countOf, formatCount, formatPercent } from "../../base/quantity.ts";
import { formatInstant, formatNs } from "../../base/time.ts";
import { parseDirectionLabel } from "../../epoch/direction-label.ts";
import type { Palette } from "./palette.ts";
import { plainReason } from "./reason.ts";
import { segmentText } from "./segment-name.ts";
import { type Column, formatTable } from "./table.ts";

/** Data of an `epoch` event. */
export interface EpochEvent {
  from: string;
  to: string;
  label: string;
  estimator: string;
  startNs: string;
  endNs: string;
  latency: { meanNs: number; lowNs: number; highNs: number } | null;
  reason: string | null;
  sent: number | null;
  lost: number | null;
  lossRate: number | null;
}

/** Data of an `incident` event. */
export interface IncidentEvent {
  change: "opened" | "updated" | "closed";
  id: string;
  kind: "delay" | "loss" | "clock";
  clock?: { points: string[]; stepNs: number } | null;
  segment: { from: string; to: string } | null;
  paths: string[];
  startNs: string;
  endNs: string;
  baseline: number;
  peak: number;
  now: number | null;
  confidence: number;
}

const ns = (value: number) => formatNs(value, 3);
const dash = "–";

export class SegmentBoard {
  readonly #rows = new Map<string, EpochEvent>();
  readonly #open = new Map<string, IncidentEvent>();
  readonly #estimator: string | null;

  /** `estimator`: keep only its answers; null for all. */
  constructor(estimator: string | null = null) {
    this.#estimator = estimator;
  }

  get rows(): EpochEvent[] {
    return [...this.#rows.values()];
  }

  /** Takes an event; returns a line about it if it is worth one, otherwise null. */
  take(type: string, data: unknown): string | null {
    if (type === "epoch") this.#row(data as EpochEvent);
    if (type === "gap")
      return `${countOf((data as { lost: number }).lost, "event")} missed: this terminal was too slow`;
    return type === "incident" ? this.#incident(data as IncidentEvent) : null;
  }

  table(c: Palette): string {
    const columns: Column<EpochEvent>[] = [
      { title: "segment", align: "left", value: segmentText },
      { title: "estimator", align: "left", value: (r) => r.estimator },
      { title: "epoch", value: (r) => formatInstant(BigInt(r.startNs), 1).slice(11, 21) },
      { title: "packets", value: (r) => (r.sent === null ? dash : formatCount(r.sent)) },
      { title: "loss", value: (r) => formatPercent(r.lossRate) },
      { title: "mean", value: (r) => (r.latency ? ns(r.latency.meanNs) : dash) },
      {
        title: "95 %",
        value: (r) =>
          r.latency ? `${ns(r.latency.lowNs)} … ${ns(r.latency.highNs)}` : plainReason(r.reason ?? dash),
        maxWidth: 30,
      },
      { title: "", align: "left", value: (r) => this.#state(r) },
    ];
    return formatTable(columns, this.rows, { colours: c });
  }

  /** Returns the newest answers in one line, for output that is not a terminal. */
  line(): string {
    const several = new Set(this.rows.map((r) => r.estimator)).size > 1;
    const parts = this.rows.map((r) => {
      const loss = r.lossRate ? `, ${formatPercent(r.lossRate)} lost` : "";
      const by = several ? ` (${r.estimator})` : "";
      return `${segmentText(r)} ${r.latency ? ns(r.latency.meanNs) : dash}${loss}${by}`;
    });
    return parts.join("   ");
  }

  #row(row: EpochEvent): void {
    if (this.#estimator !== null && row.estimator !== this.#estimator) return;
    const keyOf = (label: string) => [row.from, row.to, label, row.estimator].join("\n");
    const key = keyOf(row.label);
    const known = this.#rows.get(key);
    if (parseDirectionLabel(row.label) !== null) this.#rows.delete(keyOf(""));
    // A record that arrives late updates its epoch, but must not replace a newer one.
    if (!known || BigInt(known.startNs) <= BigInt(row.startNs)) this.#rows.set(key, row);
  }

  #incident(incident: IncidentEvent): string | null {
    if (incident.change === "closed") this.#open.delete(incident.id);
    else this.#open.set(incident.id, incident);
    return incident.change === "updated" ? null : incidentLine(incident);
  }

  #state({ from, to }: EpochEvent): string {
    const own = [...this.#open.values()].filter((i) => i.segment?.from === from && i.segment.to === to);
    return own.map((i) => `${STATES[i.kind]} since ${clock(i.startNs)}`).join(", ");
  }
}

const STATES = { delay: "SLOW", loss: "LOSS", clock: "CLOCK STEPPED" };

export function incidentLine(incident: IncidentEvent): string {
  if (incident.clock)
    return `clock of ${incident.clock.points.join(" or ")} stepped by ${ns(Math.abs(incident.clock.stepNs))} at ${clock(incident.startNs)}: delays to and from it are off by that${incident.change === "closed" ? "; ordinary by now" : ""}`;
  const { change, kind, segment, paths, baseline, peak, confidence } = incident;
  const where = segment ? `${segment.from} → ${segment.to}` : `${paths.join(", ")} (segment undecided)`;
  // An epoch cut may count a packet a little early, so the usual loss can come out slightly negative: show it as 0.
  const value = kind === "delay" ? ns : (share: number) => formatPercent(Math.max(0, share));
  const what = kind === "delay" ? "slow" : "losing packets";
  const rise = `${value(baseline)} → ${value(peak)}`;
  if (change === "closed")
    return `${where} no longer ${what} since ${clock(incident.endNs)}: began ${clock(incident.startNs)}, ${rise} at its worst`;
  return `${where} ${what} since ${clock(incident.startNs)}: ${rise} (confidence ${formatPercent(confidence, 1)})`;
}

function clock(textNs: string): string {
  return formatInstant(BigInt(textNs), 0).slice(11, 19);
}
