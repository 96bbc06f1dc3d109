/**
 * Records become rows as they come. Each watched segment has a collector of its own (collect/collector.ts), which pairs and estimates what comes in order; the watermark follows the records. What comes
 * late, replaces another record, or was left over by a crash is estimated again from the archive, for its own time: rows are replaced by better ones.
 */
import { join } from "node:path";
import type { RecordArchive } from "../archive/archive.ts";
import { recordPath } from "../archive/names.ts";
import { later } from "../base/time.ts";
import { turnEvery } from "../base/turn.ts";
import { openHandle } from "../collect/archive-records.ts";
import { type Collected, type CollectedSegment, Collector } from "../collect/collector.ts";
import { interleave } from "../collect/interleave.ts";
import type { RecordHandle } from "../collect/record-handle.ts";
import { identityText, recordIdentity } from "../epoch/identity.ts";
import type { EpochRecord, RecordHead } from "../epoch/record.ts";
import type { Estimator } from "../estimators/estimator.ts";
import { type FlowRow, flowRows, type SegmentRow, segmentRow } from "../results/rows.ts";
import { type Accepted, entryOf } from "./ingest.ts";
import { RecentRecords } from "./recent-records.ts";

export interface PairingOptions {
  archive: RecordArchive;
  table: readonly Estimator[];
  /** How long an epoch waits for its other end, in the records' time. */
  latenessNs: bigint;
  /** Flows kept of each epoch. */
  topFlows: number;
  /** Of one epoch; again where it is estimated again. */
  onRows: (row: SegmentRow, flows: FlowRow[]) => void;
  onRefused: (file: string, reason: string) => void;
  /** A record that came after its epoch was given up; once for each segment that it is an end of. */
  onLate?: (head: RecordHead) => void;
  /** Is its state to name the records that are open? */
  namesWaiting?: boolean;
}

/** A record that is in the archive. */
export interface OfferedRecord extends Pick<Accepted, "head" | "bytes" | "outcome" | "settled"> {
  /** As it came; null where it is to be read from the archive. */
  record: EpochRecord | null;
}

export interface Span {
  startNs: bigint;
  endNs: bigint;
}

export interface PairingCounts {
  estimated: number;
  late: number;
  repeated: number;
  refused: number;
  missing: number;
}

/** How far a segment is. */
export interface WatchedState {
  segment: CollectedSegment;
  /** End of the newest record. */
  latestNs: bigint;
  /** Times to be estimated again. */
  again: Span[];
}

export interface PairingState {
  counts: PairingCounts;
  waiting: number;
  behind: number;
  watched: WatchedState[];
  /** Offers and other orders that it is of. */
  orders: number;
  /** Where they are to be named: records (epoch/identity.ts) of those orders that wait, or whose rows are still to be made. All others are done: their rows have gone to `onRows`. */
  openNames: string[];
  /** Of these, those that wait for nothing but their other end. */
  aloneNames: string[];
}

interface Watched extends WatchedState {
  collector: Collector;
  /** Records that came late, whose times are still to be estimated again. */
  late: string[];
  /** The collector has no records from before this: what comes of that time is late. */
  resumedNs: bigint | null;
}

/** Records of so long are estimated again at a time. */
const CHUNK_NS = 600_000_000_000n;
/** Epochs that are cut by packets are known by their neighbours: so far around they are looked at. */
const AROUND_NS = 60_000_000_000n;
const TURN_MS = 5;
/** While much is estimated: how often what came meanwhile is looked at, ms. */
const LOOK_MS = 100;
export const MAX_SEGMENTS = 10_000;

export class Pairing {
  readonly counts: PairingCounts = { estimated: 0, late: 0, repeated: 0, refused: 0, missing: 0 };
  readonly #options: PairingOptions;
  readonly #watched = new Map<string, Watched>();
  readonly #recent = new RecentRecords();
  /** By point: segments that it is an end of. */
  readonly #byPoint = new Map<string, Watched[]>();
  #working: Promise<void> = Promise.resolve();
  #offers = 0;
  #orders = 0;

  constructor(options: PairingOptions) {
    this.#options = options;
  }

  get segments(): CollectedSegment[] {
    return [...this.#watched.values()].map((w) => w.segment);
  }

  /** Records that wait for a partner. */
  get waiting(): number {
    let n = 0;
    for (const { collector } of this.#watched.values()) n += collector.waiting;
    return n;
  }

  /** Times that are to be estimated again. */
  get behind(): number {
    let n = 0;
    for (const { again } of this.#watched.values()) n += again.length;
    return n;
  }

  watch(segment: CollectedSegment): boolean {
    const name = nameOf(segment);
    if (this.#watched.has(name) || this.#watched.size >= MAX_SEGMENTS) return false;
    const collector = this.#collector(segment);
    const watched: Watched = { segment, collector, latestNs: 0n, resumedNs: null, again: [], late: [] };
    this.#watched.set(name, watched);
    for (const point of [segment.from, segment.to])
      this.#byPoint.set(point, [...(this.#byPoint.get(point) ?? []), watched]);
    return true;
  }

  /** It is somebody else's from now on: what waits is forgotten. */
  unwatch(segment: CollectedSegment): void {
    const watched = this.#watched.get(nameOf(segment));
    if (!watched) return;
    this.#watched.delete(nameOf(segment));
    for (const point of [segment.from, segment.to])
      this.#byPoint.set(
        point,
        (this.#byPoint.get(point) ?? []).filter((w) => w !== watched),
      );
  }

  /** A flow table answers for nothing by itself: it lists flows for the others. */
  #collector(segment: CollectedSegment): Collector {
    const { table } = this.#options;
    const estimators = table.filter((e) => e.answers.length > 0).map((e) => e.name);
    return new Collector({ segments: [segment], table, estimators });
  }

  /** Records that are in the archive. `settled`: there is another record of the epoch, which this one has changed. */
  offer(accepted: readonly OfferedRecord[]): void {
    this.#offers++;
    this.#orders++;
    for (const { head, record, bytes, outcome: stored, settled } of accepted) {
      const source = this.#sourceOf(head);
      if (stored === "stored" && record) this.#recent.add(source, record, bytes);
      else if (settled) this.#recent.forget(source);
      this.#discover(head);
      for (const watched of this.#byPoint.get(head.point) ?? []) {
        if (watched.segment.label !== head.segment) continue;
        const late = settled || (watched.resumedNs !== null && head.epoch.startNs < watched.resumedNs);
        const outcome = late ? "late" : watched.collector.offer(this.#handle(head, bytes, source));
        if (outcome === "repeated") this.counts.repeated++;
        if (outcome === "late") {
          this.counts.late++;
          if (!settled) this.#options.onLate?.(head);
        }
        if (outcome === "late" || outcome === "late-list") {
          addSpan(watched.again, head.epoch);
          if (this.#options.namesWaiting) watched.late.push(identityText(recordIdentity(head)));
        }
        if (head.epoch.endNs > watched.latestNs) watched.latestNs = head.epoch.endNs;
      }
    }
  }

  #discover({ segment: label, point }: RecordHead): void {
    const found = labelled(label, point);
    if (found) this.watch(found);
  }

  /**
   * After a restart: records of the last while wait once more, so that an end that comes now finds its partner. `latestNs`: end of the newest record. `doneNs`: epochs that begin before this are in the
   * results for sure, but for those that are cut by packets.
   */
  resume(segment: CollectedSegment, latestNs: bigint, doneNs = 0n): void {
    this.#orders++;
    const watched = this.#watched.get(nameOf(segment));
    if (!watched || latestNs <= watched.latestNs) return;
    const { latenessNs } = this.#options;
    watched.latestNs = latestNs;
    const fromNs = latestNs - latenessNs - AROUND_NS;
    const stored = [...this.#stored(segment, { startNs: fromNs - AROUND_NS, endNs: latestNs })];
    const isCut = stored.some(({ epoch }) => epoch.mode === "delimited");
    watched.resumedNs = isCut ? fromNs : later(fromNs, doneNs);
    for (const handle of stored)
      if (isCut || handle.epoch.startNs >= watched.resumedNs) watched.collector.offer(handle);
  }

  /** A time of which records may not be in the results: of a point and label. */
  again(point: string, label: string, span: Span): void {
    this.#orders++;
    for (const watched of this.#byPoint.get(point) ?? [])
      if (watched.segment.label === label) addSpan(watched.again, span);
  }

  /** Is everything of this time and point estimated, or given up? */
  isSettled(point: string, label: string, span: Span): boolean {
    const { latenessNs } = this.#options;
    return isSettledIn(this.#byPoint.get(point) ?? [], { point, label, span, latenessNs });
  }

  /** Offers and other orders so far. */
  get sent(): number {
    return this.#orders;
  }

  /** Files of records that will be read yet. */
  #wanted(): Set<string> {
    const sources = new Set<string>();
    for (const { collector } of this.#watched.values())
      for (const { source } of collector.wanted()) if (source !== null) sources.add(source);
    return sources;
  }

  #openNames(): string[] {
    if (!this.#options.namesWaiting) return [];
    return [...this.#watched.values()].flatMap(({ collector, late }) => [
      ...collector.waitingNames(),
      ...late,
    ]);
  }

  #aloneNames(): string[] {
    if (!this.#options.namesWaiting) return [];
    return [...this.#watched.values()].flatMap(({ collector }) => [...collector.aloneNames()]);
  }

  /** As it is now, for those who are not in this thread. */
  state(): PairingState {
    const watched = [...this.#watched.values()].map(({ segment, latestNs, again }) => ({
      segment,
      latestNs,
      again: again.map((s) => ({ ...s })),
    }));
    const { waiting, behind } = this;
    const names = { openNames: this.#openNames(), aloneNames: this.#aloneNames() };
    return { counts: { ...this.counts }, waiting, behind, watched, orders: this.#orders, ...names };
  }

  /** Everything that can be estimated now is; one call after the other. */
  work(): Promise<void> {
    this.#working = this.#working.then(() => this.#advance());
    return this.#working;
  }

  async #advance(): Promise<void> {
    const turn = turnEvery(TURN_MS);
    const watched = () => [...this.#watched.values()];
    // Segments in turn: a path is known up to the one that is farthest behind.
    let looked = this.#offers;
    let nextMs = 0;
    for (const event of interleave(watched().map((w) => this.#ready(w, "all")))) {
      this.#take(event);
      await turn();
      if (this.#offers === looked || performance.now() < nextMs) continue;
      // What came meanwhile: delay and loss of segments do not wait for flows and packets of a backlog.
      looked = this.#offers;
      for (const quick of interleave(watched().map((w) => this.#ready(w, "segments")))) this.#take(quick);
      nextMs = performance.now() + LOOK_MS;
    }
    this.#recent.retain(this.#wanted());
    // What was before comes after what is now.
    for (const watched of this.#watched.values()) {
      const { length } = watched.late;
      for (let span = watched.again.shift(); span; span = watched.again.shift()) {
        // In pieces, so that a long outage is no long silence.
        const endNs = span.endNs - span.startNs > CHUNK_NS ? span.startNs + CHUNK_NS : span.endNs;
        if (endNs < span.endNs) watched.again.unshift({ startNs: endNs, endNs: span.endNs });
        await this.#estimateAgain(watched, { startNs: span.startNs, endNs });
      }
      watched.late.splice(0, length);
    }
  }

  *#ready({ collector, latestNs, resumedNs }: Watched, what: "all" | "segments"): Generator<Collected> {
    const untilNs = latestNs - this.#options.latenessNs;
    for (const event of what === "all" ? collector.advance(untilNs) : collector.advanceSegments(untilNs))
      if (resumedNs === null || spanOf(event).startNs >= resumedNs) yield event;
  }

  async #estimateAgain({ segment, latestNs }: Watched, { startNs, endNs }: Span): Promise<void> {
    const openNs = latestNs - this.#options.latenessNs;
    const collector = this.#collector(segment);
    const turn = turnEvery(TURN_MS);
    for (const handle of this.#stored(segment, { startNs: startNs - AROUND_NS, endNs: endNs + AROUND_NS }))
      collector.offer(handle);
    for (const event of collector.finish()) {
      const at = spanOf(event);
      const within = at.endNs > startNs && at.startNs < endNs;
      // What may still change is left to the collector that waits for it.
      if (within && (at.endNs <= openNs || isFinal(event))) this.#take(event);
      await turn();
    }
  }

  *#stored({ from, to, label }: CollectedSegment, { startNs, endNs }: Span): Generator<RecordHandle> {
    const { archive, onRefused } = this.#options;
    const { entries } = archive.list({
      points: [from, to],
      segments: [label],
      fromNs: startNs,
      toNs: endNs,
    });
    for (const entry of entries) {
      const handle = openHandle(archive, entry, (e, error) => onRefused(e.file, error.message));
      if (handle) yield handle;
    }
  }

  #take(event: Collected): void {
    if (event.kind === "estimate") this.counts.estimated++;
    else if (event.kind === "refused") {
      this.counts.refused++;
      this.#options.onRefused(event.refusal.source ?? "two records", event.refusal.reason);
    } else if (event.kind === "unpaired") this.counts.missing++;
    const row = segmentRow(event);
    const flows = event.kind === "estimate" ? flowRows(event, this.#options.topFlows) : [];
    if (row) this.#options.onRows(row, flows);
  }

  #sourceOf(head: RecordHead): string {
    return join(this.#options.archive.directory, ...recordPath(head));
  }

  #handle(head: RecordHead, bytes: number, source: string): RecordHandle {
    const { archive } = this.#options;
    return {
      ...{ ...recordIdentity(head), packets: head.counters.packets, key: head.key, bytes, source },
      read: () => this.#recent.get(source) ?? archive.readRecord(entryOf(source, head)),
    };
  }
}

/** A label A:B names its segment; null where it does not, or the point is neither of the two. */
export function labelled(label: string, point: string): CollectedSegment | null {
  const [from, to, ...more] = label.split(":");
  if (!from || !to || more.length > 0 || (point !== from && point !== to)) return null;
  return { from, to, label };
}

export function isSettledIn(
  watched: readonly WatchedState[],
  asked: { point: string; label: string; span: Span; latenessNs: bigint },
): boolean {
  const { point, label, span, latenessNs } = asked;
  const { startNs, endNs } = span;
  return watched.every(
    ({ segment, latestNs, again }) =>
      segment.label !== label ||
      (segment.from !== point && segment.to !== point) ||
      (endNs <= latestNs - latenessNs && !again.some((s) => s.startNs < endNs && s.endNs > startNs)),
  );
}

export function nameOf({ from, to, label }: CollectedSegment): string {
  return JSON.stringify([from, to, label]);
}

/** Joined with one that it touches. */
function addSpan(spans: Span[], { startNs, endNs }: Span): void {
  const near = spans.find((s) => startNs <= s.endNs && endNs >= s.startNs);
  if (!near) spans.push({ startNs, endNs });
  else {
    if (startNs < near.startNs) near.startNs = startNs;
    if (endNs > near.endNs) near.endNs = endNs;
  }
}

/** No record that is still to come changes it. */
function isFinal(event: Collected): boolean {
  return event.kind === "estimate" && event.estimate.mode !== "delimited";
}

function spanOf(event: Collected): Span {
  if (event.kind === "estimate") return event.estimate;
  if (event.kind === "refused") return event.refusal;
  if (event.kind === "unpaired") return event.unpaired.entry.epoch;
  const [first] = [...event.pair.receivers, ...event.pair.senders];
  return first?.epoch ?? { startNs: 0n, endNs: 0n };
}
