/** One partition that this worker has: its durable consumer, shared by all workers of the group one after the other, and how far back this worker's archive knows it. */
import { setTimeout as sleep } from "node:timers/promises";
import type { ConsumerInfo, ConsumerMessages, JsMsg } from "@nats-io/jetstream";
import { STREAM } from "../../transport/nats/cluster.ts";
import type { NatsLink } from "../../transport/nats/connection.ts";
import { partitionFilter } from "../../transport/nats/subjects.ts";
import { readPast } from "./stream-reader.ts";

const MAX_ACK_PENDING = 5000;
/** Messages that are asked for at a time: of all partitions together, what a worker does in seconds. */
const PULL = 250;
const RETRY_MS = 1000;
/** Where everything that was read is acknowledged: so far back the archive is filled before the partition is worked. The rest is read beside the work, for this share of the time. */
const SHORT_MS = 10_000;
const FILLING_SHARE = 0.2;

export interface PartitionOptions {
  link: NatsLink;
  group: string;
  number: number;
  /** A message that is not acknowledged, nor said to be worked on, for so long is delivered again. */
  ackWaitMs: number;
  /** How far before the first message that is not acknowledged the archive is filled. */
  horizonMs: number;
  /** Records of before: into the archive. */
  onPast: (messages: readonly JsMsg[], from: Past) => Promise<void>;
  /** The past is there: segments go on where they were. */
  onReady: (sinceMs: number) => Promise<void>;
  /** Resolves when there is room for more. */
  onMessage: (message: JsMsg) => Promise<void>;
  /** Null: it reads. */
  onTrouble: (error: unknown) => void;
}

/** Open: it may not be in the results. Filled: the partition is worked already. */
export type Past = "open" | "done" | "filled";

export class Partition {
  readonly number: number;
  /** Everything that came from this time on is in the archive, ms since 1970; 0: all there is. */
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

  /** No more messages come when it resolves. */
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

  /** Made where it is missing: a new group begins with the oldest record that there is. */
  async #consumer(): Promise<ConsumerInfo> {
    const { link, group, number, ackWaitMs } = this.#options;
    const { AckPolicy, DeliverPolicy } = link.packages.jetstream;
    return await link.streams.consumers.add(STREAM, {
      ...{ durable_name: `${group}-${number}`, filter_subject: partitionFilter(number) },
      ...{ ack_policy: AckPolicy.Explicit, deliver_policy: DeliverPolicy.All },
      ...{ ack_wait: ackWaitMs * 1e6, max_ack_pending: MAX_ACK_PENDING, max_deliver: -1 },
    });
  }

  /** What the worker before had read: what is acknowledged is context, what is not is delivered again later, and is in the archive before anything newer comes. */
  async #catchUp({ ack_floor, delivered, num_ack_pending }: ConsumerInfo): Promise<void> {
    const { horizonMs, onPast, onReady } = this.#options;
    if (delivered.stream_seq === 0) {
      this.sinceMs = 0;
      await onReady(0);
      return;
    }
    const floorMs = ack_floor.stream_seq > 0 ? await this.#timeOf(ack_floor.stream_seq) : 0;
    const wholeMs = Math.max(0, floorMs - horizonMs);
    // A worker that gave it back has left nothing undone, and records wait meanwhile.
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

  /** What came before that, beside the work. Where it cannot be read, it is looked for when a row needs it. */
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
      // `sinceMs` stays: rows that would need more are looked up.
    }
  }

  #readPast(fromMs: number, toSequence: number, take: (messages: JsMsg[]) => Promise<void>): Promise<void> {
    const { link, number } = this.#options;
    const { signal } = this.#stop;
    return readPast(link, { filter: partitionFilter(number), fromMs, toSequence, signal }, take);
  }

  /** When a message came; 0 where it is gone. */
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
