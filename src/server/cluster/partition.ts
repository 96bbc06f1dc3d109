/**
 * One partition owned by this worker: its durable consumer, which the workers of the group use one after the other, and the time from which this
 * worker's archive is complete for it.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { ConsumerInfo, ConsumerMessages, JsMsg } from "@nats-io/jetstream";
import { STREAM } from "../../transport/nats/cluster.ts";
import type { NatsLink } from "../../transport/nats/connection.ts";
import { partitionFilter } from "../../transport/nats/subjects.ts";
import { readPast } from "./stream-reader.ts";

const MAX_ACK_PENDING = 5000;
/** Most messages pulled at a time. Over all partitions this is a few seconds of work. */
const PULL = 250;
const RETRY_MS = 1000;
/**
 * If the previous owner acknowledged everything it had read, only this much of the past is read before work starts. The rest is read in the
 * background, using this share of the time.
 */
const SHORT_MS = 10_000;
const FILLING_SHARE = 0.2;

export interface PartitionOptions {
  link: NatsLink;
  group: string;
  number: number;
  /** A message neither acknowledged nor reported as in progress for this long is delivered again. */
  ackWaitMs: number;
  /** How far before the first unacknowledged message the archive is filled. */
  horizonMs: number;
  /** Stores past records in the archive. */
  onPast: (messages: readonly JsMsg[], from: Past) => Promise<void>;
  /** Called when the past is in the archive: segments continue where the previous owner stopped. */
  onReady: (sinceMs: number) => Promise<void>;
  /** Handles a message. Resolves when there is room for more. */
  onMessage: (message: JsMsg) => Promise<void>;
  /** Reports an error; null means the partition is being read. */
  onTrouble: (error: unknown) => void;
}

/**
 * State of past records. `open`: possibly not in the results yet; `done`: finished by the previous owner; `filled`: done, and read while the
 * partition is already being worked.
 */
export type Past = "open" | "done" | "filled";

export class Partition {
  readonly number: number;
  /** The archive has everything that arrived from this time on, ms since 1970. 0: everything in the stream. */
  sinceMs = Number.POSITIVE_INFINITY;
  readonly #options: PartitionOptions;
  readonly #stop = new AbortController();
  #messages: ConsumerMessages | null = null;
  #running: Promise<void> = Promise.resolve();
  #filling: Promise<void> = Promise.resolve();

  constructor(options: PartitionOptions) {
    this.#options = options;
    this.number = options.number;
  }

  get stopped(): boolean {
    return this.#stop.signal.aborted;
  }

  start(): void {
    this.#running = this.#run();
  }

  /** Resolves when no more messages will come. */
  async stop(): Promise<void> {
    this.#stop.abort();
    this.#messages?.stop();
    await this.#running;
    await this.#filling;
  }

  async #run(): Promise<void> {
    let ready = false;
    while (!this.stopped) {
      try {
        const info = await this.#consumer();
        if (!ready) await this.#catchUp(info);
        ready = true;
        await this.#read(info.name);
      } catch (error) {
        if (this.stopped) return;
        this.#options.onTrouble(error);
      }
      if (!this.stopped) await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }

  /** Gets the durable consumer, or creates it. A new group begins with the oldest record in the stream. */
  async #consumer(): Promise<ConsumerInfo> {
    const { link, group, number, ackWaitMs } = this.#options;
    const { AckPolicy, DeliverPolicy } = link.packages.jetstream;
    return await link.streams.consumers.add(STREAM, {
      ...{ durable_name: `${group}-${number}`, filter_subject: partitionFilter(number) },
      ...{ ack_policy: AckPolicy.Explicit, deliver_policy: DeliverPolicy.All },
      ...{ ack_wait: ackWaitMs * 1e6, max_ack_pending: MAX_ACK_PENDING, max_deliver: -1 },
    });
  }

  /**
   * Reads what the previous owner had read: acknowledged records are context; unacknowledged ones are delivered again later, but must be in the
   * archive before anything newer arrives.
   */
  async #catchUp({ ack_floor, delivered, num_ack_pending }: ConsumerInfo): Promise<void> {
    const { horizonMs, onPast, onReady } = this.#options;
    if (delivered.stream_seq === 0) {
      this.sinceMs = 0;
      await onReady(0);
      return;
    }
    const floorMs = ack_floor.stream_seq > 0 ? await this.#timeOf(ack_floor.stream_seq) : 0;
    const wholeMs = Math.max(0, floorMs - horizonMs);
    // Everything is acknowledged: the previous owner left nothing unfinished, and new records are waiting.
    const fromMs = num_ack_pending === 0 ? Math.max(wholeMs, floorMs - SHORT_MS) : wholeMs;
    await this.#readPast(fromMs, delivered.stream_seq, async (messages) => {
      const at = messages.findIndex((m) => m.seq > ack_floor.stream_seq);
      const known = at < 0 ? messages : messages.slice(0, at);
      if (known.length > 0) await onPast(known, "done");
      if (at >= 0) await onPast(messages.slice(at), "open");
    });
    if (this.stopped) return;
    this.sinceMs = fromMs;
    await onReady(fromMs);
    if (wholeMs < fromMs) this.#filling = this.#fill(wholeMs, ack_floor.stream_seq);
  }

  /** Reads the older past in the background. If that fails, it is looked up when a row needs it. */
  async #fill(fromMs: number, toSequence: number): Promise<void> {
    const { signal } = this.#stop;
    try {
      await this.#readPast(fromMs, toSequence, async (messages) => {
        const beganMs = performance.now();
        await this.#options.onPast(messages, "filled");
        await sleep((performance.now() - beganMs) * (1 / FILLING_SHARE - 1), undefined, { signal });
      });
      if (!this.stopped) this.sinceMs = fromMs;
    } catch {
      // `sinceMs` stays as it is: rows that need older records look them up.
    }
  }

  #readPast(fromMs: number, toSequence: number, take: (messages: JsMsg[]) => Promise<void>): Promise<void> {
    const { link, number } = this.#options;
    const { signal } = this.#stop;
    return readPast(link, { filter: partitionFilter(number), fromMs, toSequence, signal }, take);
  }

  /** Returns when a message reached the stream; 0 if it no longer exists. */
  async #timeOf(seq: number): Promise<number> {
    const found = await this.#options.link.streams.streams.getMessage(STREAM, { seq }).catch(() => null);
    return found?.time.getTime() ?? 0;
  }

  async #read(name: string): Promise<void> {
    const consumer = await this.#options.link.stream.consumers.get(STREAM, name);
    const messages = await consumer.consume({
      max_messages: PULL,
      expires: 10_000,
      abort_on_missing_resource: true,
    });
    this.#messages = messages;
    if (this.stopped) messages.stop();
    else this.#options.onTrouble(null);
    for await (const message of messages) {
      if (this.stopped) break;
      await this.#options.onMessage(message);
    }
    this.#messages = null;
  }
}
