/** A collector that listens: the service (service.ts) with HTTP around it, until it is closed. */
import type { Server as TlsServer } from "node:https";
import { join } from "node:path";
import { UsageError } from "../base/errors.ts";
import { isLoopback } from "./access.ts";
import { type AlertSettings, NO_ALERTS } from "./alerts/alert.ts";
import { Alerts } from "./alerts/alerts.ts";
import { checkTls, createApp, type TlsFiles, tlsOptions } from "./app.ts";
import { type ClusterOptions, openClusterLink } from "./cluster/cluster-link.ts";
import { ClusterWorker } from "./cluster/worker.ts";
import { ClientLimits, RATE_LIMITS, type RateLimits } from "./limits.ts";
import { parseListen } from "./listen.ts";
import { type MetricSink, RequestMetrics, writeMetrics } from "./metrics.ts";
import { NetworkMonitor, type NetworkSettings, NO_NETWORK } from "./monitor/network-monitor.ts";
import { type OtlpOptions, OtlpPush } from "./otlp.ts";
import { routesOf } from "./routes/all.ts";
import { pageRoutes } from "./routes/page.ts";
import type { Parts } from "./routes/route.ts";
import { CollectorService } from "./service.ts";
import type { ServiceOptions } from "./service-options.ts";
import { Station, type StationOptions } from "./station.ts";
import type { TapsPlan } from "./tap-plan.ts";

export interface ServerOptions extends Omit<ServiceOptions, "cluster"> {
  /** HOST:PORT, [HOST]:PORT; port 0: any that is free. */
  listen: string;
  tls?: TlsFiles | undefined;
  /** Listen for other hosts without TLS. */
  insecure?: boolean | undefined;
  limits?: RateLimits | undefined;
  /** Paths to be watched, and what an incident is. */
  network?: NetworkSettings | undefined;
  alerts?: AlertSettings | undefined;
  otlp?: OtlpOptions | undefined;
  /** The monitoring station of a network of m-routers. */
  station?: Omit<StationOptions, "file" | "now" | "onLog"> | undefined;
  /** Set where it differs from the one in force. */
  plan?: TapsPlan | undefined;
  /** Records come from a NATS cluster, and are shared with other workers. */
  nats?: ClusterOptions | undefined;
}

export interface RunningServer {
  url: string;
  service: CollectorService;
  network: NetworkMonitor;
  alerts: Alerts;
  station: Station | null;
  cluster: ClusterWorker | null;
  /** Other settings while it runs: limits, certificates, retention, segments, plan, paths, alerts, the station's map. */
  reload(options: ServerOptions): Promise<void>;
  close(): Promise<void>;
}

/** What follows the rows. */
async function openParts(
  service: CollectorService,
  options: ServerOptions,
  cluster: ClusterWorker | null,
): Promise<Omit<Parts, "station">> {
  const { results, events } = service;
  const { onLog } = options;
  const nowNs = options.now ?? (() => BigInt(Date.now()) * 1_000_000n);
  const { latenessNs } = options;
  const isShared = cluster !== null && options.openResults !== undefined;
  const ownsPaths = () => cluster?.ownsPaths ?? true;
  const alerts = await Alerts.open({
    ...{ results, events, onLog, nowNs, latenessNs, settings: options.alerts ?? NO_ALERTS },
    heard: () => service.heard(),
    shared: isShared ? { owns: (point) => cluster.hears(point), ownsPaths } : undefined,
  });
  const network = await NetworkMonitor.open({
    ...{ results, events, onLog, latenessNs, settings: options.network ?? NO_NETWORK },
    shared: isShared ? { isOwner: ownsPaths } : undefined,
    onChange: (_, incident) => alerts.incident(incident),
  });
  if (cluster && !isShared && network.paths.length > 0)
    onLog?.(
      "paths are judged by the segments that this worker has: keep the results of all workers in one ClickHouse",
    );
  service.follow(network);
  service.follow(alerts);
  for (const segment of network.segments) service.watch(segment);
  return { service, network, alerts };
}

/** With a station the segments are its own. */
async function applyPlan(service: CollectorService, { plan, station }: ServerOptions): Promise<void> {
  if (plan === undefined) return;
  const { plan: current, next } = service.plan;
  const before = next?.plan ?? current;
  const segments = station && before?.segments ? { segments: before.segments } : {};
  const wanted = { ...plan, ...segments };
  if (JSON.stringify(before) !== JSON.stringify(wanted)) await service.setPlan(wanted);
}

async function openWorker({ nats, onLog }: ServerOptions): Promise<ClusterWorker | null> {
  if (!nats) return null;
  const link = await openClusterLink(nats);
  for (const note of link.cluster.notes) onLog?.(`${link.url}: ${note}`);
  return new ClusterWorker(link);
}

async function openService(
  options: ServerOptions,
): Promise<{ cluster: ClusterWorker | null; service: CollectorService }> {
  const cluster = await openWorker(options);
  try {
    const service = await CollectorService.open({ ...options, cluster: cluster ?? undefined });
    return { cluster, service };
  } catch (error) {
    await cluster?.close();
    throw error;
  }
}

async function openStation(options: ServerOptions, service: CollectorService): Promise<Station | null> {
  const { station, data, insecure, now, onLog } = options;
  if (!station) return null;
  return await Station.open({ insecure, ...station, file: join(data, "station.json"), now, onLog }, service);
}

/** What has to be known of settings before anything is opened. */
export function checkListen({ listen, tls, insecure }: ServerOptions): void {
  const { host } = parseListen(listen);
  if (tls) checkTls(tls);
  if (isLoopback(host) || tls || insecure) return;
  throw new UsageError(
    "bad-option",
    `${listen} can be reached from other hosts, and tokens would cross the network unencrypted`,
    "give ‘tls-cert’ and ‘tls-key’, or ‘insecure’ where the network is trusted",
    { parameter: "listen", value: listen },
  );
}

export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { host, port } = parseListen(options.listen);
  checkListen(options);
  const { cluster, service } = await openService(options);
  let station: Station | null = null;
  try {
    if (!isLoopback(host) && service.tokens.size === 0)
      throw new UsageError(
        "bad-option",
        `${options.listen} can be reached from other hosts, and there are no tokens`,
        "make one: hoptime token add",
        { parameter: "listen", value: options.listen },
      );
    const opened = await openParts(service, options, cluster);
    const { network, alerts } = opened;
    await cluster?.start();
    await applyPlan(service, options);
    station = await openStation(options, service);
    const parts: Parts = { ...opened, station };
    const requests = new RequestMetrics();
    const limits = new ClientLimits(options.limits);
    const app = createApp({
      routes: [...routesOf(parts, requests), ...pageRoutes()],
      onRequest: (route, status, ms) => requests.count(route, status, ms),
      tokens: service.tokens,
      loopback: isLoopback(host),
      tls: options.tls,
      limits,
      onError: (text) => options.onLog?.(text),
    });
    const url = await app.listen({ host, port });
    const write = (sink: MetricSink) => writeMetrics(sink, parts, requests);
    const pushTo = (to: OtlpOptions | undefined) => to && new OtlpPush(to, write, options.onLog);
    let otlp = pushTo(options.otlp);
    return {
      url,
      ...{ service, network, alerts, station, cluster },
      reload: async (next) => {
        // What is wrong with a certificate shows here, before anything else has changed.
        if (next.tls) checkTls(next.tls);
        if (options.tls && next.tls)
          (app.server as unknown as TlsServer).setSecureContext(tlsOptions(next.tls));
        limits.change(next.limits ?? RATE_LIMITS);
        service.reconfigure(next);
        await alerts.reconfigure(next.alerts ?? NO_ALERTS);
        await network.reconfigure(next.network ?? NO_NETWORK);
        for (const segment of network.segments) service.watch(segment);
        if (next.station) station?.state.change(next.station.topology);
        await applyPlan(service, next);
        await otlp?.close();
        otlp = pushTo(next.otlp);
      },
      close: async () => {
        await otlp?.close();
        await app.close();
        await station?.close();
        await cluster?.close();
        await service.close();
      },
    };
  } catch (error) {
    await station?.close();
    await cluster?.close();
    await service.close();
    if ((error as NodeJS.ErrnoException).code === "EADDRINUSE")
      throw new UsageError(
        "bad-option",
        `${options.listen} is in use`,
        "another collector may be running; give another port",
        {
          parameter: "listen",
          cause: error,
        },
      );
    throw error;
  }
}
