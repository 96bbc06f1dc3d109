/**
 * Estimates the current time of a stream that is captured while it is read. Packets come late: the capturing side buffers them, and its clock may not be this
 * host's. So the stream's time is this host's clock minus the longest recent lag and some patience. A stream of old packets (a recording piped in) has no such
 * clock: a pause in the pipe is no pause on the wire.
 */
import { later } from "../../base/time.ts";

const LIVE_WITHIN_NS = 300_000_000_000n;
/** Margin beyond the longest lag, for a capture that fills its buffer more slowly than before. */
export const PATIENCE_NS = 1_500_000_000n;
/** A lag counts for one to two of these windows, so that one stall does not hold the stream back for ever. */
const WINDOW_NS = 60_000_000_000n;

const MAX_STRANGE = 3;

export type WallClock = () => bigint;
export const systemClock: WallClock = () => BigInt(Date.now()) * 1_000_000n;

export class LiveClock {
  readonly #wall: WallClock;
  #lagNs: bigint | null = null;
  /** The longest lag of the previous window; #lagNs is that of the current one. */
  #beforeNs = 0n;
  #windowEndNs = 0n;
  /** Consecutive batches with times far from this host's clock. */
  #strange = 0;

  constructor(wall: WallClock = systemClock) {
    this.#wall = wall;
  }

  /** Records that packets up to this time have just arrived. */
  arrived(latestNs: bigint): void {
    const wallNs = this.#wall();
    const lagNs = wallNs - latestNs;
    if (lagNs > LIVE_WITHIN_NS || lagNs < -LIVE_WITHIN_NS) {
      // A few wild timestamps do not make it a recording.
      if (++this.#strange > MAX_STRANGE) this.#lagNs = null;
      return;
    }
    this.#strange = 0;
    if (this.#lagNs === null) {
      this.#lagNs = this.#beforeNs = lagNs;
      this.#windowEndNs = wallNs + WINDOW_NS;
    } else if (wallNs >= this.#windowEndNs) {
      this.#beforeNs = this.#lagNs;
      this.#lagNs = lagNs;
      this.#windowEndNs = wallNs + WINDOW_NS;
    } else if (lagNs > this.#lagNs) this.#lagNs = lagNs;
  }

  /** Returns null while the stream is not known to be live. */
  nowNs(): bigint | null {
    if (this.#lagNs === null) return null;
    return this.#wall() - later(this.#beforeNs, this.#lagNs) - PATIENCE_NS;
  }
}
