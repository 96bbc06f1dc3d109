/**
 * The collector's network: paths that are watched, which segment is to blame, incidents with their evidence. Rows come in as they are written; incidents are kept in the results and survive a restart, after which the last
 * epochs of every segment are read again, so that what is ordinary is known from the first row on.
 */
import {
  INCIDENT_SETTINGS,
  type Incident,
  type IncidentChange,
  type IncidentSettings,
} from "../../network/incidents/incident.ts";
import { PathWatch, type TimedEstimate } from "../../network/incidents/path-watch.ts";
import { lossOf } from "../../network/localise/from-records.ts";
import type { ResultsStore } from "../../results/results-store.ts";
import { combineRows, type SegmentRow } from "../../results/rows.ts";
import { pointOf } from "../../results/series.ts";
import type { Events } from "../events.ts";
import { FlowLooks } from "./flow-looks.ts";
import type { RowFollower } from "./follower.ts";
import {
  type IncidentJson,
  incidentJson,
  incidentLine,
  type ReportedIncident,
  readIncident,
} from "./incident-json.ts";
import { type NetworkPath, type PathState, pathState } from "./path-state.ts";
import { SegmentChoice } from "./segment-choice.ts";
import { SharedRows } from "./shared-rows.ts";
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
  /** Where several workers write to the results: rows are read from there, and one of the workers, by whom incidents are written and sent, owns the paths. */
  shared?: SharedResults | undefined;
  /** Every change, before it is sent. */
  onChange?: ((change: IncidentChange["change"], incident: ReportedIncident) => Promise<void>) | undefined;
}

export interface SharedResults {
  isOwner: () => boolean;
  /** How long one segment waits for another, and how often the results are read, ms. */
  waitMs?: number;
  readMs?: number;
}

export const NO_NETWORK: NetworkSettings = { paths: [], incidents: INCIDENT_SETTINGS };

/** An incident that goes on is written and sent again this often, ms. */
const UPDATE_MS = 5000;
/** Closed ones that are remembered at a start. */
const REMEMBERED = 200;
/** How often shared results are read, ms; by workers that only answer, less often. */
const READ_MS = { owner: 1000, other: 5000 };
const MAX_SEEDED_NS = 86_400_000_000_000n;

export class NetworkMonitor implements RowFollower {
  readonly #options: NetworkMonitorOptions;
  #settings: NetworkSettings;
  #watch: PathWatch;
  #choice = new SegmentChoice();
  /** Estimator that is asked for, by segment. */
  #only = new Map<string, string | null>();
  readonly #open = new Map<string, { incident: ReportedIncident; writtenMs: number }>();
  readonly #looks = new FlowLooks();
  #newestNs = 0n;
  #shared: SharedRows | null = null;
  #readMs = 0;
  #isOwner: boolean;

  private constructor(options: NetworkMonitorOptions, known: readonly ReportedIncident[]) {
    this.#options = options;
    this.#settings = options.settings;
    this.#isOwner = options.shared === undefined;
    this.#watch = new PathWatch(options.settings.incidents);
    this.#remember(known);
  }

  static async open(options: NetworkMonitorOptions): Promise<NetworkMonitor> {
    const monitor = new NetworkMonitor(options, await known(options.results));
    monitor.#watchPaths();
    await monitor.#seed();
    return monitor;
  }

  /** Other paths or other limits: segments that stay keep what is known of them. */
  async reconfigure(settings: NetworkSettings): Promise<void> {
    const same = JSON.stringify(settings.incidents) === JSON.stringify(this.#settings.incidents);
    this.#settings = settings;
    if (!same) this.#watch = new PathWatch(settings.incidents, await known(this.#options.results));
    const before = new Set(this.segments.map((s) => `${s.from}\n${s.to}`));
    this.#watchPaths();
    const fresh = this.segments.some((s) => !before.has(`${s.from}\n${s.to}`));
    if (!same || fresh) await this.#seed();
  }

  get paths(): readonly NetworkPath[] {
    return this.#settings.paths;
  }

  /** Those of the paths: to be watched. */
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

  openJson(): IncidentJson[] {
    return this.open.map(incidentJson);
  }

  get counters() {
    return this.#watch.counters;
  }

  async take(rows: readonly SegmentRow[]): Promise<void> {
    if (!this.#options.shared) await this.#take(rows);
  }

  async #take(rows: readonly SegmentRow[]): Promise<void> {
    if (this.#settings.paths.length === 0) return;
    const { opened, changed } = this.#changesOf(rows);
    for (const incident of opened.values()) await this.#tell("opened", incident);
    for (const { change, incident } of changed.values())
      await this.#tell(change, incident, opened.has(incident.id));
  }

  /** Many epochs may come at once: each incident that opened, as it was then, and what became of it by their end. */
  #changesOf(rows: readonly SegmentRow[]) {
    const opened = new Map<string, Incident>();
    const changed = new Map<string, IncidentChange>();
    for (const { change, incident } of this.#feed(rows))
      if (change === "opened") opened.set(incident.id, structuredClone(incident));
      else changed.set(incident.id, { change, incident });
    return { opened, changed };
  }

  async tick(): Promise<void> {
    const { shared, results } = this.#options;
    if (this.#settings.paths.length === 0) return;
    await this.#lookForFlows();
    if (!shared) return;
    const isOwner = shared.isOwner();
    if (isOwner && !this.#isOwner) {
      // What the owner before has found goes on; what it did not get to is found again.
      const incidents = await known(results);
      this.#isOwner = true;
      this.#remember(incidents);
      this.#watchPaths();
      await this.#seed();
    }
    this.#isOwner = isOwner;
    const readMs = shared.readMs ?? READ_MS[isOwner ? "owner" : "other"];
    if (performance.now() - this.#readMs < readMs) return;
    this.#readMs = performance.now();
    if (this.#shared) await this.#take(await this.#shared.next());
  }

  async #lookForFlows(): Promise<void> {
    if (!this.#isOwner) return;
    for (const last of this.#looks.due()) {
      const open = this.#open.get(last.id);
      const incident = open?.incident ?? last;
      const suffered = await sufferedFlows(this.#options.results, incident);
      const reported = { ...incident, ...suffered };
      if (JSON.stringify(suffered.flows) !== JSON.stringify(incident.flows))
        await (open ? this.#report("updated", reported) : this.#write(reported));
      if (open && suffered.flowCount === 0) this.#looks.set(reported);
    }
  }

  async close(): Promise<void> {
    if (!this.#isOwner) return;
    for (const { incident } of this.#open.values()) await this.#write(incident);
  }

  #remember(incidents: readonly ReportedIncident[]): void {
    this.#watch = new PathWatch(this.#settings.incidents, incidents);
    this.#open.clear();
    this.#looks.clear();
    for (const incident of incidents) {
      if (incident.state !== "open") continue;
      this.#open.set(incident.id, { incident, writtenMs: 0 });
      this.#looks.set(incident);
    }
  }

  /** Where the time of every path goes: its last epoch. */
  describe(): PathState[] {
    return this.#settings.paths.map((path) => {
      const last = this.#watch.latest(path.points);
      const incidents = this.open.filter((i) => i.paths.includes(path.name)).map((i) => i.id);
      return { ...path, points: [...path.points], ...pathState(path.points, last), incidents };
    });
  }

  #watchPaths(): void {
    const { paths } = this.#settings;
    this.#only = new Map();
    for (const { points, estimator } of paths)
      for (const [i, to] of points.slice(1).entries()) {
        const key = `${points[i]}\n${to}`;
        if (this.#only.get(key) == null) this.#only.set(key, estimator);
      }
    this.#watch.watchOnly(paths);
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

  /** The last epochs of every segment, once more: incidents that are known are not sent again. */
  async #seed(): Promise<void> {
    const { results } = this.#options;
    const wanted = new Set(this.segments.map((s) => `${s.from}\n${s.to}`));
    if (wanted.size === 0) return;
    const rows: SegmentRow[] = [];
    for (const { from, to, label, estimators, lastNs } of await results.segments()) {
      if (!wanted.has(`${from}\n${to}`)) continue;
      for (const estimator of estimators)
        rows.push(
          ...(await results.lastRows(
            { from, to, label, estimator, fromNs: lastNs - MAX_SEEDED_NS, toNs: lastNs },
            this.#settings.incidents.windowEpochs,
          )),
        );
    }
    this.#choice = new SegmentChoice();
    const { opened, changed } = this.#changesOf(this.#startReading(rows));
    for (const incident of opened.values()) await this.#tell("opened", incident);
    for (const { change, incident } of changed.values())
      if (change === "closed" || opened.has(incident.id)) await this.#tell(change, incident, true);
  }

  /** Where results are shared: from here on they are read. Rows of segments that are ahead of others wait. */
  #startReading(rows: SegmentRow[]): SegmentRow[] {
    const { shared, results } = this.#options;
    if (!shared) return rows;
    // Ways back as well: they say whether a clock stepped.
    const points = new Set(this.#settings.paths.flatMap((path) => path.points));
    const isWanted = (from: string, to: string) => points.has(from) && points.has(to);
    this.#shared = new SharedRows({ results, isWanted, segments: this.segments, waitMs: shared.waitMs });
    this.#shared.hold(rows);
    return this.#shared.release();
  }

  /** `atOnce`: however short ago it was told before. */
  async #tell(change: IncidentChange["change"], incident: Incident, atOnce = false): Promise<void> {
    const known = this.#open.get(incident.id);
    const isNew = change !== "updated" || !known || atOnce;
    const due = this.#isOwner && (isNew || performance.now() - known.writtenMs >= UPDATE_MS);
    const reported: ReportedIncident = {
      ...incident,
      ...{ flows: known?.incident.flows ?? [], flowCount: known?.incident.flowCount ?? 0 },
    };
    if (due && incident.kind !== "clock")
      Object.assign(reported, await sufferedFlows(this.#options.results, incident));
    if (change === "closed") this.#open.delete(incident.id);
    else
      this.#open.set(incident.id, {
        incident: reported,
        writtenMs: due ? performance.now() : (known?.writtenMs ?? 0),
      });
    if (this.#isOwner && (due || !this.#looks.has(incident.id))) this.#looks.set(reported);
    if (due) await this.#report(change, reported);
  }

  async #report(change: IncidentChange["change"], reported: ReportedIncident): Promise<void> {
    const open = this.#open.get(reported.id);
    if (open) open.incident = reported;
    await this.#write(reported);
    await this.#options.onChange?.(change, reported);
    const changed = { change, ...incidentJson(reported) };
    this.#options.events.emit("incident", () => changed);
    if (change !== "updated") this.#options.onLog?.(`incident ${change}: ${incidentLine(reported)}`);
  }

  async #write(incident: ReportedIncident): Promise<void> {
    const { id, startNs, closedNs } = incident;
    await this.#options.results.incidents.write({
      ...{ id, startNs, closedNs },
      body: JSON.stringify(incidentJson(incident)),
    });
  }
}

async function known(results: ResultsStore): Promise<ReportedIncident[]> {
  const list = await results.incidents.list({ limit: REMEMBERED });
  const open = await results.incidents.list({ limit: REMEMBERED, open: true });
  const bodies = new Map([...open, ...list].map((h) => [h.id, h.body]));
  return [...bodies.values()].map((body) => readIncident(JSON.parse(body) as IncidentJson));
}

/** A row as the localiser takes it. What its clocks may be off by is the same in every epoch, and no part of a rise. */
function estimateOf(row: SegmentRow): TimedEstimate {
  const { segment, startNs, endNs, state } = row;
  const made = combineRows([row], { step: 0, startNs, endNs });
  const point = made ? pointOf(made) : null;
  const latency = point?.latency ?? null;
  const has = latency !== null && state.weight > 0;
  const low = has ? Math.hypot(state.errorLow, state.repeatingLow) / state.weight : 0;
  const high = has ? Math.hypot(state.errorHigh, state.repeatingHigh) / state.weight : 0;
  const { sent, received, lost } = row;
  return {
    ...{ fromPoint: segment.from, toPoint: segment.to, startNs, endNs },
    meanNs: latency?.meanNs ?? null,
    lowNs: latency ? latency.meanNs - low : null,
    highNs: latency ? latency.meanNs + high : null,
    stdevNs: latency?.stdevNs ?? null,
    ...lossOf({ sent, received, lost, startNs, endNs, latency, edge: row.edges > 0 || row.missing > 0 }),
  };
}
