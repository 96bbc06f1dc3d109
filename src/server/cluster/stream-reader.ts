/**
 * Reads past messages of the stream again: for a worker that takes over a partition, and for questions about points that other workers own. It
 * acknowledges nothing.
 */
import type { JsMsg } from "@nats-io/jetstream";
import { STREAM } from "../../transport/nats/cluster.ts";
import type { NatsLink } from "../../transport/nats/connection.ts";

export interface Past {
  /** A subject; wildcards are allowed. */
  filter: string;
  /** Start at this sequence, or at the messages that arrived at this time. Neither: the whole stream. */
  fromSequence?: number;
  fromMs?: number;
  /** Last sequence to read, inclusive. */
  toSequence: number;
  signal: AbortSignal;
}

const BATCH = 1000;
const FETCH_MS = 5000;

/** Passes the messages to `take` in order. Rejects if the connection to the cluster is lost; the caller then reads again. */
export async function readPast(
  link: NatsLink,
  { filter, fromSequence, fromMs, toSequence, signal }: Past,
  take: (messages: JsMsg[]) => Promise<void>,
): Promise<void> {
  const { AckPolicy, DeliverPolicy } = link.packages.jetstream;
  const start =
    fromSequence !== undefined
      ? { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: Math.max(1, fromSequence) }
      : fromMs !== undefined && fromMs > 0
        ? { deliver_policy: DeliverPolicy.StartTime, opt_start_time: new Date(fromMs).toISOString() }
        : { deliver_policy: DeliverPolicy.All };
  const made = await link.streams.consumers.add(STREAM, {
    ...{ ...start, filter_subject: filter, ack_policy: AckPolicy.None },
    ...{ mem_storage: true, num_replicas: 1, inactive_threshold: 60e9 },
  });
  try {
    if (made.num_pending === 0) return;
    const consumer = await link.stream.consumers.get(STREAM, made.name);
    for (let left = made.num_pending; left > 0 && !signal.aborted; ) {
      const group: JsMsg[] = [];
      let over = false;
      const batch = await consumer.fetch({ max_messages: Math.min(BATCH, left), expires: FETCH_MS });
      for await (const message of batch) {
        if (message.seq <= toSequence) group.push(message);
        over ||= message.seq >= toSequence || message.info.pending === 0;
        left--;
      }
      await take(group);
      if (over) return;
      if (group.length === 0) throw new Error("the stream could not be read further");
    }
  } finally {
    await link.streams.consumers.delete(STREAM, made.name).catch(() => undefined);
  }
}
