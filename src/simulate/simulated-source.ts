/** What one point of a simulation sees, as a source: with the true delay of every packet. */
import { turnOf } from "../base/turn.ts";
import type { CaptureStatistics } from "../capture/reader.ts";
import type { CaptureTotals, Source, SourceBatch } from "../capture/source/source.ts";
import { RECEIVER } from "./scenario.ts";
import type { Observation, Simulation } from "./simulate.ts";

export interface SimulatedSourceOptions {
  /** Left out: where the packets arrive. */
  point?: string;
  /** ns since 1970 of the simulation's time 0. */
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
  /** A simulation never waits: without it a signal would not be heard before its end. */
  readonly #turn: () => Promise<void> | undefined;
  #packets = 0;
  #bytes = 0;
  #lastNs = 0;
  #open = true;

  constructor(simulation: Simulation, { point = RECEIVER, originNs = 0n, signal }: SimulatedSourceOptions) {
    this.name = `simulation, ${point}`;
    this.#batches = simulation.observe([point])[Symbol.asyncIterator]();
    this.#originNs = originNs;
    this.#signal = signal;
    this.#turn = turnOf(signal);
  }

  async next(): Promise<SourceBatch | null> {
    await this.#turn();
    if (!this.#open || this.#signal?.aborted) return null;
    const { value, done } = await this.#batches.next();
    if (done) {
      this.#open = false;
      return null;
    }
    const { batch } = value as Observation;
    this.#packets += batch.count;
    for (let i = 0; i < batch.count; i++) {
      this.#bytes += batch.wireLength[i]!;
      this.#lastNs = Math.max(this.#lastNs, batch.timeNs[i]!);
    }
    return { batch, originNs: this.#originNs };
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
