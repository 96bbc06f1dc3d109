/** Writes estimated rows to the results and passes them on to the followers. A row estimated again before it is written replaces the earlier one. */
import { UsageError } from "../base/errors.ts";
import type { ResultsStore } from "../results/results-store.ts";
import { type FlowRow, type ReportedEpoch, reportedRow, type SegmentRow } from "../results/rows.ts";
import type { Events } from "./events.ts";
import { type LatestRow, LatestRows } from "./latest-rows.ts";
import type { RowFollower } from "./monitor/follower.ts";
import { rowEvent } from "./row-event.ts";

const MAX_UNWRITTEN = 100_000;
/** Interval of writes while estimating goes on, ms. */
const WRITE_MS = 500;

interface Unwritten {
  row: SegmentRow;
  flows: FlowRow[];
  fence: number;
}

/** Decides which rows this process writes when several processes write to the same results. */
export interface RowGate {
  /** Returns the writer's fence for the row (results/results-store.ts); null if another process writes it. */
  fenceOf(row: SegmentRow): number | null;
  /** Whether this process certainly owns the row now; otherwise the row waits. */
  isOpen(row: SegmentRow): boolean;
}

/** A single collector writes all of its rows. */
export const OPEN_GATE: RowGate = { fenceOf: () => 0, isOpen: () => true };

export class RowWriter {
  readonly #results: ResultsStore;
  readonly #events: Events;
  readonly #onError: (text: string) => void;
  readonly #latest = new LatestRows();
  readonly #followers: RowFollower[] = [];
  /** The last error of each failing follower. */
  readonly #failed = new Map<RowFollower, string>();
  readonly #gate: RowGate;
  #unwritten = new Map<string, Unwritten>();
  /** Number of rows in the write in progress. */
  #writing = 0;
  /** Receivers of the rows that the last write held back. */
  #held: ReadonlySet<string> = new Set();

  constructor(results: ResultsStore, events: Events, gate: RowGate, onError: (text: string) => void) {
    this.#results = results;
    this.#events = events;
    this.#gate = gate;
    this.#onError = onError;
  }

  /** Number of rows not written yet. */
  get waiting(): number {
    return this.#unwritten.size + this.#writing;
  }

  /** The newest row of each segment and estimator. */
  get latest(): Iterable<LatestRow> {
    return this.#latest.values();
  }

  add(row: SegmentRow, flows: FlowRow[]): void {
    const fence = this.#gate.fenceOf(row);
    if (fence !== null) this.#unwritten.set(rowKey(row), { row, flows, fence });
  }

  /** Adds what a router reported. It is in no journal, so while the results cannot be written it waits in memory, up to MAX_UNWRITTEN rows. */
  report(epoch: ReportedEpoch): void {
    if (this.#unwritten.size < MAX_UNWRITTEN) this.add(reportedRow(epoch), []);
  }

  /** From now on, passes every row to `follower` once it is written. */
  follow(follower: RowFollower): void {
    this.#followers.push(follower);
  }

  /** Writes the added rows whose fence is still the same; rows for which the gate is not open wait. Returns the number of rows written. */
  async write(): Promise<number> {
    const own = [...this.#unwritten].filter(([, { row, fence }]) => this.#gate.fenceOf(row) === fence);
    const rows = new Map(own.filter(([, { row }]) => this.#gate.isOpen(row)));
    this.#unwritten = new Map(own.filter(([key]) => !rows.has(key)));
    this.#held = new Set([...this.#unwritten.values()].map(({ row }) => row.segment.to));
    const list = [...rows.values()];
    const fences = new Map(list.map(({ row, fence }) => [row.segment.to, fence]));
    const written = list.map((r) => r.row);
    this.#writing = list.length;
    try {
      await this.#results.write(
        written,
        list.flatMap((r) => r.flows),
        ({ to }) => fences.get(to) ?? 0,
      );
    } catch (error) {
      // Retried with the next write, whose rows take precedence. Bounded: rows dropped here are still in the journal.
      if (rows.size < MAX_UNWRITTEN) this.#unwritten = new Map([...rows, ...this.#unwritten]);
      throw error;
    } finally {
      this.#writing = 0;
    }
    for (const row of written) {
      const loss = this.#latest.add(row);
      this.#events.emit("epoch", () => rowEvent(row, loss()));
    }
    if (list.length > 0) await this.#each((follower) => follower.take(written));
    return list.length;
  }

  /**
   * Writes rows while `working` goes on, and the rest when it has ended, so the first rows of a backlog are available long before the last. `begin`
   * is called before each write; the function it returns is called after it, with the receivers of the rows held back.
   */
  async writeDuring(
    working: Promise<void>,
    begin: () => (held: ReadonlySet<string>) => void,
  ): Promise<number> {
    let goesOn = true;
    const ended = working.finally(() => {
      goesOn = false;
    });
    let written = 0;
    const write = async () => {
      const done = begin();
      written += await this.write();
      done(this.#held);
    };
    try {
      while (goesOn) {
        await pauseOrEnd(ended);
        if (goesOn) await write();
      }
      await write();
      return written;
    } catch (error) {
      await ended.catch(() => {});
      throw error;
    }
  }

  /** Gives the followers their regular tick. */
  tick(): Promise<void> {
    return this.#each((follower) => follower.tick());
  }

  close(): Promise<void> {
    return this.#each((follower) => follower.close());
  }

  /** Calls every follower. Its failures are logged, each once, and do not affect the rows. */
  async #each(work: (follower: RowFollower) => Promise<void>): Promise<void> {
    for (const follower of this.#followers)
      try {
        await work(follower);
        this.#failed.delete(follower);
      } catch (error) {
        const { message, stack } = error as Error;
        if (this.#failed.get(follower) === message) continue;
        this.#failed.set(follower, message);
        this.#onError(error instanceof UsageError ? message : (stack ?? message));
      }
  }
}

async function pauseOrEnd(ended: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const pause = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, WRITE_MS);
  });
  await Promise.race([ended, pause]).finally(() => clearTimeout(timer));
}

function rowKey({ segment, estimator, startNs }: SegmentRow): string {
  return JSON.stringify([segment.from, segment.to, segment.label, estimator, `${startNs}`]);
}
