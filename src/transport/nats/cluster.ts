/**
 * What hoptime keeps in a cluster, created by the first client (docs/cluster.md): the stream HOPTIME of records, and the bucket `hoptime` with settings that
 * taps and workers must share:
 *
 *   cluster   {"format":"hoptime.cluster/1","partitions":16}    set once: both ends of a segment meet by it
 *   plan      format hoptime.tap-plan/1: what the taps are to keep
 *
 * Settings of an existing stream are checked, but never changed: its limits belong to its owner.
 */
import type { StreamConfig, StreamInfo } from "@nats-io/jetstream";
import type { KV } from "@nats-io/kv";
import { UsageError } from "../../base/errors.ts";
import type { NatsLink } from "./connection.ts";
import { SUBJECT_ROOT } from "./subjects.ts";

export const STREAM = "HOPTIME";
export const BUCKET = "hoptime";
export const PLAN_KEY = "plan";
const CLUSTER_KEY = "cluster";
const DEFAULT_PARTITIONS = 16;
const MAX_PARTITIONS = 1024;
const DAY_NS = 86_400e9;
/** How long records stay in the stream. */
const MAX_AGE_NS = 3 * DAY_NS;
/** Message ids are remembered this long: duplicates of a tap that returns later are recognised by its records. */
const DUPLICATE_NS = 600e9;
/**
 * Limit of the stream in GB, or the next smaller one that the servers' storage permits: beyond it the oldest records are removed. Without a limit the servers
 * accept no more records when their storage is full.
 */
const MAX_GB = [100, 50, 25, 10, 5, 2, 1];
const STREAM_NAME_IN_USE = 10058;
/** Error codes for insufficient storage: of the account, of the server, of the nodes together. */
const NO_STORAGE = new Set([10005, 10023, 10028, 10047]);

export interface ClusterSettings {
  /** Used if the cluster has none yet (default 16). */
  partitions?: number | undefined;
  /** Copies of each record (default: 3 in a cluster, 1 on a single server). */
  replicas?: number | undefined;
}

export interface Cluster {
  partitions: number;
  replicas: number;
  /** Maximum size of a message in bytes. */
  maxPayload: number;
  bucket: KV;
  /** Settings that differ from what hoptime would create. */
  notes: string[];
}

export async function openCluster(link: NatsLink, settings: ClusterSettings = {}): Promise<Cluster> {
  const { info } = link.connection;
  const replicas = settings.replicas ?? (info?.cluster ? 3 : 1);
  const config = await openStream(link, replicas);
  const bucket = await link.bucket(BUCKET, { replicas: config.num_replicas, history: 1 });
  const partitions = await agreePartitions(bucket, settings.partitions ?? DEFAULT_PARTITIONS, link.url);
  const notes = notesOf(config, replicas);
  if (settings.partitions !== undefined && settings.partitions !== partitions)
    notes.push(
      `the cluster has ${partitions} partitions, not ${settings.partitions}: the first worker set the number`,
    );
  return {
    partitions,
    replicas: config.num_replicas,
    maxPayload: info?.max_payload ?? 1 << 20,
    bucket,
    notes,
  };
}

async function openStream(link: NatsLink, replicas: number): Promise<StreamConfig> {
  const wanted = {
    name: STREAM,
    subjects: [`${SUBJECT_ROOT}.>`],
    num_replicas: replicas,
    max_age: MAX_AGE_NS,
    duplicate_window: DUPLICATE_NS,
    allow_direct: true,
    description: "records of hoptime taps",
  };
  const there = await findStream(link);
  if (there) return checked(there.config, link.url);
  const { jetstream } = link.packages;
  try {
    const shape = {
      ...{ ...wanted, storage: jetstream.StorageType.File },
      ...{ retention: jetstream.RetentionPolicy.Limits, discard: jetstream.DiscardPolicy.Old },
    };
    return await addLimited(link, shape);
  } catch (error) {
    // Another client was faster, with its own settings.
    if ((error as { code?: number }).code === STREAM_NAME_IN_USE) {
      const other = await findStream(link);
      if (other) return checked(other.config, link.url);
    }
    throw streamRefused(link, replicas, error as Error);
  }
}

async function addLimited(link: NatsLink, shape: Pick<StreamConfig, "name">): Promise<StreamConfig> {
  for (const gigabytes of MAX_GB)
    try {
      return (await link.streams.streams.add({ ...shape, max_bytes: gigabytes * 1e9 })).config;
    } catch (error) {
      if (!NO_STORAGE.has((error as { code?: number }).code ?? 0)) throw error;
    }
  return (await link.streams.streams.add(shape)).config;
}

async function findStream(link: NatsLink): Promise<StreamInfo | null> {
  try {
    return await link.streams.streams.info(STREAM);
  } catch (error) {
    if (error instanceof link.packages.jetstream.JetStreamApiError && error.status === 404) return null;
    throw error;
  }
}

function checked(config: StreamConfig, url: string): StreamConfig {
  const wrong = (problem: string, hint: string) =>
    new UsageError("mismatch", `${url}: the stream ${STREAM} ${problem}`, hint);
  const { subjects, retention } = config;
  if (!subjects.some((s) => [`${SUBJECT_ROOT}.>`, "hoptime.>", ">"].includes(s)))
    throw wrong(
      `takes ${subjects.join(", ")}, not ${SUBJECT_ROOT}.>`,
      "remove it or add the subject: nats stream edit",
    );
  if (retention !== "limits")
    throw wrong(
      `deletes records once they are read (retention ${retention})`,
      "records must stay for queries: delete the stream and create it with retention limits",
    );
  return config;
}

function notesOf(config: StreamConfig, replicas: number): string[] {
  const { num_replicas, storage, max_msgs_per_subject, max_bytes } = config;
  return [
    ...(num_replicas < replicas
      ? [
          `the stream ${STREAM} has ${num_replicas === 1 ? "one copy" : `${num_replicas} copies`} of each record; ${replicas} are usual in a cluster: nats stream edit ${STREAM} --replicas ${replicas}`,
        ]
      : []),
    ...(storage === "file" ? [] : [`the stream ${STREAM} is in memory: a restart of the servers loses it`]),
    ...(max_bytes > 0
      ? []
      : [
          `the stream ${STREAM} has no size limit: if the servers' storage fills up, they reject new records. Set one: nats stream edit ${STREAM} --max-bytes SIZE`,
        ]),
    ...(max_msgs_per_subject > 0
      ? [`the stream ${STREAM} keeps ${max_msgs_per_subject} records of each point only`]
      : []),
  ];
}

function streamRefused({ url, connection }: NatsLink, replicas: number, cause: Error): UsageError {
  const short = /no suitable peers|insufficient resources|replicas/i.test(cause.message);
  // Nodes of a cluster may still start; a single server stays one.
  const isAway = short && connection.info?.cluster !== undefined;
  return new UsageError(
    isAway ? "store-away" : "no-records",
    `${url}: the stream ${STREAM} cannot be created (${cause.message})`,
    short && replicas > 1
      ? `${replicas} copies need ${replicas} nodes with JetStream that are up and know each other; ‘nats-replicas 1’ for fewer`
      : undefined,
    { cause },
  );
}

/** The first number set applies to all. */
async function agreePartitions(bucket: KV, partitions: number, url: string): Promise<number> {
  const mine = JSON.stringify({ format: "hoptime.cluster/1", partitions });
  let entry = await bucket.get(CLUSTER_KEY);
  if (!entry) {
    await bucket.create(CLUSTER_KEY, mine).catch(() => undefined);
    entry = await bucket.get(CLUSTER_KEY);
  }
  try {
    const { format, partitions: agreed } = JSON.parse(entry?.string() ?? "null") as Record<string, unknown>;
    if (
      format === "hoptime.cluster/1" &&
      typeof agreed === "number" &&
      Number.isInteger(agreed) &&
      agreed >= 1 &&
      agreed <= MAX_PARTITIONS
    )
      return agreed;
  } catch {
    // Reported below.
  }
  throw new UsageError(
    "mismatch",
    `${url}: the key ${CLUSTER_KEY} in the bucket ${BUCKET} was not written by hoptime`,
    "another program uses the bucket: give hoptime its own NATS account",
  );
}
