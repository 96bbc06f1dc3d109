/**
 * Assigns partitions to workers through leases: keys in a bucket that expire unless renewed.
 *
 *   worker.ID    {"url"}                      heartbeat of a worker
 *   lease.N      {"worker": ID | null}        renewed by its holder; null: given back
 *
 * A key is written only on top of the revision its writer has read, so for the cluster no partition ever has two holders. By its own clock a
 * worker stops earlier: a lease counts for two thirds of its life, from the moment before it was renewed. If a renewal is late, writes wait: a key
 * that can still be renewed had no other holder in between. The revision of the claim is the lease's fence. It grows from holder to holder and is
 * stored with every row, so a row written late by a process that was stopped in between never replaces a row of the next holder.
 * Each worker takes its share (partitions divided by workers) and gives back the excess when others join.
 */
import type { KV } from "@nats-io/kv";

export interface LeaseOptions {
  bucket: KV;
  worker: string;
  partitions: number;
  /** Time until a key expires, ms. */
  lifeMs: number;
  onGained: (partition: number) => void;
  /** Called when the partition no longer belongs to this worker, by the cluster's state or by this worker's clock. */
  onLost: (partition: number, why: string) => void;
  /** Called before the partition is given back. Resolves when no work on it is in flight. */
  release: (partition: number) => Promise<void>;
  /** Reports an error; null means all leases were renewed. */
  onTrouble: (error: unknown) => void;
  /** Lists the live workers. */
  listWorkers: () => Promise<string[]>;
}

/** Interval, independent of the lease time, at which live workers and free partitions are checked: a joining worker soon gets its share. */
const LOOK_MS = 2000;

interface Lease {
  revision: number;
  /** By performance.now(). */
  renewedMs: number;
  /** Revision of the claim; see the file header. */
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

  /** Whether the lease counts now, by this worker's own clock. */
  holds(partition: number): boolean {
    const lease = this.#held.get(partition);
    return lease !== undefined && performance.now() < lease.untilMs;
  }

  /** Returns the fence of the lease, also while its renewal is late; greater than that of every earlier holder. Null if the lease is lost. */
  fenceOf(partition: number): number | null {
    return this.#held.get(partition)?.fence ?? null;
  }

  /** Gives back all partitions. */
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
    // An unreachable broker is not fatal: the next look tries again.
    for (const partition of own.slice(most)) this.#giveBack(partition).catch(this.#options.onTrouble);
    // Each worker starts at a different partition, so that workers that start together do not compete for the same ones.
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
    // A lease from an earlier run of this worker: no other worker renews it.
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

  /** Whether a key is due for renewal: after a sixth of its life, or if it would pass that before the next look. */
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

  /**
   * Drops the leases that have certainly expired in the bucket. One that is merely late is renewed with the next beat, or turns out to be another
   * worker's.
   */
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

/** Whether the write failed because another worker has written the key since. */
function isOvertaken(error: unknown): boolean {
  const { message = "", code } = error as { message?: string; code?: number };
  return code === 10071 || code === 10164 || /wrong last sequence|key exists/i.test(message);
}
