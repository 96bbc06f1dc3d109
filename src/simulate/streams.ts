/** Streams of batches: from a source, merged, sorted, or observed at a point. Each frees its kernel memory when it ends. */
import type { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "../capture/batch.ts";
import type { Clock } from "./scenario.ts";
import type { Source } from "./source.ts";
import type { Stage } from "./stage.ts";

export type Batches = AsyncIterable<PacketBatch>;

export async function* fromSource(kernels: Kernels, source: Source): AsyncGenerator<PacketBatch> {
  const batch = new PacketBatch(kernels);
  try {
    for (;;) {
      await source.fill(batch);
      if (batch.count === 0) return;
      yield batch;
    }
  } finally {
    batch.free();
    source.free();
  }
}

/** Merges two sources in time order. */
export async function* merge(kernels: Kernels, a: Source, b: Source): AsyncGenerator<PacketBatch> {
  const first = new PacketBatch(kernels);
  const second = new PacketBatch(kernels);
  const out = new PacketBatch(kernels);
  const position = kernels.alloc(8);
  const at = (side: 0 | 1) => kernels.u32[(position >>> 2) + side]!;
  const set = (side: 0 | 1, row: number) => {
    kernels.u32[(position >>> 2) + side] = row;
  };
  try {
    await a.fill(first);
    await b.fill(second);
    out.count = 0;
    set(0, 0);
    set(1, 0);
    for (;;) {
      if (at(0) === first.count && first.count > 0) {
        await a.fill(first);
        set(0, 0);
      }
      if (at(1) === second.count && second.count > 0) {
        await b.fill(second);
        set(1, 0);
      }
      if (first.count > 0 && second.count > 0) {
        kernels.call.simMerge(first.address, second.address, position, out.address);
      } else if (first.count > 0) {
        set(0, kernels.call.simAppend(first.address, at(0), out.address));
      } else if (second.count > 0) {
        set(1, kernels.call.simAppend(second.address, at(1), out.address));
      } else break;
      if (out.count === out.capacity) {
        yield out;
        out.count = 0;
      }
    }
    if (out.count > 0) yield out;
  } finally {
    for (const batch of [first, second, out]) batch.free();
    kernels.free(position);
    a.free();
    b.free();
  }
}

/** Applies a stage that keeps the order of the rows. */
export async function* passInPlace(batches: Batches, stage: Stage): AsyncGenerator<PacketBatch> {
  for await (const batch of batches) {
    await stage.apply(batch);
    yield batch;
  }
}

const BY_ARRIVAL = 0;
const BY_ORDER = 1;

/** Returns when the last packet of the batch that is not lost arrived here; no later packet can arrive earlier. */
function latestArrival(batch: PacketBatch): number {
  const time = batch.timeNs;
  const delay = batch.delayNs;
  for (let i = batch.count - 1; i >= 0; i--) if (delay[i]! >= 0) return time[i]! + delay[i]!;
  return Number.NEGATIVE_INFINITY;
}

/** Applies a stage in which packets can overtake each other; returns them in order of arrival behind it. */
export async function* passAndSort(
  kernels: Kernels,
  batches: Batches,
  stage: Stage,
): AsyncGenerator<PacketBatch> {
  const hold = kernels.call.simHoldNew(BY_ARRIVAL) >>> 0;
  const out = new PacketBatch(kernels);
  try {
    for await (const batch of batches) {
      const until = latestArrival(batch);
      await stage.apply(batch);
      kernels.call.simHoldPush(hold, batch.address);
      for (let more = 1; more === 1; ) {
        more = kernels.call.simHoldPop(hold, out.address, until);
        if (out.count > 0) yield out;
      }
    }
    for (let more = 1; more === 1; ) {
      more = kernels.call.simHoldPop(hold, out.address, Number.POSITIVE_INFINITY);
      if (out.count > 0) yield out;
    }
  } finally {
    kernels.call.simHoldFree(hold);
    out.free();
  }
}

/** Numbers the rows in order of sending. */
export async function* timestampOrder(kernels: Kernels, batches: Batches): AsyncGenerator<PacketBatch> {
  let next = 0;
  for await (const batch of batches) {
    next = kernels.call.simTimestampOrder(batch.address, next);
    yield batch;
  }
}

/** Restores the order of sending. */
export async function* resequence(kernels: Kernels, batches: Batches): AsyncGenerator<PacketBatch> {
  const hold = kernels.call.simHoldNew(BY_ORDER) >>> 0;
  const out = new PacketBatch(kernels);
  try {
    for await (const batch of batches) {
      kernels.call.simHoldPush(hold, batch.address);
      for (let more = 1; more === 1; ) {
        more = kernels.call.simHoldPop(hold, out.address, 0);
        if (out.count > 0) yield out;
      }
    }
  } finally {
    kernels.call.simHoldFree(hold);
    out.free();
  }
}

/** Batches that a point has seen, until they are returned to the caller; the batches are reused. */
export class Observations {
  readonly #kernels: Kernels;
  readonly #ready: { point: string; batch: PacketBatch }[] = [];
  readonly #idle: PacketBatch[] = [];

  constructor(kernels: Kernels) {
    this.#kernels = kernels;
  }

  /** Returns a batch of at least this many rows, to be filled and passed to `put`. */
  take(rows: number): PacketBatch {
    const found = this.#idle.findIndex((b) => b.capacity >= rows);
    const [idle] = found >= 0 ? this.#idle.splice(found, 1) : [];
    return idle ?? new PacketBatch(this.#kernels, rows);
  }

  put(point: string, batch: PacketBatch): void {
    if (batch.count > 0) this.#ready.push({ point, batch });
    else this.#idle.push(batch);
  }

  *drain(): Generator<{ point: string; batch: PacketBatch }> {
    for (let next = this.#ready.shift(); next; next = this.#ready.shift()) {
      try {
        yield next;
      } finally {
        this.#idle.push(next.batch);
      }
    }
  }

  free(): void {
    for (const batch of [...this.#idle, ...this.#ready.map((r) => r.batch)]) batch.free();
    this.#idle.length = 0;
    this.#ready.length = 0;
  }
}

/** Passes the batches on and keeps a copy of what the point sees, timestamped by the point's clock. */
export async function* observePoint(
  kernels: Kernels,
  batches: Batches,
  into: Observations,
  point: { name: string; sender: boolean; clock: Clock; seed: number; stream: number },
): AsyncGenerator<PacketBatch> {
  const { clock } = point;
  const rng = kernels.call.simRngNew(BigInt(point.seed), BigInt(point.stream)) >>> 0;
  try {
    for await (const batch of batches) {
      const seen = into.take(batch.capacity);
      kernels.call.simObserve(
        batch.address,
        seen.address,
        point.sender ? 0 : 1,
        rng,
        clock.offsetNs ?? 0,
        (clock.skewPpm ?? 0) * 1e-6,
        clock.jitterNs ?? 0,
        clock.resolutionNs ?? 1,
      );
      into.put(point.name, seen);
      yield batch;
    }
  } finally {
    kernels.free(rng);
  }
}
