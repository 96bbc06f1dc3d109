/** Incidents whose flows are looked for once more: soon while none is known, and when those of its last epochs are there. Flows are estimated later than delay and loss. */
import type { ReportedIncident } from "./incident-json.ts";

const SOON_MS = 1000;
/** Longer than an incident that goes on is left without being written. */
const LAST_MS = 10_000;

export class FlowLooks {
  readonly #at = new Map<string, { incident: ReportedIncident; atMs: number }>();

  has(id: string): boolean {
    return this.#at.has(id);
  }

  /** In place of what was to be looked for of the same incident. */
  set(incident: ReportedIncident): void {
    const { id, kind, segment, state, flowCount } = incident;
    if (kind === "clock" || !segment) return;
    const soon = state === "open" && flowCount === 0;
    this.#at.set(id, { incident, atMs: performance.now() + (soon ? SOON_MS : LAST_MS) });
  }

  /** What is to be looked for now; not again by itself. */
  due(): ReportedIncident[] {
    const due = [...this.#at.values()].filter(({ atMs }) => atMs <= performance.now());
    for (const { incident } of due) this.#at.delete(incident.id);
    return due.map(({ incident }) => incident);
  }

  clear(): void {
    this.#at.clear();
  }
}
