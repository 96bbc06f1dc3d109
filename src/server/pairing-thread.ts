/**
 * Runs the pairing in a thread of its own (pairing-worker.ts), or in this thread when the program runs from source. The state known here is that of
 * the worker's last report.
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { endingFlags, endThread } from "../base/ending.ts";
import type { CollectedSegment } from "../collect/collector.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import type { Accepted } from "./ingest.ts";
import {
  isSettledIn,
  MAX_SEGMENTS,
  nameOf,
  Pairing,
  type PairingOptions,
  type PairingState,
  type Span,
} from "./pairing.ts";
import type { CrossingRecord, PairingOrder, PairingReport, PairingWorkerData } from "./pairing-worker.ts";

/** The part of the pairing that the service needs. */
export type PairingPart = Pick<
  Pairing,
  | "counts"
  | "segments"
  | "waiting"
  | "behind"
  | "sent"
  | "state"
  | "watch"
  | "unwatch"
  | "resume"
  | "again"
  | "isSettled"
  | "work"
> & {
  offer(accepted: readonly Accepted[]): void;
  close(): Promise<void>;
};

/** Larger records are not sent to the thread; it reads them from disk. */
const MAX_CROSSING = 16e6;
const YOUNG_MB = 96;

export function openPairing(options: PairingOptions): PairingPart {
  const file = fileURLToPath(new URL("./pairing-worker.js", import.meta.url));
  if (existsSync(file) && options.table === ESTIMATORS) return new PairingThread(file, options);
  const pairing = new Pairing(options);
  return Object.assign(pairing, { close: () => Promise.resolve() });
}

class PairingThread implements PairingPart {
  readonly #options: PairingOptions;
  readonly #worker: Worker;
  readonly #ending = endingFlags();
  readonly #watched = new Map<string, CollectedSegment>();
  /** Segments unwatched here that an older report of the worker may still contain. */
  readonly #unwatched = new Set<string>();
  readonly #waiting = new Map<number, { resolve: () => void; reject: (error: Error) => void }>();
  #state: PairingState = {
    counts: { estimated: 0, late: 0, repeated: 0, refused: 0, missing: 0 },
    ...{ waiting: 0, behind: 0, watched: [], orders: 0, openNames: [], aloneNames: [] },
  };
  #next = 1;
  #sent = 0;
  /** Numbers of the orders to estimate a span again that no report covers yet. */
  #again: number[] = [];
  #failed: Error | null = null;

  constructor(program: string, options: PairingOptions) {
    this.#options = options;
    const { archive, latenessNs, topFlows, namesWaiting = false } = options;
    const workerData: PairingWorkerData = {
      ...{ directory: archive.directory, latenessNs, topFlows, namesWaiting, ending: this.#ending },
    };
    // Records wait for the other endpoint; a larger young generation keeps them from being promoted before they are freed.
    this.#worker = new Worker(program, {
      workerData,
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
    });
    this.#worker.on("message", (report: PairingReport) => this.#take(report));
    this.#worker.on("error", (error) => this.#fail(error));
    this.#worker.on("exit", () => this.#fail(new Error("the thread that estimates has ended")));
    this.#worker.unref();
  }

  get counts() {
    return this.#state.counts;
  }

  get segments(): CollectedSegment[] {
    return [...this.#watched.values()];
  }

  get waiting(): number {
    return this.#state.waiting;
  }

  get sent(): number {
    return this.#sent;
  }

  /** The last reported state. All rows made up to then have arrived. */
  state(): PairingState {
    return this.#state;
  }

  get behind(): number {
    return this.#state.behind + this.#again.length;
  }

  watch(segment: CollectedSegment): boolean {
    const name = nameOf(segment);
    if (this.#watched.has(name) || this.#watched.size >= MAX_SEGMENTS) return false;
    this.#watched.set(name, segment);
    this.#unwatched.delete(name);
    this.#send({ kind: "watch", segment });
    return true;
  }

  unwatch(segment: CollectedSegment): void {
    const name = nameOf(segment);
    this.#watched.delete(name);
    this.#unwatched.add(name);
    this.#send({ kind: "unwatch", segment });
  }

  offer(accepted: readonly Accepted[]): void {
    const crossing: Uint8Array[] = [];
    const records = accepted.map(({ head, encoded, bytes, outcome, settled }): CrossingRecord => {
      const crosses = outcome === "stored" && encoded && encoded.length <= MAX_CROSSING;
      if (crosses) crossing.push(encoded);
      return { head: crosses ? null : plainHead(head), bytes, outcome, settled };
    });
    const encoded = joined(crossing);
    this.#send({ kind: "offer", records, encoded }, [encoded.buffer as ArrayBuffer]);
  }

  resume(segment: CollectedSegment, latestNs: bigint, doneNs?: bigint): void {
    this.#send({ kind: "resume", segment, latestNs, doneNs });
  }

  again(point: string, label: string, span: Span): void {
    this.#send({ kind: "again", point, label, span });
    this.#again.push(this.#sent);
  }

  /** As of the last finished work, which covers everything offered before it. */
  isSettled(point: string, label: string, span: Span): boolean {
    return isSettledIn(this.#state.watched, { point, label, span, latenessNs: this.#options.latenessNs });
  }

  work(): Promise<void> {
    if (this.#failed) return Promise.reject(this.#failed);
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      // Keeps the process alive while the thread works.
      this.#worker.ref();
      this.#send({ kind: "work", id });
    });
  }

  async close(): Promise<void> {
    this.#worker.removeAllListeners("exit");
    await endThread(this.#worker, this.#ending);
    this.#fail(new Error("the collector was closed"));
  }

  #send(order: PairingOrder, transfer: ArrayBuffer[] = []): void {
    this.#sent++;
    this.#worker.postMessage(order, transfer);
  }

  #take(report: PairingReport): void {
    if (report.kind === "rows") for (const { row, flows } of report.rows) this.#options.onRows(row, flows);
    else if (report.kind === "refused") this.#options.onRefused(report.file, report.reason);
    else if (report.kind === "late") this.#options.onLate?.(report.head);
    else if (report.kind === "state") this.#learn(report.state);
    else {
      this.#learn(report.state);
      for (const { segment } of report.state.watched)
        if (!this.#unwatched.has(nameOf(segment))) this.#watched.set(nameOf(segment), segment);
      const waiting = this.#waiting.get(report.id);
      this.#waiting.delete(report.id);
      if (this.#waiting.size === 0) this.#worker.unref();
      if (report.error === null) waiting?.resolve();
      else waiting?.reject(new Error(report.error));
    }
  }

  #learn(state: PairingState): void {
    this.#state = state;
    this.#again = this.#again.filter((order) => order > state.orders);
  }

  #fail(error: Error): void {
    this.#failed ??= error;
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}

/** Joins the parts in a buffer of its own, which can be transferred to the thread without a copy. */
function joined(parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Copies the head without the lazily unpacked payload. */
function plainHead(head: Accepted["head"]): Accepted["head"] {
  if (!("payload" in head)) return head;
  const copy = Object.getOwnPropertyDescriptors(head) as Record<string, PropertyDescriptor>;
  delete copy["payload"];
  return Object.defineProperties({}, copy) as Accepted["head"];
}
