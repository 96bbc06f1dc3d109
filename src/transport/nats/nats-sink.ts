/**
 * Sends records to a NATS cluster, through a spool (spooled-sink.ts). Each is a message of the stream HOPTIME (subjects.ts); larger ones are split (parts.ts).
 * A record leaves the spool when the stream has acknowledged it; with three copies that means that two have it on disk.
 *
 * The message id is the record's identity and a checksum of its bytes: what is sent twice is stored once. The identity alone would not do: a tap that is
 * restarted within an epoch sends another part of it, which is to be merged with the first.
 */
import { createHash } from "node:crypto";
import { VERSION } from "../../base/version.ts";
import { identityText, recordIdentity } from "../../epoch/identity.ts";
import { decodeHead, type RecordHead } from "../../epoch/record.ts";
import { splitBatch } from "../batch.ts";
import { type Delivered, type Delivery, SpooledSink, type SpoolReport } from "../spooled-sink.ts";
import { type Cluster, openCluster } from "./cluster.ts";
import { connectNats, type NatsLink, refusal } from "./connection.ts";
import { parseNatsUrl } from "./nats-url.ts";
import { PART_HEADER, partText, piecesOf } from "./parts.ts";
import type { NatsSinkOptions } from "./sink-options.ts";
import { homeOf, subjectOf } from "./subjects.ts";

export const TAP_HEADER = "Hoptime-Tap";
/** Maximum number of unacknowledged messages. */
const IN_FLIGHT = 256;
const PUBLISH_MS = 10_000;

export class NatsSink extends SpooledSink {
  private constructor(options: NatsSinkOptions) {
    super(options, new NatsDelivery(options));
  }

  /** Creates the spool if needed; sends what an earlier run left in it first. The cluster may be unreachable. */
  static async open(options: NatsSinkOptions): Promise<NatsSink> {
    parseNatsUrl(options.url);
    const sink = new NatsSink(options);
    await sink.start();
    return sink;
  }
}

type Link = NatsLink & { cluster: Cluster };
type Outcome = { outcome: "stored" | "unchanged" | "refused"; reason?: string };

class NatsDelivery implements Delivery {
  readonly url: string;
  readonly #options: NatsSinkOptions;
  #link: Promise<Link> | null = null;
  /** Stream and bucket may be gone: they are checked before more is sent. */
  #isDoubtful = false;

  constructor(options: NatsSinkOptions) {
    this.#options = options;
    this.url = parseNatsUrl(options.url).shown;
  }

  async send(body: Buffer, report: SpoolReport, signal: AbortSignal): Promise<Delivered> {
    try {
      const link = await this.#connected();
      if (this.#isDoubtful) await openCluster(link, { partitions: link.cluster.partitions });
      this.#isDoubtful = false;
      const tap = JSON.stringify({ hoptime: VERSION, ...report });
      const results: Outcome[] = [];
      const { records } = splitBatch(body, "spool");
      for (let at = 0; at < records.length; at += IN_FLIGHT) {
        if (signal.aborted) return { kind: "later", reason: "stopped", afterMs: 0 };
        const group = records.slice(at, at + IN_FLIGHT);
        results.push(...(await Promise.all(group.map(({ bytes }) => publishRecord(link, bytes, tap)))));
      }
      return { kind: "taken", results };
    } catch (error) {
      this.#isDoubtful = true;
      const { problem, hint } = refusal(this.url, error);
      const reason = problem.replace(`${this.url}: `, "");
      return { kind: "later", reason: hint === undefined ? reason : `${reason}; ${hint}`, afterMs: 0 };
    }
  }

  async close(): Promise<void> {
    await (await this.#link?.catch(() => null))?.close();
  }

  /** A failed connection is retried with the next message. */
  #connected(): Promise<Link> {
    if (!this.#link) {
      const link = this.#open();
      this.#link = link;
      link.catch(() => {
        if (this.#link === link) this.#link = null;
      });
    }
    return this.#link;
  }

  async #open(): Promise<Link> {
    const link = await connectNats(this.#options, { name: "hoptime observe" });
    try {
      const cluster = await openCluster(link);
      for (const note of cluster.notes) this.#options.onState?.(`${this.url}: ${note}`);
      return { ...link, cluster };
    } catch (error) {
      await link.close();
      throw error;
    }
  }
}

/** The id as the stream and the workers know it. */
export function messageId(head: RecordHead, bytes: Uint8Array): string {
  const sum = createHash("sha1").update(bytes).digest("hex").slice(0, 16);
  return `${identityText(recordIdentity(head))}/${sum}`;
}

async function publishRecord(link: Link, bytes: Uint8Array, tap: string): Promise<Outcome> {
  let head: RecordHead;
  try {
    ({ head } = decodeHead(bytes, { file: "spool", offset: 0 }));
  } catch (error) {
    return { outcome: "refused", reason: (error as Error).message };
  }
  const { partitions } = link.cluster;
  const subject = subjectOf(homeOf(head.point, head.segment, partitions), head.point, head.segment);
  const fresh = await publishPieces(link, { subject, bytes, id: messageId(head, bytes), tap });
  return { outcome: fresh ? "stored" : "unchanged" };
}

export interface Published {
  subject: string;
  bytes: Uint8Array;
  /** Message id of the whole record. */
  id: string;
  /** The tap's report about itself. */
  tap: string | null;
}

/** Returns false if the stream had it already. Rejects if it is not acknowledged. */
export async function publishPieces(
  link: NatsLink & { cluster: Pick<Cluster, "maxPayload"> },
  { subject, bytes, id, tap }: Published,
): Promise<boolean> {
  const pieces = piecesOf(bytes, link.cluster.maxPayload);
  let fresh = false;
  for (const [i, piece] of pieces.entries()) {
    const headers = link.packages.core.headers();
    if (tap !== null) headers.set(TAP_HEADER, tap);
    const part = { number: i + 1, of: pieces.length, record: id };
    if (pieces.length > 1) headers.set(PART_HEADER, partText(part));
    const msgID = pieces.length > 1 ? `${id}/${i + 1}` : id;
    const options = { msgID, headers, timeout: PUBLISH_MS };
    const { duplicate } = await link.stream.publish(subject, piece, options);
    fresh ||= !duplicate;
  }
  return fresh;
}
