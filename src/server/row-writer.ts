/** Rows on their way from the estimates to the results, and to those who follow them. What is estimated again before it is written takes the place of what was. */
import type { ResultsStore } from "../results/results-store.ts";
import { type FlowRow, type ReportedEpoch, reportedRow, type SegmentRow } from "../results/rows.ts";
import type { Events } from "./events.ts";
import { type LatestRow, LatestRows } from "./latest-rows.ts";
import type { RowFollower } from "./monitor/follower.ts";
import { rowEvent } from "./row-event.ts";

const MAX_UNWRITTEN = 100_000;
/** While more is estimated, rows are written this often, ms. */
const WRITE_MS = 500;

interface Unwritten {
  row: SegmentRow;
  flows: FlowRow[];
  fence: number;
}

/** Where several processes write. */
export interface RowGate {
  /** Of who writes the row (results/results-store.ts); null where that is not this process. */
  fenceOf(row: SegmentRow): number | null;
  /** Is it sure at this moment? Otherwise the row waits. */
  isOpen(row: SegmentRow): boolean;
}

/** One collector on its own writes all of its rows. */
export const OPEN_GATE: RowGate = { fenceOf: () => 0, isOpen: () => true };

export class RowWriter {
  readonly #results: ResultsStore;
  readonly #events: Events;
  readonly #onError: (text: string) => void;
  readonly #latest = new LatestRows();
  readonly #followers: RowFollower[] = [];
  readonly #gate: RowGate;
  #unwritten = new Map<string, Unwritten>();
  /** Rows that the store is writing now. */
  #writing = 0;
  /** Receivers of rows that the last write left. */
  #held: ReadonlySet<string> = new Set();

  constructor(results: ResultsStore, events: Events, gate: RowGate, onError: (text: string) => void) {
    this.#results = results;
    this.#events = events;
    this.#gate = gate;
    this.#onError = onError;
  }

  /** Rows that are not written yet. */
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

  /** Nothing else keeps what a router reports: while the results cannot be written, no more than so much of it waits. */
  report(epoch: ReportedEpoch): void {
    if (this.#unwritten.size < MAX_UNWRITTEN) this.add(reportedRow(epoch), []);
  }

  /** Gets every row from now on, as soon as it is written. */
  follow(follower: RowFollower): void {
    this.#followers.push(follower);
  }

  /** Writes what was added and has the same fence still; what the gate is not sure of waits. Returns how many rows. */
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
      // Tried again with the next ones, which may be newer; bounded, because what is dropped here is still in the journal.
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
   * Writes what is added while `working` goes on, and the rest when it has ended: of a backlog the first rows are there long before the last. `begin` is called before each write, and what it returns
   * after it, with the receivers of rows that the gate has left.
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

  /** Lets time pass for those who follow. */
  tick(): Promise<void> {
    return this.#each((follower) => follower.tick());
  }

  close(): Promise<void> {
    return this.#each((follower) => follower.close());
  }

  /** Rows are written, whatever becomes of those who follow them. */
  async #each(work: (follower: RowFollower) => Promise<void>): Promise<void> {
    for (const follower of this.#followers)
      try {
        await work(follower);
      } catch (error) {
        this.#onError((error as Error).stack ?? String(error));
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
