/**
 * Records that no worker can use: they failed the checks that every record must pass, or several workers in turn died processing them (doubts.ts).
 * They are published to the stream HOPTIME_ASIDE with the reason and listed in the log, in /v1/health and in /metrics. Processing goes on without
 * them.
 */
import { STREAM } from "../../transport/nats/cluster.ts";
import type { NatsLink } from "../../transport/nats/connection.ts";

export const ASIDE_STREAM = "HOPTIME_ASIDE";
const ASIDE_ROOT = "hoptime.aside";
const MAX_AGE_NS = 30 * 86_400e9;
const MAX_BYTES = 1 << 30;
const MAX_NAMED = 20;
const MAX_REASON = 500;
const MAX_REMEMBERED = 1000;

export interface SetAside {
  subject: string;
  sequence: number;
  reason: string;
}

export class Aside {
  readonly #link: NatsLink;
  readonly #group: string;
  readonly #last: SetAside[] = [];
  /** Stream sequences of the records already reported. */
  readonly #named = new Set<number>();
  count = 0;

  private constructor(link: NatsLink, group: string) {
    this.#link = link;
    this.#group = group;
  }

  static async open(link: NatsLink, group: string, replicas: number): Promise<Aside> {
    const { DiscardPolicy, StorageType, JetStreamApiError } = link.packages.jetstream;
    try {
      await link.streams.streams.info(ASIDE_STREAM);
    } catch (error) {
      if (!(error instanceof JetStreamApiError) || error.status !== 404) throw error;
      await link.streams.streams.add({
        ...{ name: ASIDE_STREAM, subjects: [`${ASIDE_ROOT}.>`], num_replicas: replicas },
        ...{
          max_age: MAX_AGE_NS,
          max_bytes: MAX_BYTES,
          discard: DiscardPolicy.Old,
          storage: StorageType.File,
        },
        description: "records that hoptime workers could not use, with the reason",
      });
    }
    return new Aside(link, group);
  }

  /** The most recent ones. */
  get last(): SetAside[] {
    return [...this.#last];
  }

  /**
   * Publishes the record to HOPTIME_ASIDE; durable when it resolves. Returns the line to log, or null if this worker has logged the record already
   * (it was delivered again before its acknowledgement arrived).
   */
  async put({ subject, sequence, reason }: SetAside, data: Uint8Array): Promise<string | null> {
    const headers = this.#link.packages.core.headers();
    const short = reason.replace(/[\r\n]+/g, " ").slice(0, MAX_REASON);
    headers.set("Hoptime-Reason", short);
    headers.set("Hoptime-Subject", subject);
    headers.set("Hoptime-Sequence", String(sequence));
    // A whole record may exceed the maximum payload. Its parts then remain only in the main stream, under their sequences.
    const kept =
      data.length < (this.#link.connection.info?.max_payload ?? 1 << 20) - 8192 ? data : new Uint8Array();
    const msgID = `${this.#group}/${sequence}`;
    await this.#link.stream.publish(`${ASIDE_ROOT}.${this.#group}`, kept, {
      msgID,
      headers,
      timeout: 10_000,
    });
    if (this.#named.has(sequence)) return null;
    this.#named.add(sequence);
    for (const oldest of this.#named) if (this.#named.size > MAX_REMEMBERED) this.#named.delete(oldest);
    this.count++;
    this.#last.push({ subject, sequence, reason: short });
    if (this.#last.length > MAX_NAMED) this.#last.shift();
    return `record set aside: ${short} (${subject}, ${STREAM} #${sequence}, kept in ${ASIDE_STREAM})`;
  }
}
