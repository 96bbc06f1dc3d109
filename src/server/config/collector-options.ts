/** Merges the settings from file and command line and converts them to collector options. */
import { readObjectPlace } from "../../archive/objects/object-place.ts";
import { UsageError } from "../../base/errors.ts";
import { parseSize } from "../../base/quantity.ts";
import { readTextFile } from "../../base/text-file.ts";
import { readReferenceKey } from "../../delays/reference-key.ts";
import { INCIDENT_SETTINGS } from "../../network/incidents/incident.ts";
import { deployment } from "../../network/plan/deployment.ts";
import { pathsBetween } from "../../network/station/monitoring-station.ts";
import type { Topology } from "../../network/topology/topology.ts";
import { loadTopology } from "../../network/topology/topology-format.ts";
import type { AlertSettings } from "../alerts/alert.ts";
import { parseCondition, parseLimit } from "../alerts/condition.ts";
import { RATE_LIMITS, type RateLimits } from "../limits.ts";
import { DEFAULT_LISTEN } from "../listen.ts";
import type { NetworkSettings } from "../monitor/network-monitor.ts";
import type { NetworkPath } from "../monitor/path-state.ts";
import type { Retention } from "../retention.ts";
import type { ServerOptions } from "../server.ts";
import { DEFAULT_STATION } from "../station.ts";
import { resultsOpener } from "./clickhouse-options.ts";
import { readDuration, readProbe, readSegment } from "./reading.ts";
import { reloads, SETTINGS, type Settings } from "./settings.ts";

/** Returns `settings` with the fields of `over` applied on top, one level deep. Lists are replaced, not merged. */
export function overlay(settings: Settings, over: Settings): Settings {
  const out: Record<string, unknown> = { ...settings };
  for (const [field, value] of Object.entries(over)) {
    if (value === undefined) continue;
    const before = out[field];
    const both = isFields(value) && isFields(before);
    out[field] = both ? { ...before, ...defined(value) } : isFields(value) ? defined(value) : value;
  }
  return out as Settings;
}

const isFields = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const defined = (fields: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(fields).filter(([, v]) => v !== undefined));

/** Throws UsageError if the data directory is missing or a file cannot be read. */
export function serverOptions(settings: Settings): ServerOptions {
  const { data, limits = {} } = settings;
  if (data === undefined)
    throw new UsageError(
      "bad-option",
      "the directory of the collector is missing",
      "give ‘data DIR’, or data: in the configuration",
      {
        parameter: "data",
      },
    );
  return {
    data,
    listen: settings.listen ?? DEFAULT_LISTEN,
    tls: tlsFiles(settings),
    insecure: settings.insecure,
    limits: rateLimits(settings),
    questionMs: readDuration(limits.questionTime ?? "30s") / 1e6,
    segments: (settings.segments ?? []).map((s) => readSegment(s)),
    latenessNs: BigInt(readDuration(settings.lateness ?? "30s")),
    retention: retention(settings),
    openResults: resultsOpener(settings, retention(settings)),
    network: networkSettings(settings),
    alerts: alertSettings(settings),
    plan: settings.plan,
    station: stationOptions(settings),
    otlp: otlpOptions(settings),
    nats: natsOptions(settings),
    objects: objectOptions(settings),
  };
}

function objectOptions({ objects }: Settings): ServerOptions["objects"] {
  if (!objects) return undefined;
  if (objects.url === undefined)
    throw new UsageError("bad-option", "the bucket is missing", "give ‘records s3://BUCKET/PREFIX’");
  return readObjectPlace(objects.url, objects);
}

function natsOptions({ nats }: Settings): ServerOptions["nats"] {
  if (!nats) return undefined;
  const { url, group = "collect", credentials, tokenFile, ca, certificate, key, lease = "10s" } = nats;
  if (url === undefined)
    throw new UsageError("bad-option", "the address of the cluster is missing", "give ‘nats’ or nats.url");
  const { partitions, replicas } = nats;
  const file = (parameter: string, path: string | undefined) =>
    path === undefined ? undefined : readTextFile(parameter, path);
  return {
    ...{ url, group, partitions, replicas, leaseMs: readDuration(lease) / 1e6 },
    credentials: file("nats-creds", credentials),
    token: file("nats-token-file", tokenFile)?.trim(),
    ca: file("nats-ca", ca),
    certificate: file("nats-cert", certificate),
    key: file("nats-key", key),
  };
}

function rateLimits({ limits = {} }: Settings): RateLimits {
  return {
    requests: limits.requests ?? RATE_LIMITS.requests,
    burst: limits.burst ?? RATE_LIMITS.burst,
    bytes: limits.bytes === undefined ? RATE_LIMITS.bytes : parseSize(limits.bytes),
    burstBytes: limits.burstBytes === undefined ? RATE_LIMITS.burstBytes : parseSize(limits.burstBytes),
  };
}

export function retention({ keep = {} }: Settings): Retention {
  const ns = (text: string) => BigInt(readDuration(text));
  const bytes = (text: string | undefined) => (text === undefined ? undefined : parseSize(text));
  return {
    recordsNs: keep.records === undefined ? undefined : ns(keep.records),
    recordBytes: bytes(keep.size),
    rowsNs: { 0: ns(keep.epochs ?? "7d"), 60: ns(keep.minutes ?? "90d"), 3600: ns(keep.hours ?? "1825d") },
    rowBytes: { 0: bytes(keep.epochsSize), 60: bytes(keep.minutesSize), 3600: bytes(keep.hoursSize) },
    incidentsNs: ns(keep.incidents ?? "365d"),
  };
}

function tlsFiles({ tls }: Settings): ServerOptions["tls"] {
  if (!tls) return undefined;
  const { certificate, key, clientCa } = tls as { certificate?: string; key?: string; clientCa?: string };
  if (certificate === undefined || key === undefined)
    throw new UsageError(
      "bad-option",
      "a certificate and its key go together",
      "give ‘tls-cert’ and ‘tls-key’",
    );
  return {
    certificate: readTextFile("tls-cert", certificate),
    key: readTextFile("tls-key", key),
    clientCa: clientCa === undefined ? undefined : readTextFile("client-ca", clientCa),
  };
}

function mapOf({ topology }: Settings): Topology | null {
  if (!topology) return null;
  const { map, latencies } = topology;
  return loadTopology(map, latencies === undefined ? {} : { latencies });
}

function stationOptions(settings: Settings): ServerOptions["station"] {
  const { station } = settings;
  if (!station) return undefined;
  const topology = mapOf(settings);
  if (!topology)
    throw new UsageError("bad-option", "the monitoring station needs a map", "give ‘topology’", {
      parameter: "station",
    });
  const { listen = DEFAULT_STATION, key, hold = "3m", probes = [] } = station;
  return {
    ...{ topology, listen, holdNs: BigInt(readDuration(hold)) },
    key: key === undefined ? undefined : readReferenceKey(key),
    probes: probes.map((probe) => readProbe(probe)),
  };
}

/** Throws UsageError if the topology map cannot be read or lacks a named router. */
function networkSettings(settings: Settings): NetworkSettings {
  const { paths = [], incidents = {} } = settings;
  const map = mapOf(settings);
  const deployed = map && deployment(map);
  const all = paths.flatMap(({ name, points, from = "", to = "", estimator = null }): NetworkPath[] => {
    if (points) return [{ name: name ?? points.join(","), points, estimator }];
    if (!map || !deployed) return [];
    const chains = pathsBetween(map, deployed, from, to);
    const own = name ?? `${from}-${to}`;
    return chains.map((chain, i) => ({
      name: chains.length === 1 ? own : `${own} #${i + 1}`,
      points: chain,
      estimator,
    }));
  });
  const { minRise, window, settle, ...rest } = incidents;
  return {
    paths: all,
    incidents: {
      ...INCIDENT_SETTINGS,
      ...rest,
      ...(minRise === undefined ? {} : { minRiseNs: readDuration(minRise) }),
      ...(settle === undefined ? {} : { settleEpochs: settle }),
      ...(window === undefined ? {} : { windowEpochs: window }),
    },
  };
}

function alertSettings({ alerts = [], notify = [] }: Settings): AlertSettings {
  return {
    rules: alerts.map(({ name, when, segment, estimator = null, clear, to = [], ...times }) => {
      const condition = parseCondition(when);
      const limit = condition.kind === "threshold" && clear !== undefined;
      return {
        ...{ name, when, condition, estimator, to },
        clear: limit ? parseLimit(condition.quantity, clear) : null,
        segment: segment === undefined ? null : readSegment(segment),
        forNs: BigInt(readDuration(times.for ?? "10s")),
        clearAfterNs: BigInt(readDuration(times.clearAfter ?? "30s")),
      };
    }),
    notify: notify.map(({ name, webhook: url, tokenFile, timeout = "5s", retries = 5 }) => ({
      ...{ name, url, tokenFile, retries },
      timeoutMs: readDuration(timeout) / 1e6,
    })),
  };
}

function otlpOptions({ otlp }: Settings): ServerOptions["otlp"] {
  if (!otlp) return undefined;
  const { url, interval = "15s", timeout = "10s", tokenFile, resource } = otlp;
  return {
    url,
    tokenFile,
    resource,
    intervalMs: readDuration(interval) / 1e6,
    timeoutMs: readDuration(timeout) / 1e6,
  };
}

/** Lists the settings that differ: those that take effect at once and those that need a restart. */
export function changes(before: Settings, after: Settings): { now: string[]; restart: string[] } {
  const out = { now: [] as string[], restart: [] as string[] };
  for (const field of Object.keys(SETTINGS.properties) as (keyof Settings)[]) {
    if (JSON.stringify(before[field]) === JSON.stringify(after[field])) continue;
    const onOrOff = field === "tls" && (before.tls === undefined) !== (after.tls === undefined);
    if (field === "limits" && before.limits?.questionTime !== after.limits?.questionTime)
      out.restart.push("limits.questionTime");
    (reloads(field) && !onOrOff ? out.now : out.restart).push(field);
  }
  return out;
}
