/**
 * Records that were delivered several times without being finished. Mostly they are harmless: their workers were killed or lost their leases for
 * other reasons. But one may be crashing the workers. Therefore each worker writes into the bucket `hoptime-GROUP-doubts` which of these records it
 * is about to process, and clears the entry when the rows are written. A worker that finds an entry of a dead worker counts one death. The more
 * deaths, the fewer such records are processed together, down to one. A record with MAX_DEATHS deaths is set aside.
 */
import type { JsMsg } from "@nats-io/jetstream";
import type { KV } from "@nats-io/kv";
import { BUCKET } from "../../transport/nats/cluster.ts";
import type { ClusterLink } from "./cluster-link.ts";

/** Number of workers that may die with a record before it is set aside. */
const MAX_DEATHS = 3;
/** Records processed together, by number of deaths; beyond the list, one at a time. */
const TOGETHER = [Number.POSITIVE_INFINITY, 16];
/** Longer than the time until a dead worker's record is delivered to another worker. */
const KEPT_MS = 3_600_000;

interface Doubt {
  worker: string | null;
  deaths: number;
}

export interface DoubtfulGroup {
  messages: JsMsg[];
  /** No other record may be processed at the same time. */
  alone: boolean;
}

export interface Judged {
  work: DoubtfulGroup[];
  aside: { message: JsMsg; reason: string }[];
}

export class Doubts {
  readonly #link: ClusterLink;
  /** Records being processed, by sequence: their deaths and the revision of their entry. */
  readonly #worked = new Map<number, { deaths: number; revision: number }>();
  #bucket: Promise<KV> | null = null;

  constructor(link: ClusterLink) {
    this.#link = link;
  }

  async judge(messages: readonly JsMsg[]): Promise<Judged> {
    const judged: Judged = { work: [], aside: [] };
    if (messages.length === 0) return judged;
    const alive = new Set([...(await this.#link.listWorkers()), this.#link.worker]);
    const byDeaths = new Map<number, JsMsg[]>();
    for (const message of messages) {
      const { worker, deaths: before } = await this.#read(message.seq);
      const deaths = before + (worker === null || alive.has(worker) ? 0 : 1);
      this.#worked.set(message.seq, { deaths, revision: 0 });
      if (deaths >= MAX_DEATHS)
        judged.aside.push({ message, reason: `${deaths} workers died while processing it` });
      else byDeaths.set(deaths, [...(byDeaths.get(deaths) ?? []), message]);
    }
    for (const [deaths, own] of [...byDeaths].sort(([a], [b]) => a - b)) {
      const most = Math.min(TOGETHER[deaths] ?? 1, own.length);
      for (let at = 0; at < own.length; at += most)
        judged.work.push({ messages: own.slice(at, at + most), alone: deaths > 0 });
    }
    return judged;
  }

  /** Marks the messages as being processed by this worker. */
  async begin(messages: readonly JsMsg[]): Promise<void> {
    const bucket = await this.#open();
    await Promise.all(
      messages.map(async ({ seq }) => {
        const { deaths } = this.#worked.get(seq) ?? { deaths: 0 };
        const doubt: Doubt = { worker: this.#link.worker, deaths };
        this.#worked.set(seq, { deaths, revision: await bucket.put(`${seq}`, JSON.stringify(doubt)) });
      }),
    );
  }

  /** Clears the marks: this worker has survived. If another worker has marked a message since, its mark stays. */
  async end(messages: readonly JsMsg[]): Promise<void> {
    const bucket = await this.#open();
    await Promise.all(
      messages.map(async ({ seq }) => {
        const known = this.#worked.get(seq);
        this.#worked.delete(seq);
        const doubt: Doubt = { worker: null, deaths: known?.deaths ?? 0 };
        if (known)
          await bucket.update(`${seq}`, JSON.stringify(doubt), known.revision).catch(() => undefined);
      }),
    );
  }

  async #read(seq: number): Promise<Doubt> {
    const entry = await (await this.#open()).get(`${seq}`);
    return entry?.operation === "PUT" ? entry.json<Doubt>() : { worker: null, deaths: 0 };
  }

  #open(): Promise<KV> {
    const { group, cluster } = this.#link;
    this.#bucket ??= this.#link
      .bucket(`${BUCKET}-${group}-doubts`, { ttl: KEPT_MS, history: 1, replicas: cluster.replicas })
      .catch((error: unknown) => {
        this.#bucket = null;
        throw error;
      });
    return this.#bucket;
  }
}
