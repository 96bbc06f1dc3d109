/**
 * Which worker has which partition: leases in a bucket whose keys live so long without being renewed.
 *
 *   worker.ID    {"url"}                      heartbeat of a worker
 *   lease.N      {"worker": ID | null}        renewed by its holder; null: given back
 *
 * A key is written only on top of the revision that its writer has read, so two workers never have one at a time by the cluster's account. By its own clock a worker stops earlier: a lease counts for
 * two thirds of its time from the moment before it was renewed. Where it is late, what would be written waits: a key that can still be renewed was nobody else's meanwhile. The revision of its claim is
 * the lease's fence: it grows from owner to owner, and goes with every row, so that what a process writes late that was stopped in between never replaces a row of the owner after it.
 * Each takes its share, workers divided by partitions, and gives back what is beyond it when others join.
 */
import type { KV } from "@nats-io/kv";

export interface LeaseOptions {
  bucket: KV;
  worker: string;
  partitions: number;
  /** Life of a key, ms. */
  lifeMs: number;
  onGained: (partition: number) => void;
  /** No longer by the cluster's account, or by this worker's clock. */
  onLost: (partition: number, why: string) => void;
  /** It is to be given back: resolves when nothing of it is on its way. */
  release: (partition: number) => Promise<void>;
  /** Null: all were renewed. */
  onTrouble: (error: unknown) => void;
  /** Workers that are alive. */
  listWorkers: () => Promise<string[]>;
}

/** However long leases are: how often it looks who is there and what is free, so that one who joins gets its share soon. */
const LOOK_MS = 2000;

interface Lease {
  revision: number;
  /** By performance.now(). */
  renewedMs: number;
  /** Revision of the claim. */
  fence: number;
  /** By performance.now(). */
  untilMs: number;
  releasing: boolean;
}

export class Leases {
  readonly #options: LeaseOptions;
  readonly #held = new Map<number, Lease>();
  #timer: NodeJS.Timeout | null = null;
  #looking: Promise<void> = Promise.resolve();
  #closed = false;
  #workers = 1;
  #aliveMs = Number.NEGATIVE_INFINITY;

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  start(): void {
    const beat = () => {
      this.#looking = this.#look()
        .then(() => this.#options.onTrouble(null))
        .catch((error: unknown) => this.#options.onTrouble(error))
        .then(() => {
          this.#expire();
          if (!this.#closed) this.#timer = setTimeout(beat, Math.min(LOOK_MS, this.#options.lifeMs / 6));
        });
    };
    beat();
  }

  get workers(): number {
    return this.#workers;
  }

  get partitions(): number[] {
    return [...this.#held.keys()].sort((a, b) => a - b);
  }

  /** Does it count now, by this worker's own clock? */
  holds(partition: number): boolean {
    const lease = this.#held.get(partition);
    return lease !== undefined && performance.now() < lease.untilMs;
  }

  /** Of the lease, whether it counts now or is still to be renewed: greater than that of every owner before. Null where it is lost. */
  fenceOf(partition: number): number | null {
    return this.#held.get(partition)?.fence ?? null;
  }

  /** Gives back everything. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer) clearTimeout(this.#timer);
    await this.#looking;
    await Promise.all(this.partitions.map((p) => this.#giveBack(p).catch(() => undefined)));
    await this.#options.bucket.purge(`worker.${this.#options.worker}`).catch(() => undefined);
  }

  async #look(): Promise<void> {
    const { worker, partitions, listWorkers } = this.#options;
    await Promise.all([this.#sayAlive(), ...this.partitions.map((p) => this.#renewIfDue(p))]);
    const workers = new Set([...(await listWorkers()), worker]);
    this.#workers = workers.size;
    const most = Math.ceil(partitions / workers.size);
    const own = this.partitions;
    // Brokers that are away for the moment are no reason to end: it is tried again with the next look.
    for (const partition of own.slice(most)) this.#giveBack(partition).catch(this.#options.onTrouble);
    // Each begins elsewhere, so that those who start together do not want the same.
    const first = partitions * ([...workers].sort().indexOf(worker) / workers.size);
    for (let i = 0; i < partitions && this.#held.size < most && !this.#closed; i++)
      await this.#claim((Math.floor(first) + i) % partitions);
  }

  async #claim(partition: number): Promise<void> {
    if (this.#held.has(partition)) return;
    const { bucket, worker, lifeMs } = this.#options;
    const key = `lease.${partition}`;
    const value = JSON.stringify({ worker });
    const atMs = performance.now();
    const entry = await bucket.get(key);
    const holder = entry && entry.operation === "PUT" ? entry.json<{ worker: string | null }>().worker : null;
    // Its own, from a life before: nobody else renews it.
    if (holder !== null && holder !== worker) return;
    try {
      const revision = entry
        ? await bucket.update(key, value, entry.revision)
        : await bucket.create(key, value);
      const untilMs = atMs + (2 / 3) * lifeMs;
      this.#held.set(partition, { revision, renewedMs: atMs, fence: revision, untilMs, releasing: false });
    } catch (error) {
      if (isOvertaken(error)) return;
      throw error;
    }
    this.#options.onGained(partition);
  }

  async #sayAlive(): Promise<void> {
    const atMs = performance.now();
    if (!this.#isDue(this.#aliveMs, atMs)) return;
    const { bucket, worker } = this.#options;
    await bucket.put(`worker.${worker}`, "{}");
    this.#aliveMs = atMs;
  }

  async #renewIfDue(partition: number): Promise<void> {
    if (this.#isDue(this.#held.get(partition)?.renewedMs ?? 0, performance.now()))
      await this.#renew(partition);
  }

  /** A sixth of its life ago, or it will be before the next look. */
  #isDue(sinceMs: number, nowMs: number): boolean {
    const { lifeMs } = this.#options;
    return nowMs - sinceMs > lifeMs / 6 - Math.min(LOOK_MS, lifeMs / 6) / 2;
  }

  async #renew(partition: number): Promise<void> {
    const lease = this.#held.get(partition);
    if (!lease || lease.releasing) return;
    const { bucket, worker, lifeMs } = this.#options;
    const atMs = performance.now();
    try {
      const value = JSON.stringify({ worker });
      lease.revision = await bucket.update(`lease.${partition}`, value, lease.revision);
      lease.untilMs = atMs + (2 / 3) * lifeMs;
      lease.renewedMs = atMs;
    } catch (error) {
      if (!isOvertaken(error)) throw error;
      this.#lose(partition, "another worker has it");
    }
  }

  /** Those that could not be renewed for so long that they are gone. One that is only late is renewed with the next beat, or another worker has it: the cluster knows. */
  #expire(): void {
    for (const [partition, { untilMs }] of this.#held)
      if (performance.now() >= untilMs + this.#options.lifeMs)
        this.#lose(partition, "its lease could not be renewed in time");
  }

  #lose(partition: number, why: string): void {
    if (!this.#held.delete(partition)) return;
    this.#options.onLost(partition, why);
  }

  async #giveBack(partition: number): Promise<void> {
    const lease = this.#held.get(partition);
    if (!lease || lease.releasing) return;
    const { bucket, release } = this.#options;
    await this.#renew(partition);
    if (!this.#held.has(partition)) return;
    lease.releasing = true;
    await release(partition);
    this.#held.delete(partition);
    await bucket
      .update(`lease.${partition}`, JSON.stringify({ worker: null }), lease.revision)
      .catch(() => undefined);
  }
}

/** Somebody else has written the key since. */
function isOvertaken(error: unknown): boolean {
  const { message = "", code } = error as { message?: string; code?: number };
  return code === 10071 || code === 10164 || /wrong last sequence|key exists/i.test(message);
}
