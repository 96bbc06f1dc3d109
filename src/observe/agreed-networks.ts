/**
 * Agrees on the networks by which live points separate their directions: the labels of records contain them (direction-lanes.ts), so points must
 * use the same ones. A point takes over another point's networks if they separate its own packets too; of several, all points choose the same
 * (compareNetworks). Points that started together with different networks change to the first in that order once they learn of each other.
 */
import { compareNetworks, type DirectionCheck } from "./directions.ts";

/** Tolerated share of packets between hosts of one side, or of unseen hosts. Above it, the networks do not separate the traffic. */
const MAX_UNCOVERED = 0.1;
const AGREE_EVERY_MS = 10_000;

export class AgreedNetworks {
  readonly #check: DirectionCheck;
  readonly #ofOthers: () => Promise<string[][]>;
  readonly #everyMs: number;
  /** Set when the last `watch` found better networks. */
  better: string[] | null = null;

  constructor(check: DirectionCheck, ofOthers: () => Promise<string[][]>, everyMs = AGREE_EVERY_MS) {
    this.#check = check;
    this.#ofOthers = ofOthers;
    this.#everyMs = everyMs;
  }

  /** Returns the networks to start with; null if none separate the directions reliably. */
  async first(): Promise<string[] | null> {
    const [used] = await this.#usable();
    if (used) return used;
    const learnt = this.#check.commonNetworks();
    return learnt && this.#separates(learnt) ? learnt : null;
  }

  /** Calls `change` once if others use networks that rank before these. Returns a function that stops watching. */
  watch(networks: readonly string[], change: () => void): () => void {
    const timer = setInterval(async () => {
      const [best] = await this.#usable();
      if (!best || compareNetworks(best, networks) >= 0) return;
      clearInterval(timer);
      this.better = best;
      change();
    }, this.#everyMs);
    return () => clearInterval(timer);
  }

  async #usable(): Promise<string[][]> {
    // Other points that cannot be asked now are asked again next time.
    const used = await this.#ofOthers().catch(() => []);
    return used.filter((networks) => this.#separates(networks)).sort(compareNetworks);
  }

  #separates(networks: readonly string[]): boolean {
    return this.#check.covered(networks) >= 1 - MAX_UNCOVERED;
  }
}
