/** One point of a simulation as a source of packets, with the true delay of every packet. */
import { turnOf } from "../base/turn.ts";
import type { PacketBatch } from "../capture/batch.ts";
import type { CaptureStatistics } from "../capture/reader.ts";
import type { CaptureTotals, Source, SourceBatch } from "../capture/source/source.ts";
import { RECEIVER } from "./scenario.ts";
import type { Observation, Simulation } from "./simulate.ts";

export interface SimulatedSourceOptions {
  /** Default: the receiver. */
  point?: string;
  /** An earlier point from which delays are counted; default: the sender. */
  delaysFrom?: string | undefined;
  /** Time 0 of the simulation, in ns since 1970. */
  originNs?: bigint;
  signal?: AbortSignal | undefined;
}

export function simulatedSource(simulation: Simulation, options: SimulatedSourceOptions = {}): Source {
  return new SimulatedSource(simulation, options);
}

class SimulatedSource implements Source {
  readonly name: string;
  readonly live = false;
  readonly knowsDelays = true;
  readonly #batches: AsyncIterator<Observation>;
  readonly #originNs: bigint;
  readonly #signal: AbortSignal | undefined;
  readonly #point: string;
  readonly #before: DelaysBefore | null;
  /** A simulation never waits for input; without these turns an abort signal would have no effect before its end. */
  readonly #turn: () => Promise<void> | undefined;
  #packets = 0;
  #bytes = 0;
  #lastNs = 0;
  #open = true;

  constructor(
    simulation: Simulation,
    { point = RECEIVER, delaysFrom, originNs = 0n, signal }: SimulatedSourceOptions,
  ) {
    this.name = `simulation, ${point}`;
    this.#point = point;
    this.#before = delaysFrom === undefined ? null : new DelaysBefore();
    const points = delaysFrom === undefined ? [point] : [delaysFrom, point];
    this.#batches = simulation.observe(points)[Symbol.asyncIterator]();
    this.#originNs = originNs;
    this.#signal = signal;
    this.#turn = turnOf(signal);
  }

  async next(): Promise<SourceBatch | null> {
    await this.#turn();
    if (!this.#open || this.#signal?.aborted) return null;
    const batch = await this.#own();
    if (batch === null) {
      this.#open = false;
      return null;
    }
    this.#packets += batch.count;
    for (let i = 0; i < batch.count; i++) {
      this.#bytes += batch.wireLength[i]!;
      this.#lastNs = Math.max(this.#lastNs, batch.timeNs[i]!);
    }
    return { batch, originNs: this.#originNs };
  }

  /** Returns the next batch of the point itself; batches of the earlier point are only remembered. */
  async #own(): Promise<PacketBatch | null> {
    for (;;) {
      const { value, done } = await this.#batches.next();
      if (done) return null;
      const { point, batch } = value as Observation;
      if (point !== this.#point) this.#before?.remember(batch);
      else {
        this.#before?.subtract(batch);
        return batch;
      }
    }
  }

  nowNs(): null {
    return null;
  }

  totals(): CaptureTotals {
    return { frames: this.#packets, skipped: {}, dropped: null };
  }

  statistics(): CaptureStatistics[] {
    const at = (ns: number) => (this.#packets === 0 ? null : this.#originNs + BigInt(Math.round(ns)));
    return [
      {
        file: this.name,
        format: "simulation",
        packets: this.#packets,
        ipPackets: this.#packets,
        bytes: this.#bytes,
        originNs: at(0),
        firstNs: at(0),
        lastNs: at(this.#lastNs),
        skipped: {},
        dropped: null,
        partial: null,
        interfaces: [],
        warnings: [],
        shorts: [],
      },
    ];
  }

  progress(): { doneBytes: number; totalBytes: null } {
    return { doneBytes: this.#bytes, totalBytes: null };
  }

  close(): void {
    if (this.#open) void this.#batches.return?.();
    this.#open = false;
  }
}

/**
 * Maximum number of packets remembered between the two points: more than any queue here contains. The oldest are dropped, so lost packets go as new ones come.
 */
const REMEMBERED = 1 << 16;

/** Delays up to an earlier point, by packet digest. */
class DelaysBefore {
  readonly #delayNs = new Map<bigint, number>();

  remember({ count, digest, delayNs }: PacketBatch): void {
    for (let i = 0; i < count; i++) this.#delayNs.set(digestAt(digest, i), delayNs[i]!);
    for (const oldest of this.#delayNs.keys()) {
      if (this.#delayNs.size <= REMEMBERED) break;
      this.#delayNs.delete(oldest);
    }
  }

  /** Subtracts the delay up to the earlier point; the result is NaN if the packet was not seen there. */
  subtract({ count, digest, delayNs }: PacketBatch): void {
    for (let i = 0; i < count; i++) {
      const key = digestAt(digest, i);
      delayNs[i] = delayNs[i]! - (this.#delayNs.get(key) ?? Number.NaN);
      this.#delayNs.delete(key);
    }
  }
}

function digestAt(digest: Uint32Array, row: number): bigint {
  return (BigInt(digest[2 * row + 1]!) << 32n) | BigInt(digest[2 * row]!);
}
