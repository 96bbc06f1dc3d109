/**
 * Wires the collector's own parts together. HTTP is above it (app.ts), files are below it:
 *
 *   DIR/records/         the archive (docs/formats/archive.md)
 *   DIR/results.duckdb   rows made from the records; may be removed, and is made again
 *   DIR/pending.jsonl    time spans whose records may not be in the results yet
 *   DIR/damaged/         unreadable records, set aside
 *   DIR/plan.json        the tap plan
 *   DIR/tokens.json      hashes of the tokens
 *   DIR/station.json     state of the monitoring station (station.ts)
 *   DIR/copied.json      time up to which records are in the object store, if there is one (record-copies.ts)
 *   DIR/.lock            held while a collector runs
 *
 *   message ─▶ Ingest ─▶ archive ─▶ Journal ─▶ acknowledged
 *                           └─▶ Pairing ─▶ rows ─▶ ResultsStore ─▶ roll-ups, events
 */

import { join } from "node:path";
import type { RecordArchive } from "../archive/archive.ts";
import { listSegments } from "../archive/listing.ts";
import { ObjectStorage } from "../archive/objects/object-storage.ts";
import { VERSION } from "../base/version.ts";
import type { CollectedSegment } from "../collect/collector.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import { mergeBy } from "../observe/directory-sink.ts";
import type { ResultsStore } from "../results/results-store.ts";
import type { ReportedEpoch } from "../results/rows.ts";
import { countArrivals } from "./arrivals.ts";
import { Asker, type AskingClient } from "./asker.ts";
import type { Arrival, ClusterState } from "./cluster/cluster-part.ts";
import { type CollectorData, closeData, openData } from "./collector-data.ts";
import { DirectionWatch } from "./direction-watch.ts";
import { Events } from "./events.ts";
import { Ingest, type Ingested } from "./ingest.ts";
import { Journal } from "./journal.ts";
import type { LatestRow } from "./latest-rows.ts";
import type { RowFollower } from "./monitor/follower.ts";
import { openPairing, type PairingPart } from "./pairing-thread.ts";
import type { AnswerPiece, ArchiveQuestion } from "./questions.ts";
import { copiesFile, RecordCopies } from "./record-copies.ts";
import { estimateAll, recover } from "./recovery.ts";
import { openResultsFile } from "./results-file.ts";
import { OPEN_GATE, RowWriter } from "./row-writer.ts";
import { LATENESS_NS, type ServiceCounts, type ServiceOptions } from "./service-options.ts";
import { type TapPlanState, TapPlanStore, type TapsPlan } from "./tap-plan.ts";
import { TapPlans } from "./tap-plans.ts";
import { type TapState, TapStates } from "./tap-states.ts";
import { Ticker } from "./ticker.ts";
import { TokenStore, tokenFile } from "./tokens.ts";
import { Upkeep } from "./upkeep.ts";

const QUESTION_MS = 30_000;
const MAX_WAITING = 64;
const TICK_MS = 500;
/** Longer for cluster workers, which all write to the same ClickHouse. */
const WORKER_TICK_MS = 1000;
const TICK_RECORDS = 1000;
const TOP_FLOWS = 50;
const MAX_PROBLEMS = 100;

export class CollectorService {
  readonly tokens: TokenStore;
  readonly results: ResultsStore;
  readonly #plans: TapPlans;
  readonly #directions: DirectionWatch;
  readonly events = new Events();
  readonly counts: ServiceCounts = {
    ...{ messages: 0, stored: 0, unchanged: 0, replaced: 0, merged: 0, refused: 0, bytes: 0 },
    ...{ questions: 0, failedQuestions: 0, rows: 0, rolledUp: 0 },
  };
  #options: ServiceOptions;
  readonly #archive: RecordArchive;
  readonly #kept: CollectorData;
  readonly #ingest: Ingest;
  readonly #asker: Asker;
  /** Null for a cluster worker: what is not in the results is still in the stream. */
  readonly #journal: Journal | null;
  readonly #pairing: PairingPart;
  readonly #copies: RecordCopies | null;
  readonly #taps = new TapStates();
  readonly #startedMs = Date.now();
  /** The most recent problems with files. */
  readonly #problems: string[] = [];
  readonly #rows: RowWriter;
  readonly #upkeep: Upkeep;
  readonly #ticker: Ticker;
  #ticking: Promise<void> = Promise.resolve();
  #closed = false;
  #trouble: string | null = null;
  /** Takes measurements reported by a router. */
  readonly takeReported = (epoch: ReportedEpoch): void => this.#rows.report(epoch);

  private constructor(
    options: ServiceOptions,
    { results, ...kept }: CollectorData & { results: ResultsStore },
  ) {
    const { data, table = ESTIMATORS, now, questionMs = QUESTION_MS, onLog } = options;
    const { archive } = kept;
    this.#kept = kept;
    this.#options = options;
    this.#archive = archive;
    this.results = results;
    const everyMs = options.tickMs ?? (options.cluster ? WORKER_TICK_MS : TICK_MS);
    this.#ticker = new Ticker({ everyMs, most: TICK_RECORDS, tick: () => this.settle() });
    this.tokens = new TokenStore(tokenFile(data));
    this.#ingest = new Ingest(archive, table, now ? { now } : {});
    const { cluster } = options;
    const gate = cluster?.gate ?? OPEN_GATE;
    this.#rows = new RowWriter(results, this.events, gate, (text) => this.#problem(text));
    this.#journal = cluster ? null : new Journal(join(data, "pending.jsonl"));
    this.#plans = new TapPlans({
      ...{ store: new TapPlanStore(join(data, "plan.json"), now), cluster, events: this.events },
      points: () => this.#pointNames(),
      labelsOf: (point) => cluster?.labels.get(point) ?? listSegments(archive.directory, point),
      watch: (segment) => this.watch(segment),
    });
    this.#asker = new Asker({
      ...{ archive: { directory: archive.directory, objects: options.objects ?? null }, limitMs: questionMs },
      ...{ maxWaiting: MAX_WAITING, maxOfClient: MAX_WAITING / 4, answering: options.answering },
      ...(onLog ? { onError: onLog } : {}),
    });
    this.#pairing = openPairing({
      ...{ archive, table, latenessNs: options.latenessNs ?? LATENESS_NS, topFlows: TOP_FLOWS },
      onRows: (row, flows) => {
        this.#rows.add(row, flows);
      },
      onRefused: (file, reason) => this.#problem(`${file}: ${reason}`),
      onLate: (head) => {
        cluster?.late(head);
        results.arrivals.count(head, { late: 1 });
      },
      namesWaiting: cluster !== undefined,
    });
    const { objects } = options;
    this.#copies = objects
      ? new RecordCopies({
          ...{ archive, storage: new ObjectStorage(objects), merge: mergeBy(table), file: copiesFile(data) },
          onTrouble: (text) => this.#log(text ?? "records are copied to the object store again"),
        })
      : null;
    this.#upkeep = new Upkeep({
      ...{ archive, results, copies: this.#copies },
      now: now ?? (() => BigInt(Date.now()) * 1_000_000n),
      settings: () => this.#options,
      log: (text) => this.#log(text),
    });
    const segments = () => this.#pairing.segments;
    this.#directions = new DirectionWatch({ archive, table, segments, watch: (s) => this.watch(s) });
  }

  /** Throws UsageError if another collector has the directory, or if it is not writable. */
  static async open(options: ServiceOptions): Promise<CollectorService> {
    const { data, openResults, cluster, onLog } = options;
    // A cluster worker need not sync: what it loses with its machine is still in the stream.
    const kept = await openData(data, { synced: cluster === undefined });
    let results: ResultsStore | null = null;
    try {
      results = openResults
        ? await openResults()
        : await openResultsFile(join(data, "results.duckdb"), onLog);
      const service = new CollectorService(options, { ...kept, results });
      await service.#begin();
      service.#ticker.start();
      return service;
    } catch (error) {
      await results?.close();
      await closeData(kept);
      throw error;
    }
  }

  /** Continues where an earlier run stopped: from the journal, or from the messages the cluster still holds unacknowledged. */
  async #begin(): Promise<void> {
    const { data, cluster, segments = [] } = this.#options;
    const [archive, results, journal, pairing] = [this.#archive, this.results, this.#journal, this.#pairing];
    const watched = [...segments, ...this.#plans.segments];
    this.#copies?.start();
    const onProblem = (text: string) => this.#problem(text);
    const onLog = (text: string) => this.#log(text);
    if (journal) {
      const damaged = join(data, "damaged");
      await recover({ archive, results, journal, pairing, segments: watched, damaged, onProblem, onLog });
    }
    cluster?.attach({
      ...{ archive, pairing, latenessNs: this.#options.latenessNs ?? LATENESS_NS },
      store: (message, places) => this.#ingest.take(message, null, places),
      take: (message, arrival) => this.#take(message, null, arrival),
      adoptPlan: (state) => this.#plans.adopt(state),
      ...{ problem: onProblem, log: onLog },
    });
    for (const segment of watched) cluster?.watch(segment);
  }

  /** Stores a message. When it resolves, the accepted records are on disk, or in the cluster's stream. */
  ingest(message: Uint8Array, points: readonly string[] | null, tap: string | null): Promise<Ingested> {
    const { cluster } = this.#options;
    return cluster ? cluster.publish(message, points, tap) : this.#take(message, points, tap);
  }

  async #take(
    message: Uint8Array,
    points: readonly string[] | null,
    from: string | null | Arrival,
  ): Promise<Ingested> {
    const ingested = await this.#ingest.take(message, points, typeof from === "string" ? [] : from?.places);
    const heads = ingested.accepted.map((a) => a.head);
    await this.#journal?.add(heads);
    this.#copies?.add(heads);
    this.counts.messages++;
    this.counts.bytes += message.length;
    for (const { outcome } of ingested.results) this.counts[outcome]++;
    if (from === null || typeof from === "string") {
      countArrivals(this.results, ingested, false);
      this.#taps.take(heads, from);
    } else if (from.counts) {
      countArrivals(this.results, ingested, true);
      for (const head of heads) this.#taps.take([head], from.reports.get(head.point) ?? null);
    }
    for (const { head } of ingested.accepted) this.#directions.hear(head.point, head.segment);
    this.#pairing.offer(ingested.accepted);
    this.#ticker.add(ingested.accepted.length);
    return ingested;
  }

  ask(asked: ArchiveQuestion, client: AskingClient): Promise<string> {
    return this.#counted(asked, () => this.#asker.ask(asked, client));
  }

  /** Answers in pieces, as they become available. */
  stream(asked: ArchiveQuestion, client: AskingClient): Promise<AsyncIterable<AnswerPiece>> {
    return this.#counted(asked, () => this.#asker.stream(asked, client));
  }

  async #counted<T>(asked: ArchiveQuestion, ask: () => Promise<T>): Promise<T> {
    this.counts.questions++;
    try {
      await this.#options.cluster?.fetchFor(asked);
      return await ask();
    } catch (error) {
      this.counts.failedQuestions++;
      throw error;
    }
  }

  points(): { name: string; tap: TapState | null }[] {
    return this.#pointNames().map((name) => ({ name, tap: this.#taps.of(name) }));
  }

  /** When each point was last heard from, ms since 1970. For points known only from stored records, the collector's start time. */
  heard(): Map<string, number> {
    const { cluster } = this.#options;
    const own = (name: string) => cluster?.hears(name) ?? true;
    const heard = new Map(this.#pointNames().map((name) => [name, this.#startedMs]));
    for (const [name, { heardMs }] of Object.entries(this.#taps.all())) heard.set(name, heardMs);
    return new Map([...heard].filter(([name]) => own(name)));
  }

  /** Points of this collector, or of its whole cluster. */
  #pointNames(): string[] {
    const { cluster } = this.#options;
    return cluster ? [...cluster.labels.keys()].sort() : this.#archive.points();
  }

  get taps(): Record<string, TapState> {
    return this.#taps.all();
  }

  /** The newest row of each segment and estimator. */
  get latest(): Iterable<LatestRow> {
    return this.#rows.latest;
  }

  get pairing(): Pick<PairingPart, "counts" | "segments" | "waiting"> {
    return this.#pairing;
  }

  /** Null if the collector is not a worker of a cluster. */
  get cluster(): ClusterState | null {
    return this.#options.cluster?.state() ?? null;
  }

  health(): Record<string, unknown> {
    const { rss, heapUsed, external, arrayBuffers } = process.memoryUsage();
    const upSeconds = Math.round((Date.now() - this.#startedMs) / 1000);
    return {
      ...{
        status: this.#trouble === null ? "ok" : "trouble",
        trouble: this.#trouble,
        hoptime: VERSION,
        upSeconds,
      },
      records: { ...this.counts },
      pairing: {
        ...this.#pairing.counts,
        segments: this.#pairing.segments.length,
        ...{ waiting: this.#pairing.waiting, behind: this.#pairing.behind },
        unwritten: this.#rows.waiting,
        pending: this.#journal?.spans.length ?? 0,
      },
      ...(this.cluster ? { cluster: this.cluster } : {}),
      ...(this.#copies ? { objects: this.#copies.state } : {}),
      memory: { rss, heapUsed, external, arrayBuffers },
      taps: this.#taps.all(),
      problems: this.#problems,
    };
  }

  /** Resolves when all records received so far are in the results, except epochs that wait for the other endpoint. */
  settle(): Promise<void> {
    this.#ticking = this.#ticking.then(() => this.#tick());
    return this.#ticking;
  }

  get plan(): TapPlanState {
    return this.#plans.state;
  }

  /** Sets the plan that the taps follow from a whole minute on; its segments are watched. */
  setPlan(plan: TapsPlan): Promise<TapPlanState> {
    return this.#plans.set(plan);
  }

  /** Applies the settings that can change at run time: retention and watched segments. */
  reconfigure({ retention, segments }: Pick<ServiceOptions, "retention" | "segments">): void {
    this.#options = { ...this.#options, retention, segments: segments ?? [] };
    for (const segment of segments ?? []) this.watch(segment);
  }

  /** From now on, passes every row to `follower` once it is written. */
  follow(follower: RowFollower): void {
    this.#rows.follow(follower);
  }

  /** Watches a segment, and estimates the records of it that the archive already has. */
  watch(segment: CollectedSegment): void {
    const { cluster } = this.#options;
    if (cluster) cluster.watch(segment);
    else if (this.#pairing.watch(segment)) estimateAll(this.#archive, this.#pairing, segment);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#ticker.stop();
    await this.settle();
    await this.abandon();
  }

  /** Stops without settling anything, as a crash would; for tests of the recovery. */
  async abandon(): Promise<void> {
    this.#closed = true;
    this.#ticker.stop();
    await this.#ticking;
    await this.#rows.close();
    await this.#asker.close();
    await this.#pairing.close();
    await this.#journal?.close();
    await this.#copies?.close();
    await this.results.close();
    await closeData(this.#kept);
  }

  async #tick(): Promise<void> {
    try {
      const looked = this.#journal?.spans.length ?? 0;
      this.#directions.resolve();
      // Unwritten rows go first: while writing fails, nothing more is estimated, so no more rows pile up.
      this.counts.rows += await this.#rows.write();
      const { cluster } = this.#options;
      this.counts.rows += await this.#rows.writeDuring(this.#pairing.work(), () => {
        const state = cluster && this.#pairing.state();
        return (held) => state && cluster.written(state, held);
      });
      cluster?.ticked();
      await this.#journal?.settle(
        looked,
        ({ point, segment, ...span }) => !this.#pairing.isSettled(point, segment, span),
      );
      await this.#rows.tick();
      this.counts.rolledUp += await this.#upkeep.tend(this.#closed);
      if (this.#trouble !== null) this.#log("results are written again");
      this.#trouble = null;
    } catch (error) {
      const { message } = error as Error;
      if (message !== this.#trouble) this.#log(`results cannot be written: ${message}`);
      this.#trouble = message;
    }
  }

  /** Removes what exceeds the configured age or size. */
  retain(): Promise<void> {
    return this.#upkeep.retain();
  }

  #problem(text: string): void {
    this.#log(text);
    this.#problems.push(text);
    if (this.#problems.length > MAX_PROBLEMS) this.#problems.shift();
  }

  #log(text: string): void {
    this.#options.onLog?.(text);
  }
}
