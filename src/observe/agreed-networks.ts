/**
 * The networks by which a live point separates its directions, so that others separate theirs by the same: labels of records hold them (direction-lanes.ts). What another point uses is
 * taken over where it separates this point's packets too; of several, all points take the same (compareNetworks). Points that began at the same time and chose differently
 * change to the first in that order when they hear of each other.
 */
import { compareNetworks, type DirectionCheck } from "./directions.ts";

/** Packets that may be between hosts of one side, or of hosts that were not seen: more, and the networks do not separate what is there. */
const MAX_UNCOVERED = 0.1;
const AGREE_EVERY_MS = 10_000;

export class AgreedNetworks {
  readonly #check: DirectionCheck;
  readonly #ofOthers: () => Promise<string[][]>;
  readonly #everyMs: number;
  /** Found by the last watch. */
  better: string[] | null = null;

  constructor(check: DirectionCheck, ofOthers: () => Promise<string[][]>, everyMs = AGREE_EVERY_MS) {
    this.#check = check;
    this.#ofOthers = ofOthers;
    this.#everyMs = everyMs;
  }

  /** Null where nothing certain separates the directions. */
  async first(): Promise<string[] | null> {
    const [used] = await this.#usable();
    if (used) return used;
    const learnt = this.#check.commonNetworks();
    return learnt && this.#separates(learnt) ? learnt : null;
  }

  /** Calls `change` once, where others use networks that come before these. Returns what ends that. */
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
    // Who cannot be asked has nothing to say: this is asked again.
    const used = await this.#ofOthers().catch(() => []);
    return used.filter((networks) => this.#separates(networks)).sort(compareNetworks);
  }

  #separates(networks: readonly string[]): boolean {
    return this.#check.covered(networks) >= 1 - MAX_UNCOVERED;
  }
}
