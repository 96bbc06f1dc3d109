/**
 * Incidents whose flows are searched again: soon while no flow is known, and when the flows of the last epochs should be there. Flows are estimated later than
 * delay and loss.
 */
import type { ReportedIncident } from "./incident-json.ts";

const SOON_MS = 1000;
/** Longer than the interval in which an open incident is written. */
const LAST_MS = 10_000;

export class FlowLooks {
  readonly #at = new Map<string, { incident: ReportedIncident; atMs: number }>();

  has(id: string): boolean {
    return this.#at.has(id);
  }

  /** Schedules the search for an incident, replacing an earlier one. */
  set(incident: ReportedIncident): void {
    const { id, kind, segment, state, flowCount } = incident;
    if (kind === "clock" || !segment) return;
    const soon = state === "open" && flowCount === 0;
    this.#at.set(id, { incident, atMs: performance.now() + (soon ? SOON_MS : LAST_MS) });
  }

  /** Returns and removes the incidents whose search is due. */
  due(): ReportedIncident[] {
    const due = [...this.#at.values()].filter(({ atMs }) => atMs <= performance.now());
    for (const { incident } of due) this.#at.delete(incident.id);
    return due.map(({ incident }) => incident);
  }

  clear(): void {
    this.#at.clear();
  }
}
