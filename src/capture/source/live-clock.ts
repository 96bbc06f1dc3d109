/**
 * The time of a stream that is captured while it is read. Packets come late: the capturing side buffers them, and its clock may not be this one. So time is
 * this host's clock minus the longest lag seen of late and some patience. A stream whose packets were not captured just now (a recording that is piped in)
 * has no such clock: a pause in the pipe is no pause on the wire.
 */
import { later } from "../../base/time.ts";

const LIVE_WITHIN_NS = 300_000_000_000n;
/** Beyond the longest lag: a capture that fills its buffer more slowly than before. */
export const PATIENCE_NS = 1_500_000_000n;
/** Lags are remembered for one to two of these: one stall does not hold the stream back for ever. */
const WINDOW_NS = 60_000_000_000n;

const MAX_STRANGE = 3;

export type WallClock = () => bigint;
export const systemClock: WallClock = () => BigInt(Date.now()) * 1_000_000n;

export class LiveClock {
  readonly #wall: WallClock;
  #lagNs: bigint | null = null;
  /** The longest lag of the window before, and of this one. */
  #beforeNs = 0n;
  #windowEndNs = 0n;
  /** Batches in a row that are not of now. */
  #strange = 0;

  constructor(wall: WallClock = systemClock) {
    this.#wall = wall;
  }

  /** Packets up to this time have just come. */
  arrived(latestNs: bigint): void {
    const wallNs = this.#wall();
    const lagNs = wallNs - latestNs;
    if (lagNs > LIVE_WITHIN_NS || lagNs < -LIVE_WITHIN_NS) {
      // One wild timestamp does not make it a recording.
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

  /** Null while the stream is not known to be live. */
  nowNs(): bigint | null {
    if (this.#lagNs === null) return null;
    return this.#wall() - later(this.#beforeNs, this.#lagNs) - PATIENCE_NS;
  }
}
