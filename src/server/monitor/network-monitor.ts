/**
 * The collector's network: monitored paths, localisation, and incidents with their evidence. Incidents depend on the rows in the results, in the order of their
 * epochs (shared-rows.ts), and are stored in the results. After a restart, or as a new owner, it reads the rows from before the oldest open incident and
 * evaluates them again, so the evidence is the same as without an interruption.
 *
 * How it fails: a row that is written or improved after its epoch was evaluated is not evaluated again. If the first rows of an open incident have been
 * deleted, the incident continues as it was last written.
 */

import { earlier } from "../../base/time.ts";
import {
  INCIDENT_SETTINGS,
  type Incident,
  type IncidentChange,
  type IncidentSettings,
} from "../../network/incidents/incident.ts";
import { historyOf, PathWatch } from "../../network/incidents/path-watch.ts";
import type { ResultsStore } from "../../results/results-store.ts";
import type { SegmentRow } from "../../results/rows.ts";
import type { Events } from "../events.ts";
import { FlowLooks } from "./flow-looks.ts";
import type { RowFollower } from "./follower.ts";
import { type IncidentJson, incidentJson, incidentLine, type ReportedIncident } from "./incident-json.ts";
import { type NetworkPath, type PathState, pathState } from "./path-state.ts";
import { estimateOf } from "./row-estimate.ts";
import { SegmentChoice } from "./segment-choice.ts";
import { gapMsOf, SharedRows } from "./shared-rows.ts";
import { FAR_NS, rowsSince, storedIncidents } from "./stored-state.ts";
import { sufferedFlows } from "./suffered.ts";

export interface NetworkSettings {
  paths: readonly NetworkPath[];
  incidents: IncidentSettings;
}

export interface NetworkMonitorOptions {
  results: ResultsStore;
  events: Events;
  settings: NetworkSettings;
  onLog?: ((text: string) => void) | undefined;
  /** How long an epoch waits for its other end, in ns (default 30 s). */
  latenessNs?: bigint | undefined;
  /** Set if several workers write to the results. Rows are then read from the results, and the worker that owns the paths writes and sends incidents. */
  shared?: SharedResults | undefined;
  /** Called with every change before it is sent. */
  onChange?: ((change: ReportedChange, incident: ReportedIncident) => Promise<void>) | undefined;
}

/** `again`: an incident that is already known, open or closed; the previous owner may have died before it reported the last change. */
export type ReportedChange = IncidentChange["change"] | "again";

export interface SharedResults {
  isOwner: () => boolean;
  /** How long one segment waits for another, and how often the results are read, in ms. */
  waitMs?: number;
  readMs?: number;
}

export const NO_NETWORK: NetworkSettings = { paths: [], incidents: INCIDENT_SETTINGS };

/** How often an open incident is written and sent again, in ms. */
const UPDATE_MS = 5000;
/** Number of the last closed incidents that a new owner reports again. */
const REPORTED_AGAIN = 20;
/** How often shared results are read, in ms; less often by workers that only answer. */
const READ_MS = { owner: 1000, other: 5000 };
/** Incidents that closed this long before the newest row may lack the flows of their last epochs. */
const FLOWS_LATE_NS = 600_000_000_000n;

interface OpenIncident {
  incident: ReportedIncident;
  writtenMs: number;
  /** It has changed since it was last written. */
  isNewer: boolean;
}

/** A change to write and send. */
interface Report {
  change: ReportedChange;
  incident: ReportedIncident;
}

export class NetworkMonitor implements RowFollower {
  readonly #options: NetworkMonitorOptions;
  #settings: NetworkSettings;
  #watch: PathWatch;
  #choice = new SegmentChoice();
  /** Requested estimator by segment. */
  #only = new Map<string, string | null>();
  readonly #open = new Map<string, OpenIncident>();
  /** Open incidents of the results that the evaluation of earlier rows has not reproduced yet. */
  readonly #awaited = new Map<string, ReportedIncident>();
  /** Changes that are not in the results yet. */
  readonly #reports: Report[] = [];
  readonly #looks = new FlowLooks();
  #newestNs = 0n;
  #rows: SharedRows;
  #readMs = 0;
  #isOwner: boolean;

  private constructor(options: NetworkMonitorOptions) {
    this.#options = options;
    this.#settings = options.settings;
    this.#isOwner = options.shared === undefined;
    this.#watch = new PathWatch(options.settings.incidents);
    this.#rows = this.#newRows();
  }

  static async open(options: NetworkMonitorOptions): Promise<NetworkMonitor> {
    const monitor = new NetworkMonitor(options);
    await monitor.#begin();
    return monitor;
  }

  /** Sets other paths or limits. */
  async reconfigure(settings: NetworkSettings): Promise<void> {
    const same = JSON.stringify(settings) === JSON.stringify(this.#settings);
    this.#settings = settings;
    if (!same) await this.#begin();
  }

  get paths(): readonly NetworkPath[] {
    return this.#settings.paths;
  }

  /** Returns the segments of the paths, which are monitored. */
  get segments(): { from: string; to: string; label: string }[] {
    const all = new Map<string, { from: string; to: string; label: string }>();
    for (const { points } of this.#settings.paths)
      for (const [i, to] of points.slice(1).entries()) {
        const from = points[i] ?? "";
        all.set(`${from}\n${to}`, { from, to, label: "" });
      }
    return [...all.values()];
  }

  get open(): ReportedIncident[] {
    return [...this.#open.values()].map((o) => o.incident);
  }

  /** Returns the current state of the open incidents. Workers that do not own the paths return nothing; the owner's incidents are in the results. */
  openJson(): IncidentJson[] {
    return this.#isOwner ? this.open.map(incidentJson) : [];
  }

  get counters() {
    return this.#watch.counters;
  }

  async take(rows: readonly SegmentRow[]): Promise<void> {
    if (this.#options.shared || this.#settings.paths.length === 0) return;
    this.#rows.hold(rows);
    await this.#judge(this.#rows.release());
  }

  async tick(): Promise<void> {
    const { shared } = this.#options;
    if (this.#settings.paths.length === 0) return;
    const isOwner = shared?.isOwner() ?? true;
    const isNew = isOwner && !this.#isOwner;
    this.#isOwner = isOwner;
    if (!isOwner) this.#reports.length = 0;
    if (isNew) {
      // Repeated with the next tick if the results cannot be read.
      this.#isOwner = false;
      await this.#begin(isOwner);
    }
    await this.#lookForFlows();
    const readMs = shared?.readMs ?? READ_MS[isOwner ? "owner" : "other"];
    const isDue = shared !== undefined && performance.now() - this.#readMs >= readMs;
    if (isDue) this.#readMs = performance.now();
    await this.#judge(isDue ? await this.#rows.next() : this.#rows.release());
  }

  async close(): Promise<void> {
    if (!this.#isOwner) return;
    await this.#send();
    for (const { incident } of this.#open.values()) await this.#write(incident);
  }

  /** Returns the state of every path in its last complete epoch. */
  describe(): PathState[] {
    return this.#settings.paths.map((path) => {
      const last = this.#watch.latest(path.points);
      const incidents = this.open.filter((i) => i.paths.includes(path.name)).map((i) => i.id);
      return { ...path, points: [...path.points], ...pathState(path.points, last), incidents };
    });
  }

  /** Evaluates the rows from before the oldest open incident again, as if there had been no interruption. */
  async #begin(isOwner = this.#isOwner): Promise<void> {
    const { paths } = this.#settings;
    const { results } = this.#options;
    this.#only = new Map();
    for (const { points, estimator } of paths)
      for (const [i, to] of points.slice(1).entries()) {
        const key = `${points[i]}\n${to}`;
        if (this.#only.get(key) == null) this.#only.set(key, estimator);
      }
    const incidents = await storedIncidents(results);
    const open = incidents.filter((i) => i.state === "open");
    const sinceNs = open.map((i) => i.startNs).reduce(earlier, FAR_NS);
    const rows =
      paths.length === 0
        ? []
        : await rowsSince(results, sinceNs, historyOf(this.#settings.incidents), this.#isWanted);
    this.#isOwner = isOwner;
    this.#newestNs = 0n;
    this.#watch = new PathWatch(
      this.#settings.incidents,
      incidents.filter((i) => i.state === "closed"),
    );
    this.#watch.watchOnly(paths);
    this.#choice = new SegmentChoice();
    this.#rows = this.#newRows();
    this.#reports.length = 0;
    this.#open.clear();
    this.#awaited.clear();
    for (const incident of open) {
      this.#open.set(incident.id, { incident, writtenMs: performance.now(), isNewer: false });
      this.#awaited.set(incident.id, incident);
    }
    const closed = isOwner ? incidents.filter((i) => i.state === "closed").slice(0, REPORTED_AGAIN) : [];
    this.#reports.push(...closed.map((incident): Report => ({ change: "again", incident })));
    this.#rows.hold(rows);
    await this.#judge(this.#rows.release());
    this.#looks.clear();
    for (const incident of incidents)
      if (incident.closedNs === null || incident.closedNs > this.#newestNs - FLOWS_LATE_NS)
        this.#looks.set(incident);
  }

  #newRows(): SharedRows {
    const { results, shared, latenessNs } = this.#options;
    const gapMs = latenessNs === undefined ? undefined : gapMsOf(latenessNs);
    const waitMs = shared?.waitMs;
    return new SharedRows({ results, segments: this.segments, isWanted: this.#isWanted, waitMs, gapMs });
  }

  /** Selects segments of the paths, by the requested estimator, in both directions: the reverse direction shows whether a clock stepped. */
  readonly #isWanted = (from: string, to: string, _label: string, estimator: string): boolean => {
    const has = (point: string) => this.#settings.paths.some((path) => path.points.includes(point));
    return (this.#only.get(`${from}\n${to}`) ?? estimator) === estimator && has(from) && has(to);
  };

  async #judge(rows: readonly SegmentRow[]): Promise<void> {
    const { opened, changed } = this.#changesOf(rows);
    for (const incident of opened.values()) this.#note("opened", incident);
    for (const { change, incident } of changed.values())
      this.#note(change, incident, opened.has(incident.id));
    for (const [id, incident] of this.#awaited) {
      // Newer rows did not reproduce this incident.
      if (incident.endNs > this.#newestNs) continue;
      this.#awaited.delete(id);
      for (const other of this.#watch.adopt(incident))
        this.#note("closed", { ...other, state: "closed", closedNs: other.endNs, ended: "ordinary" });
    }
    for (const known of this.#open.values())
      if (this.#isOwner && known.isNewer && performance.now() - known.writtenMs >= UPDATE_MS)
        this.#report("updated", known.incident);
    await this.#send();
  }

  /** Returns the changes of possibly many epochs: each incident that opened, in its state at that time, and its last change. */
  #changesOf(rows: readonly SegmentRow[]) {
    const opened = new Map<string, Incident>();
    const changed = new Map<string, IncidentChange>();
    for (const { change, incident } of this.#feed(rows))
      if (change === "opened") opened.set(incident.id, structuredClone(incident));
      else changed.set(incident.id, { change, incident });
    return { opened, changed };
  }

  *#feed(rows: readonly SegmentRow[]): Generator<IncidentChange> {
    for (const row of SegmentChoice.sort(rows)) {
      const { from, to } = row.segment;
      const only = this.#only.get(`${from}\n${to}`);
      if (!this.#choice.accepts(row, only ?? undefined)) continue;
      if (row.endNs > this.#newestNs) this.#newestNs = row.endNs;
      yield* this.#watch.add(estimateOf(row));
    }
  }

  /** `atOnce`: report even if it was written only a short time ago. */
  #note(change: IncidentChange["change"], incident: Incident, atOnce = false): void {
    const { id } = incident;
    const known = this.#open.get(id);
    const { flows = [], flowCount = 0 } = known?.incident ?? {};
    const reported: ReportedIncident = { ...incident, flows, flowCount };
    const isAwaited = this.#awaited.delete(id);
    if (change === "closed") this.#open.delete(id);
    else
      this.#open.set(id, {
        ...{ incident: reported, isNewer: known !== undefined },
        writtenMs: known?.writtenMs ?? performance.now(),
      });
    if (!this.#isOwner) return;
    if (change === "opened" && isAwaited) this.#reports.push({ change: "again", incident: reported });
    else if (change !== "updated" || atOnce) this.#report(change, reported);
  }

  #report(change: IncidentChange["change"], incident: ReportedIncident): void {
    const known = this.#open.get(incident.id);
    if (known) Object.assign(known, { isNewer: false, writtenMs: performance.now() });
    this.#reports.push({ change, incident });
  }

  /** Writes and sends changes in order; what cannot be written is tried again next time. */
  async #send(): Promise<void> {
    const { events, results, onChange, onLog } = this.#options;
    for (let next = this.#reports[0]; next; next = this.#reports[0]) {
      const { change, incident } = next;
      if (change !== "again") {
        if (incident.kind !== "clock") Object.assign(incident, await sufferedFlows(results, incident));
        const open = this.#open.get(incident.id);
        if (open) Object.assign(open.incident, { flows: incident.flows, flowCount: incident.flowCount });
        await this.#write(incident);
        this.#looks.set(incident);
      }
      // The queue may have been replaced in the meantime.
      if (this.#reports[0] === next) this.#reports.shift();
      await onChange?.(change, incident);
      if (change === "again") continue;
      const changed = { change, ...incidentJson(incident) };
      events.emit("incident", () => changed);
      if (change !== "updated") onLog?.(`incident ${change}: ${incidentLine(incident)}`);
    }
  }

  async #lookForFlows(): Promise<void> {
    if (!this.#isOwner) return;
    const due = this.#looks.due();
    for (let last = due[0]; last; last = due[0]) {
      try {
        const open = this.#open.get(last.id);
        const incident = open?.incident ?? last;
        const suffered = await sufferedFlows(this.#options.results, incident);
        const isSame = JSON.stringify(suffered.flows) === JSON.stringify(incident.flows);
        Object.assign(incident, suffered);
        if (!isSame && open) this.#report("updated", incident);
        else if (!isSame) await this.#write(incident);
        if (open && suffered.flowCount === 0) this.#looks.set(incident);
        due.shift();
      } catch (error) {
        for (const left of due) this.#looks.set(left);
        throw error;
      }
    }
    await this.#send();
  }

  async #write(incident: ReportedIncident): Promise<void> {
    const { id, startNs, closedNs } = incident;
    await this.#options.results.incidents.write({
      ...{ id, startNs, closedNs },
      body: JSON.stringify(incidentJson(incident)),
    });
  }
}
