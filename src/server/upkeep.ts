/** Periodic work of a collector: rolls up results, and removes what exceeds the configured age or size. */
import type { RecordArchive } from "../archive/archive.ts";
import type { ResultsStore } from "../results/results-store.ts";
import type { RecordCopies } from "./record-copies.ts";
import { retainKept } from "./retention.ts";
import { LATENESS_NS, type ServiceOptions } from "./service-options.ts";

export interface UpkeepOptions {
  archive: RecordArchive;
  results: ResultsStore;
  copies: RecordCopies | null;
  now: () => bigint;
  /** The current settings. */
  settings: () => Pick<ServiceOptions, "retention" | "latenessNs">;
  log: (text: string) => void;
}

const ROLL_MS = 5000;
const RETAIN_MS = 600_000;
/** Longest wait until all records are in the object store, if there is one, before old ones are removed. No rows are written meanwhile. */
const COPIED_MS = 5000;

export class Upkeep {
  readonly #options: UpkeepOptions;
  #rolledMs = Number.NEGATIVE_INFINITY;
  #retainedMs = performance.now();

  constructor(options: UpkeepOptions) {
    this.#options = options;
  }

  /** Does the work that is due and returns how many spans were rolled up. `last`: the collector is closing. */
  async tend(last: boolean): Promise<number> {
    const { results, now, settings } = this.#options;
    const nowMs = performance.now();
    let rolledUp = 0;
    if (nowMs - this.#rolledMs >= ROLL_MS || last) {
      this.#rolledMs = nowMs;
      await results.arrivals.flush();
      rolledUp = await results.rollUp(now() - (settings().latenessNs ?? LATENESS_NS));
    }
    if (nowMs - this.#retainedMs >= RETAIN_MS) {
      this.#retainedMs = nowMs;
      await this.retain();
    }
    return rolledUp;
  }

  async retain(): Promise<void> {
    const { archive, results, copies, now, settings, log } = this.#options;
    if (copies && !(await copies.settle(COPIED_MS))) {
      log("records are not removed: some are not in the object store yet");
      return;
    }
    await retainKept(archive, results, settings().retention ?? {}, now());
  }
}
