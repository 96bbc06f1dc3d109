/** Publishes records that came to a worker over HTTP to the stream, from where the partition's owner reads them. */
import { FormatError } from "../../base/errors.ts";
import { type RecordHead, verifyRecord } from "../../epoch/record.ts";
import { splitBatch } from "../../transport/batch.ts";
import { refusal } from "../../transport/nats/connection.ts";
import { messageId, publishPieces } from "../../transport/nats/nats-sink.ts";
import { homeOf, subjectOf } from "../../transport/nats/subjects.ts";
import { notItsPoint } from "../access.ts";
import { INGEST_LIMITS, type Ingested, type IngestResult } from "../ingest.ts";
import type { ClusterLink } from "./cluster-link.ts";

/** Resolves when the records are in the stream. Errors other than those checked here are found when the record is worked. */
export async function publishMessage(
  link: ClusterLink,
  message: Uint8Array,
  { points, tap }: { points: readonly string[] | null; tap: string | null },
): Promise<Ingested> {
  const { records, cut } = splitBatch(message, "message", INGEST_LIMITS.maxRecords);
  const publish = async ({ bytes, offset }: (typeof records)[number]): Promise<IngestResult> => {
    const head = headOrReason(bytes, offset, points);
    if (typeof head === "string") return { outcome: "refused", reason: head };
    const partition = homeOf(head.point, head.segment, link.cluster.partitions);
    const subject = subjectOf(partition, head.point, head.segment);
    const fresh = await publishPieces(link, { subject, bytes, id: messageId(head, bytes), tap });
    return { outcome: fresh ? "stored" : "unchanged" };
  };
  const results = await Promise.all(records.map(publish)).catch((error: unknown) => {
    throw refusal(link.url, error);
  });
  return { results, accepted: [], refused: [], cut: cut?.message ?? null };
}

function headOrReason(
  bytes: Uint8Array,
  offset: number,
  points: readonly string[] | null,
): RecordHead | string {
  try {
    const { head } = verifyRecord(bytes, { file: "message", offset });
    return notItsPoint(head.point, points) ?? head;
  } catch (error) {
    if (error instanceof FormatError) return error.message;
    throw error;
  }
}
