/**
 * A worker's connection to its cluster and the state shared there: the group's leases, the records set aside, the tap plan and the watched
 * segments.
 */
import { randomBytes } from "node:crypto";
import type { KV, KvEntry } from "@nats-io/kv";
import type { CollectedSegment } from "../../collect/collector.ts";
import {
  BUCKET,
  type Cluster,
  type ClusterSettings,
  openCluster,
  PLAN_KEY,
  STREAM,
} from "../../transport/nats/cluster.ts";
import { connectNats, type NatsLink, patiently, refusal } from "../../transport/nats/connection.ts";
import type { NatsEndpoint } from "../../transport/nats/nats-url.ts";
import type { TapPlanState } from "../tap-plan.ts";
import { ASIDE_STREAM, Aside } from "./set-aside.ts";

export interface ClusterOptions extends NatsEndpoint, ClusterSettings {
  /** Workers of one group share the records among them; each group gets all records. */
  group: string;
  /** How long a silent worker keeps its partitions, ms (default 10 s). */
  leaseMs?: number | undefined;
}

export interface ClusterLink extends NatsLink {
  cluster: Cluster;
  group: string;
  /** Id of this worker. */
  worker: string;
  leaseMs: number;
  leases: KV;
  aside: Aside;
  listWorkers: () => Promise<string[]>;
  /** Closes the connection used for leases. */
  endBeats: () => Promise<void>;
  shareSegment(segment: CollectedSegment): Promise<void>;
  sharePlan(state: TapPlanState): Promise<void>;
  /** Returns the shared segments and plan. If they were lost with their bucket, they are restored from `known`. */
  shared(known: Shared): Promise<Shared>;
  /** Number of messages of these partitions that have not been read. */
  lagOf(partitions: readonly number[]): Promise<number>;
}

export interface Shared {
  segments: CollectedSegment[];
  plan: TapPlanState | null;
}

export const DEFAULT_LEASE_MS = 10_000;
const SEGMENTS_KEY = "segments";
const ATTEMPTS = 20;

/** Throws UsageError if the cluster cannot be reached or is not set up as required. */
export async function openClusterLink(options: ClusterOptions): Promise<ClusterLink> {
  const { group, leaseMs = DEFAULT_LEASE_MS } = options;
  const link = await connectNats(options, { name: `hoptime collect ${group}` });
  // A connection of their own: leases must be renewed even while many records are in flight to this worker.
  const beats = await connectNats(options, { name: `hoptime collect ${group} leases` });
  try {
    const leaseBucket = `${BUCKET}-${group}`;
    const open = async (settings: ClusterSettings) => {
      const cluster = await openCluster(link, settings);
      const { replicas } = cluster;
      const leases = await beats.bucket(leaseBucket, { ttl: leaseMs, history: 1, replicas });
      return { cluster, leases, aside: await Aside.open(link, group, replicas) };
    };
    const { cluster, leases, aside } = await patiently(link.connection, () => open(options));
    const worker = randomBytes(6).toString("hex");
    return {
      ...{ ...link, cluster, group, worker, leaseMs, leases, aside },
      endBeats: () => beats.close(),
      listWorkers: () => workersIn(beats, leaseBucket),
      shareSegment: (segment) => addSegment(cluster.bucket, segment),
      sharePlan: async (state) => {
        await cluster.bucket.put(PLAN_KEY, JSON.stringify(state));
      },
      shared: async (known) => {
        const isWhole = await hasAll(link, [STREAM, ASIDE_STREAM, `KV_${BUCKET}`, `KV_${leaseBucket}`]);
        if (!isWhole) await open({ partitions: cluster.partitions, replicas: cluster.replicas });
        return await readShared(cluster.bucket, known);
      },
      lagOf: (partitions) => lagOf(link, group, partitions),
    };
  } catch (error) {
    await beats.close();
    await link.close();
    throw refusal(link.url, error);
  }
}

export async function closeCluster({ connection, endBeats }: ClusterLink): Promise<void> {
  await endBeats().catch(() => undefined);
  // Draining lets acknowledgements in flight arrive.
  await connection.drain().catch(() => connection.close());
}

/** Lists all workers with one request: the bucket's subjects that have not expired. */
async function workersIn({ streams }: NatsLink, bucket: string): Promise<string[]> {
  const prefix = `$KV.${bucket}.worker.`;
  const { state } = await streams.streams.info(`KV_${bucket}`, { subjects_filter: `${prefix}>` });
  return Object.keys(state.subjects ?? {}).map((subject) => subject.slice(prefix.length));
}

interface SharedSegments {
  format: "hoptime.segments/1";
  segments: CollectedSegment[];
}

async function addSegment(bucket: KV, segment: CollectedSegment): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const entry = await bucket.get(SEGMENTS_KEY);
    const { segments } = (entry && jsonIn<SharedSegments>(entry)) ?? { segments: [] };
    const { from, to, label } = segment;
    if (segments.some((s) => s.from === from && s.to === to && s.label === label)) return;
    const all: SharedSegments = {
      format: "hoptime.segments/1",
      segments: [...segments, { from, to, label }],
    };
    try {
      if (entry) await bucket.update(SEGMENTS_KEY, JSON.stringify(all), entry.revision);
      else await bucket.create(SEGMENTS_KEY, JSON.stringify(all));
      return;
    } catch (error) {
      // Another worker wrote the key first; try again.
      if (attempt === ATTEMPTS) throw error;
    }
  }
}

async function hasAll({ streams }: NatsLink, names: readonly string[]): Promise<boolean> {
  const there = new Set<string>();
  for await (const name of streams.streams.names()) there.add(name);
  return names.every((name) => there.has(name));
}

/** Restores keys that were lost with their bucket. A key deleted on purpose leaves a delete marker and is not restored. */
async function readShared(bucket: KV, known: Shared): Promise<Shared> {
  const [segments, plan] = await Promise.all([bucket.get(SEGMENTS_KEY), bucket.get(PLAN_KEY)]);
  if (!segments) for (const segment of known.segments) await addSegment(bucket, segment);
  if (!plan && known.plan) await bucket.create(PLAN_KEY, JSON.stringify(known.plan)).catch(() => undefined);
  return {
    segments: segments ? (jsonIn<SharedSegments>(segments)?.segments ?? []) : known.segments,
    plan: plan ? jsonIn<TapPlanState>(plan) : known.plan,
  };
}

const jsonIn = <T>(entry: KvEntry): T | null => (entry.operation === "PUT" ? entry.json<T>() : null);

async function lagOf({ streams }: NatsLink, group: string, partitions: readonly number[]): Promise<number> {
  const infos = await Promise.all(
    partitions.map((p) => streams.consumers.info(STREAM, `${group}-${p}`).catch(() => null)),
  );
  return infos.reduce((n, info) => n + (info?.num_pending ?? 0), 0);
}
