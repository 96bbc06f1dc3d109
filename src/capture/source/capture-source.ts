/** Captures as a source: given files one after the other, or files that appear one by one (rotating-files.ts). */

import { FormatError } from "../../base/errors.ts";
import type { Kernels } from "../../base/kernels.ts";
import { type CaptureOptions, CaptureReader, type CaptureStatistics } from "../reader.ts";
import { isStandardInput } from "./capture-path.ts";
import { openGrowingFile } from "./growing-file.ts";
import { LiveClock, type WallClock } from "./live-clock.ts";
import { addTotals, type CaptureTotals, NO_TOTALS, type Source, type SourceBatch } from "./source.ts";

/** Capture options without filter and key: observers have their own, and both change a batch in place. */
export type SourceCapture = Pick<CaptureOptions, "cover" | "inner" | "seed" | "rowsOnly">;

export interface CaptureSourceOptions {
  capture?: SourceCapture;
  signal?: AbortSignal | undefined;
  /** This host's clock; injected by tests. */
  clock?: WallClock;
}

/** Returns the capture to read next, or null if there is none. */
export type NextCapture = () => Promise<CaptureReader | null>;

/** Opens files in order of time. "-" is standard input, which is live if its packets are recent. */
export function openCaptures(
  kernels: Kernels,
  files: readonly string[],
  options: CaptureSourceOptions = {},
): CaptureSource {
  const left = [...files];
  const next: NextCapture = async () => {
    const file = left.shift();
    return file === undefined
      ? null
      : await CaptureReader.open(kernels, file, options.capture, options.signal);
  };
  const live = files.some(isStandardInput);
  return new CaptureSource(files.join(", "), next, { ...options, live });
}

/** Opens one file that is still being written. */
export function followCapture(
  kernels: Kernels,
  file: string,
  options: CaptureSourceOptions = {},
): CaptureSource {
  let opened = false;
  const next: NextCapture = async () => {
    if (opened) return null;
    opened = true;
    const bytes = openGrowingFile(file, { signal: options.signal });
    return await CaptureReader.of(kernels, bytes, null, options.capture);
  };
  return new CaptureSource(file, next, { ...options, live: true });
}

/** Longest time before the event loop gets a turn, for signals, timers and writes. Reading files never waits by itself. */
const TURN_MS = 20;
/** Number of captures whose statistics are kept separately; beyond it the oldest are merged. */
const MAX_CAPTURES = 256;

export class CaptureSource implements Source {
  readonly name: string;
  readonly live: boolean;
  readonly #next: NextCapture;
  readonly #signal: AbortSignal | undefined;
  readonly #clock: LiveClock | null;
  #reader: CaptureReader | null = null;
  #before: CaptureTotals = NO_TOTALS;
  readonly #finished: CaptureStatistics[] = [];
  #turnAt = performance.now() + TURN_MS;

  constructor(name: string, next: NextCapture, options: CaptureSourceOptions & { live?: boolean } = {}) {
    this.name = name;
    this.live = options.live ?? false;
    this.#next = next;
    this.#signal = options.signal;
    this.#clock = this.live ? new LiveClock(options.clock) : null;
  }

  async next(): Promise<SourceBatch | null> {
    for (;;) {
      if (performance.now() > this.#turnAt) {
        await new Promise(setImmediate);
        this.#turnAt = performance.now() + TURN_MS;
      }
      if (this.#signal?.aborted) return null;
      this.#reader ??= await this.#open();
      if (this.#reader === null) return null;
      if (await this.#reader.next()) return this.#give(this.#reader);
      this.#finish();
    }
  }

  nowNs(): bigint | null {
    return this.#clock?.nowNs() ?? null;
  }

  totals(): CaptureTotals {
    return this.#reader ? addTotals(this.#before, this.#reader.totals()) : this.#before;
  }

  statistics(): CaptureStatistics[] {
    return this.#reader ? [...this.#finished, this.#statisticsOf(this.#reader)] : [...this.#finished];
  }

  progress(): { doneBytes: number; totalBytes: number | null } {
    const { source } = this.#reader ?? {};
    return { doneBytes: source?.consumed() ?? 0, totalBytes: source?.size ?? null };
  }

  close(): void {
    this.#finish();
  }

  async #open(): Promise<CaptureReader | null> {
    try {
      return await this.#next();
    } catch (error) {
      // Aborted before the first packet came: not an error.
      if (this.#signal?.aborted && error instanceof FormatError) return null;
      throw error;
    }
  }

  #give(reader: CaptureReader): SourceBatch {
    const { batch } = reader;
    const originNs = reader.originNs ?? 0n;
    if (this.#clock) {
      const last = batch.timeNs[batch.count - 1] ?? 0;
      this.#clock.arrived(originNs + BigInt(Math.floor(last)));
    }
    return { batch, originNs };
  }

  /** Keeps the statistics of the capture just read, in memory that does not grow with the number of captures. */
  #finish(): void {
    const reader = this.#reader;
    if (!reader) return;
    this.#reader = null;
    this.#before = addTotals(this.#before, reader.totals());
    this.#finished.push(this.#statisticsOf(reader));
    reader.close();
    reader.free();
    const [first, second] = this.#finished;
    if (this.#finished.length > MAX_CAPTURES && first && second)
      this.#finished.splice(0, 2, joinStatistics(first, second));
  }

  #statisticsOf(reader: CaptureReader): CaptureStatistics {
    const counted = reader.statistics();
    // A stream that we ended ourselves may end anywhere, so it is not damaged.
    return this.#signal?.aborted ? { ...counted, partial: null } : counted;
  }
}

function joinStatistics(a: CaptureStatistics, b: CaptureStatistics): CaptureStatistics {
  const totals = addTotals({ ...a, frames: a.packets }, { ...b, frames: b.packets });
  const shorts = new Map(a.shorts);
  for (const [bytes, n] of b.shorts) shorts.set(bytes, (shorts.get(bytes) ?? 0) + n);
  return {
    ...a,
    file: `${a.file.replace(/ \.\. .*$/, "")} .. ${b.file}`,
    packets: totals.frames,
    ipPackets: a.ipPackets + b.ipPackets,
    bytes: a.bytes + b.bytes,
    lastNs: b.lastNs ?? a.lastNs,
    skipped: { ...totals.skipped },
    dropped: totals.dropped,
    partial: a.partial ?? b.partial,
    shorts: [...shorts].sort(([x], [y]) => x - y),
  };
}
