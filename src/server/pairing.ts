/**
 * Turns records into rows as they arrive. Each watched segment has its own collector (collect/collector.ts), which pairs and estimates records in
 * order; its watermark follows the records. Records that are late, replace another, or were left over by a crash cause their time span to be
 * estimated again from the archive; the new rows replace the old ones.
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
  /** How long an epoch waits for the record of the other endpoint, in record time. */
  latenessNs: bigint;
  /** Number of flows kept per epoch. */
  topFlows: number;
  /** Called with the rows of one epoch; called again if the epoch is estimated again. */
  onRows: (row: SegmentRow, flows: FlowRow[]) => void;
  onRefused: (file: string, reason: string) => void;
  /** Called for a record that arrives after its epoch was closed, once for each segment of which its point is an endpoint. */
  onLate?: (head: RecordHead) => void;
  /** Whether the state names the open records. */
  namesWaiting?: boolean;
}

/** A record that is already in the archive. */
export interface OfferedRecord extends Pick<Accepted, "head" | "bytes" | "outcome" | "settled"> {
  /** The record as received; null if it must be read from the archive. */
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

/** Progress of one segment. */
export interface WatchedState {
  segment: CollectedSegment;
  /** End of the newest record. */
  latestNs: bigint;
  /** Time spans to estimate again. */
  again: Span[];
}

export interface PairingState {
  counts: PairingCounts;
  waiting: number;
  behind: number;
  watched: WatchedState[];
  /** Number of offers and other orders that this state covers. */
  orders: number;
  /**
   * If records are named: those of the covered orders that wait or whose rows are still to be made (epoch/identity.ts). All other records are done:
   * their rows have gone to `onRows`.
   */
  openNames: string[];
  /** The open records that wait only for the record of the other endpoint. */
  aloneNames: string[];
}

interface Watched extends WatchedState {
  collector: Collector;
  /** Late records whose spans are still to be estimated again. */
  late: string[];
  /** The collector has no records from before this time, so any record from before it counts as late. */
  resumedNs: bigint | null;
}

/** A span is estimated again in pieces of this length. */
const CHUNK_NS = 600_000_000_000n;
/** Epochs delimited by packets are identified by their neighbours, so this much around a span is read as well. */
const AROUND_NS = 60_000_000_000n;
const TURN_MS = 5;
/** Interval at which new records are looked at while a backlog is estimated, ms. */
const LOOK_MS = 100;
export const MAX_SEGMENTS = 10_000;

export class Pairing {
  readonly counts: PairingCounts = { estimated: 0, late: 0, repeated: 0, refused: 0, missing: 0 };
  readonly #options: PairingOptions;
  readonly #watched = new Map<string, Watched>();
  readonly #recent = new RecentRecords();
  /** Watched segments by endpoint. */
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

  /** Number of records that wait for the other endpoint. */
  get waiting(): number {
    let n = 0;
    for (const { collector } of this.#watched.values()) n += collector.waiting;
    return n;
  }

  /** Number of time spans to estimate again. */
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

  /** Stops watching the segment, e.g. because another worker has it now; waiting records are dropped. */
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

  /** Estimators without answers of their own are left out: a flow table only lists flows for the others. */
  #collector(segment: CollectedSegment): Collector {
    const { table } = this.#options;
    const estimators = table.filter((e) => e.answers.length > 0).map((e) => e.name);
    return new Collector({ segments: [segment], table, estimators });
  }

  /** Takes records that are already in the archive. `settled`: the record changed an existing record of its epoch. */
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
   * Restores a segment after a restart: its most recent records wait again, so that a record of the other endpoint arriving now finds its partner.
   * `latestNs`: end of the newest record. `doneNs`: epochs that begin before this are certainly in the results, unless they are delimited by
   * packets.
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

  /** Marks a span of a point and label to be estimated again, because its records may not be in the results. */
  again(point: string, label: string, span: Span): void {
    this.#orders++;
    for (const watched of this.#byPoint.get(point) ?? [])
      if (watched.segment.label === label) addSpan(watched.again, span);
  }

  /** Whether everything of this span and point is estimated or given up. */
  isSettled(point: string, label: string, span: Span): boolean {
    const { latenessNs } = this.#options;
    return isSettledIn(this.#byPoint.get(point) ?? [], { point, label, span, latenessNs });
  }

  /** Number of offers and other orders so far. */
  get sent(): number {
    return this.#orders;
  }

  /** Files of records that are still to be read. */
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

  /** A copy of the current state, for other threads. */
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

  /** Estimates everything that can be estimated now. Calls run one after the other. */
  work(): Promise<void> {
    this.#working = this.#working.then(() => this.#advance());
    return this.#working;
  }

  async #advance(): Promise<void> {
    const turn = turnEvery(TURN_MS);
    const watched = () => [...this.#watched.values()];
    // Segments take turns, because a path is known only up to its slowest segment.
    let looked = this.#offers;
    let nextMs = 0;
    for (const event of interleave(watched().map((w) => this.#ready(w, "all")))) {
      this.#take(event);
      await turn();
      if (this.#offers === looked || performance.now() < nextMs) continue;
      // New records have arrived: delay and loss of segments must not wait for the flows and packets of a backlog.
      looked = this.#offers;
      for (const quick of interleave(watched().map((w) => this.#ready(w, "segments")))) this.#take(quick);
      nextMs = performance.now() + LOOK_MS;
    }
    this.#recent.retain(this.#wanted());
    // Spans to estimate again come after current records.
    for (const watched of this.#watched.values()) {
      const { length } = watched.late;
      for (let span = watched.again.shift(); span; span = watched.again.shift()) {
        // In pieces, so that a long outage does not block new rows for long.
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
      // Epochs that may still change are left to the collector that waits for them.
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

/** Returns the segment that a label A:B names; null if it names none or the point is not one of its endpoints. */
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

/** Adds a span, joining it with one it touches. */
function addSpan(spans: Span[], { startNs, endNs }: Span): void {
  const near = spans.find((s) => startNs <= s.endNs && endNs >= s.startNs);
  if (!near) spans.push({ startNs, endNs });
  else {
    if (startNs < near.startNs) near.startNs = startNs;
    if (endNs > near.endNs) near.endNs = endNs;
  }
}

/** Whether no future record can change this result. */
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
