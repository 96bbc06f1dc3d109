import type { CollectedSegment } from "../../collect/collector.ts";
import type { RecordHead } from "../../epoch/record.ts";
import type { SegmentRow } from "../../results/rows.ts";
import { refusal } from "../../transport/nats/connection.ts";
import { labelsIn, streamNow } from "../../transport/nats/plan-reader.ts";
import { endsOfLabel, homeOf, partitionOf, subjectOf } from "../../transport/nats/subjects.ts";
import type { Ingested } from "../ingest.ts";
import { nameOf, type PairingState } from "../pairing.ts";
import type { ArchiveQuestion } from "../questions.ts";
import { estimateAll } from "../recovery.ts";
import type { RowGate } from "../row-writer.ts";
import type { TapPlanState } from "../tap-plan.ts";
import { BusyPartitions } from "./busy-partitions.ts";
import { type ClusterLink, closeCluster, type Shared } from "./cluster-link.ts";
import type { ClusterPart, ClusterState, WorkerParts } from "./cluster-part.ts";
import { RecordAssembly } from "./incoming.ts";
import { headIn, RecordIntake } from "./intake.ts";
import { Leases } from "./leases.ts";
import { Partition } from "./partition.ts";
import { PastRecords } from "./past-records.ts";
import { publishMessage } from "./publish-message.ts";
import { subjectsAsked } from "./subjects-asked.ts";
import { Takeover } from "./takeover.ts";
import { Troubles } from "./troubles.ts";
import { UnacknowledgedRecords } from "./unacknowledged.ts";

const LOOK_MS = 5000;
const MINUTE_MS = 60_000;
/** Twice: workers learn of a segment one after the other. */
const LEARN_MS = 15_000;

export class ClusterWorker implements ClusterPart {
  readonly #link: ClusterLink;
  readonly #leases: Leases;
  readonly #unacknowledged: UnacknowledgedRecords;
  readonly #intake: RecordIntake;
  readonly #partitions = new Map<number, Partition>();
  /** All that anybody watches, by name. */
  readonly #segments = new Map<string, CollectedSegment>();
  /** How far back the stream has been looked through for a segment, ms since 1970. */
  readonly #lookedBack = new Map<string, number>();
  readonly #busy = new BusyPartitions({
    tick: () => this.#tick,
    isClosed: () => this.#closed,
    say: (error) => this.#say("past", error),
  });
  #parts: WorkerParts | null = null;
  #past: PastRecords | null = null;
  #tick = 0;
  #takenOver = 0;
  #lost = 0;
  #labels: ReadonlyMap<string, readonly string[]> = new Map();
  #lag = 0;
  #shared: Shared = { segments: [], plan: null };
  /** When the stream was made. */
  #created: string | null = null;
  #timer: NodeJS.Timeout | null = null;
  #alive: NodeJS.Timeout | null = null;
  readonly #troubles: Troubles;
  #closed = false;

  constructor(link: ClusterLink) {
    this.#link = link;
    this.#troubles = new Troubles({
      log: (line) => {
        if (!this.#closed) this.#parts?.log(`${link.url}: ${line}`);
      },
    });
    this.#unacknowledged = new UnacknowledgedRecords(ackWaitOf(link));
    this.#intake = new RecordIntake({
      ...{ link, unacknowledged: this.#unacknowledged },
      parts: () => (this.#closed ? null : this.#parts),
      // What was delivered before its past is there comes again: alone it would wait for ends that came earlier.
      fenceOf: (partition) => (this.#ready(partition) ? this.#leases.fenceOf(partition) : null),
      discover: (point, label) => this.#discover(point, label),
      receiversOf: (point) =>
        [...this.#segments.values()].flatMap(({ from, to }) =>
          from === point ? [this.#partitionOf(to)] : [],
        ),
      tick: () => this.#tick,
      say: (error, what) => this.#say(what ?? "records", error),
    });
    this.#leases = new Leases({
      ...{ bucket: link.leases, worker: link.worker, lifeMs: link.leaseMs },
      ...{ partitions: link.cluster.partitions, listWorkers: link.listWorkers },
      onGained: (p) => this.#begin(p),
      onLost: (p, why) => void this.#end(p, why),
      release: (p) => this.#release(p),
      onTrouble: (error) => this.#say("leases", error),
    });
  }

  attach(parts: WorkerParts): void {
    this.#parts = parts;
    this.#past = new PastRecords(this.#link, parts.archive.directory, (...records) =>
      parts.store(...records),
    );
  }

  /** Begins to work. What the cluster has of plans and segments is known when it resolves. */
  async start(): Promise<void> {
    await this.#look();
    this.#leases.start();
    this.#schedule();
    this.#alive = setInterval(() => this.#intake.keepAlive(), ackWaitOf(this.#link) / 4);
  }

  /** Gives back its partitions when their rows are written. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer) clearTimeout(this.#timer);
    await this.#leases.close();
    if (this.#alive) clearInterval(this.#alive);
    this.#past?.close();
    await closeCluster(this.#link);
  }

  get labels(): ReadonlyMap<string, readonly string[]> {
    return this.#labels;
  }

  hears(point: string): boolean {
    return this.#leases.holds(this.#partitionOf(point));
  }

  /** One of the group's workers at a time: who has the first partition. */
  get ownsPaths(): boolean {
    return this.#leases.holds(0);
  }

  state(): ClusterState {
    const { url, group, worker, cluster, aside } = this.#link;
    return {
      ...{ url, group, worker, workers: this.#leases.workers, partitions: cluster.partitions },
      ...{ owned: this.#leases.partitions, unacknowledged: this.#unacknowledged.size, lag: this.#lag },
      ...{ acknowledged: this.#unacknowledged.acknowledged, copied: this.#intake.copied },
      ...{ setAside: aside.count, aside: aside.last, takenOver: this.#takenOver, lost: this.#lost },
    };
  }

  watch(segment: CollectedSegment): void {
    const name = nameOf(segment);
    const { from, to, label } = segment;
    if (from === to || this.#segments.has(name)) return;
    this.#segments.set(name, segment);
    // A label A:B says it to every worker; others are shared.
    if (!endsOfLabel(label, from)) void this.#link.shareSegment(segment).catch(() => undefined);
    if (this.#ready(this.#partitionOf(to))) this.#learn(segment);
  }

  readonly gate: RowGate = {
    fenceOf: (row) => this.#fenceOf(row),
    isOpen: ({ segment }) => this.#leases.holds(this.#partitionOf(segment.to)),
  };

  #fenceOf(row: SegmentRow): number | null {
    const fence = this.#leases.fenceOf(this.#partitionOf(row.segment.to));
    if (fence === null || row.missing === 0 || this.#isComplete(row.segment, row.startNs)) return fence;
    this.#lookBack(row.segment, row.startNs, row);
    return null;
  }

  late(head: RecordHead): void {
    for (const segment of this.#segments.values()) {
      const { from, to, label } = segment;
      if (label !== head.segment || (from !== head.point && to !== head.point)) continue;
      if (
        this.#leases.fenceOf(this.#partitionOf(to)) !== null &&
        !this.#isComplete(segment, head.epoch.startNs)
      )
        this.#lookBack(segment, head.epoch.startNs, head.epoch);
    }
  }

  /** Also while the pairing works on: with a backlog that takes long, and what is done does not wait for the rest. */
  written(
    { orders, openNames, aloneNames }: Pick<PairingState, "orders" | "openNames" | "aloneNames">,
    held: ReadonlySet<string>,
  ): void {
    const [open, alone] = [new Set(openNames), new Set(aloneNames)];
    const unwritten = new Set([...held].map((to) => this.#partitionOf(to)));
    this.#unacknowledged.settle(orders, this.#leases, {
      waitsFor: ({ name, partition }) => {
        if (this.#busy.has(partition)) return "rows";
        return open.has(name) ? (alone.has(name) ? "end" : "rows") : null;
      },
      isUnwritten: ({ partition }) => unwritten.has(partition),
    });
    this.#intake.letIn();
  }

  ticked(): void {
    this.#tick++;
    this.#unacknowledged.rest();
    this.#intake.letIn();
  }

  publish(message: Uint8Array, points: readonly string[] | null, tap: string | null): Promise<Ingested> {
    return publishMessage(this.#link, message, { points, tap });
  }

  async fetchFor(asked: ArchiveQuestion): Promise<void> {
    const { partitions } = this.#link.cluster;
    this.#labels = await labelsIn(this.#link);
    for (const { point, label, fromMs } of subjectsAsked(asked, this.#labels))
      await this.#past?.fetch(subjectOf(homeOf(point, label, partitions), point, label), fromMs);
  }

  sharePlan(state: TapPlanState): Promise<void> {
    this.#shared = { ...this.#shared, plan: state };
    return this.#link.sharePlan(state);
  }

  #partitionOf(point: string): number {
    return partitionOf(point, this.#link.cluster.partitions);
  }

  #ready(partition: number): boolean {
    return (this.#partitions.get(partition)?.sinceMs ?? Number.POSITIVE_INFINITY) < Number.POSITIVE_INFINITY;
  }

  /** `goesOn`: it was this worker's before, too. */
  #begin(number: number, goesOn = false): void {
    const [parts, past] = [this.#parts, this.#past];
    if (!parts || !past || this.#closed) return;
    const read = new Takeover();
    const assembly = new RecordAssembly();
    const partition = new Partition({
      ...{ link: this.#link, group: this.#link.group, number, ackWaitMs: ackWaitOf(this.#link) },
      // What was acknowledged may be an epoch's other end, or list its flows. Around a record that waits, epochs cut by packets are looked at a minute before and after.
      horizonMs: Number(parts.latenessNs / 1_000_000n) + MINUTE_MS,
      onPast: async (messages, from) => {
        const changed = await past.store(messages, assembly);
        // Of an epoch of which there was a part already.
        for (const { point, segment, epoch } of changed) parts.pairing.again(point, segment, epoch);
        for (const head of messages.flatMap((m) => headIn(m.data))) {
          this.#discover(head.point, head.segment);
          if (from !== "filled") read.add(head, from === "open");
        }
      },
      onReady: async (sinceMs) => {
        if (sinceMs > 0 || read.open.length > 0) this.#takenOver++;
        if (!goesOn || sinceMs > 0) this.#resume(number, read);
      },
      onMessage: (message) => this.#intake.take(message),
      onTrouble: (error) => this.#say(`partition ${number}`, error),
    });
    this.#partitions.set(number, partition);
    partition.start();
  }

  /** Segments of a partition go on from the archive; what the worker before had not finished is estimated again. */
  #resume(number: number, read: Takeover): void {
    const { pairing } = this.#parts ?? {};
    if (!pairing) return;
    for (const segment of this.#segments.values()) {
      if (this.#partitionOf(segment.to) !== number) continue;
      // Records that were on their way to the pairing when the partition was lost may have it watched again, without those that they belong to.
      pairing.unwatch(segment);
      pairing.watch(segment);
      const { latestNs, doneNs } = read.of(segment) ?? {};
      if (latestNs !== undefined) pairing.resume(segment, latestNs, doneNs);
    }
    for (const { point, segment, epoch } of read.open) pairing.again(point, segment, epoch);
  }

  #discover(point: string, label: string): void {
    const ends = endsOfLabel(label, point);
    if (ends) this.watch({ ...ends, label });
  }

  /** A segment that is new here: what the stream has of it is fetched and estimated, and once more when all workers know of it. */
  #learn(segment: CollectedSegment): void {
    const { pairing, archive } = this.#parts ?? {};
    if (!pairing || !archive || !pairing.watch(segment)) return;
    if (endsOfLabel(segment.label, segment.from)) return;
    const all = async () => {
      await this.#fetchSegment(segment, 0, true);
      estimateAll(archive, pairing, segment);
    };
    this.#busy.during(this.#partitionOf(segment.to), all());
    setTimeout(() => {
      if (!this.#closed) this.#busy.during(this.#partitionOf(segment.to), all());
    }, LEARN_MS).unref();
  }

  #isComplete(segment: CollectedSegment, startNs: bigint): boolean {
    const sinceMs = Math.min(
      this.#partitions.get(this.#partitionOf(segment.to))?.sinceMs ?? Number.POSITIVE_INFINITY,
      this.#lookedBack.get(nameOf(segment)) ?? Number.POSITIVE_INFINITY,
    );
    return sinceMs === 0 || sinceMs <= Number(startNs / 1_000_000n) - MINUTE_MS;
  }

  /** What the stream has of an epoch's ends; then it is estimated again. */
  #lookBack(segment: CollectedSegment, startNs: bigint, span: { startNs: bigint; endNs: bigint }): void {
    const fromMs = Math.max(0, Number(startNs / 1_000_000n) - MINUTE_MS);
    const look = async () => {
      await this.#fetchSegment(segment, fromMs, false);
      this.#lookedBack.set(
        nameOf(segment),
        Math.min(fromMs, this.#lookedBack.get(nameOf(segment)) ?? fromMs),
      );
      this.#parts?.pairing.again(segment.from, segment.label, span);
    };
    this.#busy.during(this.#partitionOf(segment.to), look());
  }

  /** `atHome`: where the taps publish them, too; copies for this partition begin when a worker learns of the segment. */
  async #fetchSegment({ from, to, label }: CollectedSegment, fromMs: number, atHome: boolean): Promise<void> {
    const partition = this.#partitionOf(to);
    const subjects = new Set([subjectOf(partition, from, label), subjectOf(partition, to, label)]);
    if (atHome) subjects.add(subjectOf(homeOf(from, label, this.#link.cluster.partitions), from, label));
    for (const subject of subjects) await this.#past?.fetch(subject, fromMs);
  }

  async #end(number: number, why: string): Promise<void> {
    this.#lost++;
    this.#parts?.log(`partition ${number} is given up: ${why}`);
    await this.#drop(number);
  }

  /** When the rows of what has come are written, or after a while. */
  async #release(number: number): Promise<void> {
    await this.#partitions.get(number)?.stop();
    const untilMs = performance.now() + this.#link.leaseMs / 3;
    while (this.#unacknowledged.of(number) > 0 && performance.now() < untilMs && this.#leases.holds(number))
      await new Promise((resolve) => setTimeout(resolve, 100));
    await this.#drop(number);
  }

  async #drop(number: number): Promise<void> {
    const partition = this.#partitions.get(number);
    this.#partitions.delete(number);
    this.#say(`partition ${number}`, null);
    this.#unacknowledged.forget(number);
    this.#intake.forget(number);
    for (const [name, segment] of this.#segments)
      if (this.#partitionOf(segment.to) === number) {
        this.#parts?.pairing.unwatch(segment);
        this.#lookedBack.delete(name);
      }
    await partition?.stop();
  }

  #schedule(): void {
    if (this.#closed) return;
    this.#timer = setTimeout(() => {
      void this.#look()
        .then(
          () => this.#say("looks", null),
          (error: unknown) => this.#say("looks", error),
        )
        .then(() => this.#schedule());
    }, LOOK_MS);
  }

  /** What others have set, what there is, and what is behind. */
  async #look(): Promise<void> {
    this.#shared = await this.#link.shared(this.#shared);
    const { segments, plan } = this.#shared;
    for (const segment of segments) this.watch(segment);
    if (plan) await this.#parts?.adoptPlan(plan);
    const { created, labels } = await streamNow(this.#link);
    this.#labels = labels;
    if (this.#created !== null && created !== this.#created) await this.#startOver();
    this.#created = created;
    this.#lag = await this.#link.lagOf(this.#leases.partitions);
    await this.#intake.setAsideIncomplete();
  }

  /** Somebody has removed the stream, and it was made again: its sequences begin anew, and nothing that came before can be acknowledged. What is here of it is estimated. */
  async #startOver(): Promise<void> {
    this.#parts?.log(
      `${this.#link.url}: the stream was removed: its records are lost, except those that workers have on disk`,
    );
    this.#past?.forget();
    this.#lookedBack.clear();
    for (const [number, partition] of [...this.#partitions]) {
      this.#partitions.delete(number);
      this.#unacknowledged.forget(number, true);
      this.#intake.forget(number);
      await partition.stop();
      if (this.#leases.fenceOf(number) !== null && !this.#partitions.has(number)) this.#begin(number, true);
    }
  }

  /** Null: it works. */
  #say(part: string, error: unknown): void {
    const { url } = this.#link;
    this.#troubles.set(part, error === null ? null : refusal(url, error).problem.replace(`${url}: `, ""));
  }
}

/** Longer than it takes to find out that a worker is gone. */
const ackWaitOf = ({ leaseMs }: ClusterLink) => 3 * leaseMs;
