/**
 * Watches paths for incidents, epoch by epoch: the localiser's verdicts (localise/stream.ts) become incidents that open when a rise has lasted, stay open over
 * short pauses, and close after enough ordinary epochs.
 *
 * How it fails: a rise shorter than `openAfter` epochs is not an incident; one that lasts half of the window is the new normal and closes as such; in the first
 * `settleEpochs` of a segment nothing is judged. False alarms: tested on simulated quiet paths with heavy-tailed, correlated delays (path-watch.test.ts states
 * the rate).
 */

import type { LocaliseEstimate } from "../localise/segment-estimate.ts";
import { LocaliseStream, type StreamCounters } from "../localise/stream.ts";
import type { EpochRow, LossSpike, Spike } from "../localise/verdicts.ts";
import { ClockSteps } from "./clock-steps.ts";
import type { Incident, IncidentChange, IncidentSettings } from "./incident.ts";

export interface WatchedPath {
  name: string;
  points: readonly string[];
}

/** An estimate with its times in ns since 1970. */
export type TimedEstimate = Omit<LocaliseEstimate, "epochStartNs" | "epochEndNs"> & {
  startNs: bigint;
  endNs: bigint;
};

/** Epochs kept beyond the window, because verdicts look back. */
const MORE_HISTORY = 100;
/** Number of epochs that an incident waits for adjacent segments, which show whether a clock stepped. */
const CLOCK_WAIT = 3;
/** Share of the rise of a loss incident: an epoch that loses more is not ordinary, and the incident continues. */
const STILL_LOST = 0.2;
/** Maximum number of closed incidents kept, so that reading history again does not open them anew. */
const MAX_CLOSED = 1000;

/** How many epochs a complete one is preferred to later incomplete ones. */
const WHOLE_WITHIN = 5;
/** Times in the stream are relative to the start of a day, not to the first estimate: a watch that began later uses the same periods. */
const DAY_NS = 86_400_000_000_000n;

/** Number of epochs of each segment to read before a time, so that verdicts from then on do not depend on where reading began. */
export function historyOf({ windowEpochs }: IncidentSettings): number {
  return 2 * windowEpochs + MORE_HISTORY;
}

export class PathWatch {
  readonly #settings: IncidentSettings;
  readonly #stream: LocaliseStream;
  #paths: WatchedPath[] = [];
  #originNs: bigint | null = null;
  readonly #open = new Map<string, Incident>();
  readonly #closed: Incident[] = [];
  readonly #clocks = new ClockSteps();

  /** `known`: earlier incidents. Recently closed ones are not opened anew; open ones continue (`adopt`). */
  constructor(settings: IncidentSettings, known: readonly Incident[] = []) {
    const { confidence, minShare, minRiseNs, windowEpochs, settleEpochs } = settings;
    this.#settings = settings;
    this.#stream = new LocaliseStream({
      ...{ confidence, minShare, windowEpochs, minEffect: minRiseNs },
      minEpochs: Math.max(8, Math.min(settleEpochs, windowEpochs)),
      historyEpochs: windowEpochs + MORE_HISTORY,
    });
    for (const incident of known) this.adopt(incident);
  }

  /** Adds a known incident. Open incidents of the same place and time are replaced by it, and returned. */
  adopt(incident: Incident): Incident[] {
    if (incident.state === "closed") {
      this.#closed.push(incident);
      return [];
    }
    const { id, kind, segment, startNs, endNs, paths } = incident;
    const same = this.open.filter(
      (own) =>
        own.id !== id &&
        own.kind === kind &&
        own.segment?.from === segment?.from &&
        own.segment?.to === segment?.to &&
        own.paths.some((name) => paths.includes(name)) &&
        own.startNs < endNs &&
        startNs < own.endNs,
    );
    for (const own of same) this.#open.delete(own.id);
    this.#open.set(id, incident);
    return same;
  }

  get paths(): readonly WatchedPath[] {
    return this.#paths;
  }

  get open(): Incident[] {
    return [...this.#open.values()];
  }

  get counters(): Readonly<StreamCounters> {
    return this.#stream.counters;
  }

  /** Sets the watched paths; remaining segments keep their history. */
  watchOnly(paths: readonly WatchedPath[]): void {
    this.#paths = [...paths];
    this.#stream.watchOnly(paths.map((p) => p.points));
  }

  /** Adds an estimate, in time order per segment. Segments that are on no path show whether a clock stepped. */
  add(timed: TimedEstimate): IncidentChange[] {
    this.#clocks.add(timed);
    const { startNs, endNs, ...estimate } = timed;
    this.#originNs ??= startNs - (startNs % DAY_NS);
    const moved = this.#stream.add({
      ...estimate,
      epochStartNs: Number(startNs - this.#originNs),
      epochEndNs: Number(endNs - this.#originNs),
    });
    return moved.flatMap((points) => this.#judge(points));
  }

  /** Returns the last epoch of a path; null before its first. An incomplete epoch does not replace a complete one for a while. */
  latest(points: readonly string[]): { startNs: bigint; endNs: bigint; row: EpochRow } | null {
    const last = this.#stream.lastWholeEpoch(points, WHOLE_WITHIN);
    return last && { startNs: this.#time(last.startNs), endNs: this.#time(last.endNs), row: last.row };
  }

  #time(ns: number): bigint {
    return (this.#originNs ?? 0n) + BigInt(Math.round(ns));
  }

  #judge(points: readonly string[]): IncidentChange[] {
    const epoch = this.#stream.lastEpoch(points);
    const path = this.#paths.find((p) => samePoints(p.points, points));
    if (!epoch || !path) return [];
    const lengthNs = epoch.endNs - epoch.startNs;
    const changes: IncidentChange[] = [];
    const sinceNs = epoch.endNs - (this.#settings.closeAfter + 1) * lengthNs;
    // An open incident also continues with rises too short to open it.
    const isOpen = this.open.some((i) => i.paths.includes(path.name));
    const lastingNs = isOpen ? 0 : (this.#settings.openAfter - 0.5) * lengthNs;
    if (this.#stream.isActiveAfter(points, sinceNs, lastingNs)) {
      const { spikes, lossSpikes } = this.#stream.verdicts(points);
      for (const spike of spikes) changes.push(...this.#take(path, "delay", spike, epoch));
      for (const spike of lossSpikes) changes.push(...this.#take(path, "loss", spike, epoch));
    }
    changes.push(...this.#close(path, epoch, lengthNs));
    return changes;
  }

  #take(
    path: WatchedPath,
    kind: Incident["kind"],
    spike: Spike | LossSpike,
    epoch: { startNs: number; endNs: number; row: EpochRow },
  ): IncidentChange[] {
    const [startNs, endNs] = [this.#time(spike.fromNs), this.#time(spike.toNs)];
    const isOf = (i: Incident) =>
      (i.kind === kind || (kind === "delay" && i.kind === "clock")) && isSamePlace(i, path, spike.segment);
    // Already reported, and over.
    if (this.#closed.some((i) => isOf(i) && startNs < i.endNs && i.startNs < endNs)) return [];
    const epochNs = epoch.endNs - epoch.startNs;
    const pauseNs = BigInt(Math.round(this.#settings.closeAfter * epochNs));
    const known = this.open.find((i) => isOf(i) && startNs < i.endNs + pauseNs && i.startNs < endNs);
    if (!known) {
      const lasting = Math.round((spike.toNs - spike.fromNs) / epochNs);
      if (lasting < this.#settings.openAfter || !this.#isSure(spike)) return [];
      const clock = kind === "delay" && spike.segment ? this.#clocks.judge(spike.segment, startNs) : null;
      if (clock === "pending" && lasting < this.#settings.openAfter + CLOCK_WAIT) return [];
      const step = clock === "pending" ? null : clock;
      const now = nowOf(kind, spike.segment, path, epoch.row);
      const incident = fresh(step ? "clock" : kind, path, spike, { startNs, endNs, now, clock: step });
      this.#open.set(incident.id, incident);
      return [{ change: "opened", incident }];
    }
    const before = JSON.stringify(known, plain);
    this.#update(known, path, spike, endNs);
    known.now = nowOf(kind, known.segment, path, epoch.row) ?? known.now;
    return JSON.stringify(known, plain) === before ? [] : [{ change: "updated", incident: known }];
  }

  /** Returns whether a segment is named, or one of the candidates is certain to be to blame: a rise that may be ordinary is not an incident. */
  #isSure({ segment, candidates = [] }: Spike | LossSpike): boolean {
    return (
      segment !== null || candidates.reduce((sum, c) => sum + c.confidence, 0) >= this.#settings.confidence
    );
  }

  #update(incident: Incident, path: WatchedPath, spike: Spike | LossSpike, endNs: bigint): void {
    // In the order of the settings, whichever was judged first.
    if (!incident.paths.includes(path.name))
      incident.paths = this.#paths.flatMap(({ name }) =>
        name === path.name || incident.paths.includes(name) ? [name] : [],
      );
    if (endNs > incident.endNs) incident.endNs = endNs;
    // An undecided incident is named when more is known; never the reverse.
    if (incident.segment && !spike.segment) return;
    const found = evidence(spike);
    const isNew = !incident.segment && spike.segment !== null;
    incident.segment = spike.segment ?? incident.segment;
    incident.peak = isNew ? found.peak : Math.max(incident.peak, found.peak);
    if (isNew) incident.baseline = found.baseline;
    incident.confidence = found.confidence;
    incident.share = found.share;
    incident.reason = found.reason;
    incident.candidates = found.candidates;
    incident.also = incident.also || found.also;
    incident.loss = found.loss ?? incident.loss;
  }

  /**
   * Returns the end of the last lossy epoch of loss that comes and goes, or null if it is over: no stretch of epochs stands out any more, but epochs since the
   * last such stretch still lose much more than is ordinary. Limited: a loss that lasts half of the window is the new normal.
   */
  #stillLosesUntil(incident: Incident, path: WatchedPath, lengthNs: number): bigint | null {
    const { kind, segment, startNs, endNs, baseline, loss } = incident;
    const { closeAfter, windowEpochs } = this.#settings;
    if (kind !== "loss" || !segment || !loss || Number(endNs - startNs) > (windowEpochs / 2) * lengthNs)
      return null;
    const at = path.points.indexOf(segment.to) - 1;
    const epochs = this.#stream.lastEpochs(path.points, closeAfter).map((row) => row[at]);
    const least = baseline + STILL_LOST * (loss.rate - baseline);
    const last = epochs.findLast((e) => e && e.lost > least * (e.packets + e.lost));
    return last ? this.#time(last.epochEndNs) : null;
  }

  #close(
    path: WatchedPath,
    { endNs, row }: { endNs: number; row: EpochRow },
    lengthNs: number,
  ): IncidentChange[] {
    const nowNs = this.#time(endNs);
    const changes: IncidentChange[] = [];
    for (const incident of this.open) {
      if (!incident.paths.includes(path.name)) continue;
      const quietNs = BigInt(Math.round(this.#settings.closeAfter * lengthNs));
      if (nowNs < incident.endNs + quietNs) continue;
      const lossyNs = this.#stillLosesUntil(incident, path, lengthNs);
      if (lossyNs !== null && lossyNs > incident.endNs) {
        incident.endNs = lossyNs;
        incident.now = nowOf("loss", incident.segment, path, row) ?? incident.now;
        changes.push({ change: "updated", incident });
        continue;
      }
      incident.now = nowOf(incident.kind, incident.segment, path, row) ?? incident.now;
      const half = incident.baseline + (incident.peak - incident.baseline) / 2;
      incident.state = "closed";
      incident.closedNs = nowNs;
      incident.ended = incident.now !== null && incident.now > half ? "new-normal" : "ordinary";
      this.#open.delete(incident.id);
      this.#closed.push(incident);
      if (this.#closed.length > MAX_CLOSED) this.#closed.shift();
      changes.push({ change: "closed", incident });
    }
    return changes;
  }
}

function fresh(
  kind: Incident["kind"],
  path: WatchedPath,
  spike: Spike | LossSpike,
  seen: Pick<Incident, "startNs" | "endNs" | "now" | "clock">,
): Incident {
  const where = spike.segment ? `${spike.segment.from}:${spike.segment.to}` : path.name;
  return {
    id: `${seen.startNs}-${kind}-${where}`,
    ...{ kind, state: "open", segment: spike.segment, paths: [path.name], ...seen },
    ...{ closedNs: null, ended: null, ...evidence(spike) },
  };
}

function evidence(spike: Spike | LossSpike) {
  const { confidence, share, reason = null, candidates = [] } = spike;
  const common = { confidence, share, reason, candidates: [...candidates] };
  if ("peakNs" in spike)
    return {
      ...common,
      baseline: spike.baselineNs,
      peak: spike.peakNs,
      also: spike.alsoLoss ?? false,
      loss: null,
    };
  const { baseline, peak, sent, lost, loss } = spike;
  return {
    ...{ ...common, baseline, peak, also: spike.alsoDelay ?? false },
    loss: sent === null || lost === null || !loss ? null : { sent, lost, ...loss },
  };
}

/** An undecided incident belongs to its path; it may become that of a segment of the path. */
function isSamePlace(incident: Incident, path: WatchedPath, segment: Incident["segment"]): boolean {
  const { segment: own, paths } = incident;
  if (own && segment) return own.from === segment.from && own.to === segment.to;
  if (own && !segment) return paths.includes(path.name);
  return paths.includes(path.name);
}

/** Returns the value of the last epoch: of the segment, or of the whole path. */
function nowOf(
  kind: Incident["kind"],
  segment: Incident["segment"],
  { points }: WatchedPath,
  row: EpochRow,
): number | null {
  const parts = segment ? [row[points.indexOf(segment.to) - 1]] : row;
  let sum = 0;
  let through = 1;
  for (const part of parts) {
    if (!part || part.meanNs === null) return null;
    sum += part.meanNs;
    const sent = part.packets + part.lost;
    through *= 1 - (sent > 0 ? Math.max(0, part.lost) / sent : 0);
  }
  return kind === "loss" ? 1 - through : sum;
}

function samePoints(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((p, i) => p === b[i]);
}

const plain = (_: string, value: unknown) => (typeof value === "bigint" ? `${value}` : value);
