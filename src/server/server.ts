/** A collector that listens: the service (service.ts) with HTTP around it, until it is closed. */
import { join } from "node:path";
import { UsageError } from "../base/errors.ts";
import { isLoopback } from "./access.ts";
import { createApp, type TlsFiles } from "./app.ts";
import type { RateLimits } from "./limits.ts";
import { parseListen } from "./listen.ts";
import { metricsText, RequestMetrics } from "./metrics.ts";
import type { Route } from "./route.ts";
import { routesOf } from "./routes.ts";
import { CollectorService, type ServiceOptions } from "./service.ts";
import { Station, type StationOptions } from "./station.ts";

export interface ServerOptions extends ServiceOptions {
  /** HOST:PORT, [HOST]:PORT; port 0: any that is free. */
  listen: string;
  tls?: TlsFiles | undefined;
  /** Listen for other hosts without TLS. */
  insecure?: boolean | undefined;
  limits?: RateLimits | undefined;
  /** The monitoring station of a network of m-routers. */
  station?: Omit<StationOptions, "file" | "now" | "onLog"> | undefined;
}

export interface RunningServer {
  url: string;
  service: CollectorService;
  station: Station | null;
  close(): Promise<void>;
}

export const DEFAULT_LISTEN = "127.0.0.1:8787";

function metricsRoute(service: CollectorService, requests: RequestMetrics): Route {
  return {
    method: "GET",
    path: "/metrics",
    needs: "read",
    summary: "metrics for Prometheus",
    answer: "text",
    handle: () => ({
      type: "text/plain; version=0.0.4; charset=utf-8",
      body: metricsText(service, requests),
    }),
  };
}

function stationRoute(station: Station | null): Route {
  return {
    method: "GET",
    path: "/v1/station",
    needs: "read",
    summary:
      "the monitoring station: routers that announce themselves, their m-sets, segments, what is to be probed",
    answer: "format hoptime.station/1; 404 where no topology was given",
    handle: () => {
      if (station) return { json: station.describe() };
      throw new UsageError("no-records", "this collector has no monitoring station", "give it a topology");
    },
  };
}

async function openStation(options: ServerOptions, service: CollectorService): Promise<Station | null> {
  const { station, data, insecure, now, onLog } = options;
  if (!station) return null;
  return await Station.open({ insecure, ...station, file: join(data, "station.json"), now, onLog }, service);
}

export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { host, port } = parseListen(options.listen);
  if (!isLoopback(host) && !options.tls && !options.insecure)
    throw new UsageError(
      "bad-option",
      `${options.listen} can be reached from other hosts, and tokens would cross the network in clear`,
      "give ‘tls-cert’ and ‘tls-key’, or ‘insecure’ where the network is trusted",
      { parameter: "listen", value: options.listen },
    );
  const service = await CollectorService.open(options);
  let station: Station | null = null;
  try {
    station = await openStation(options, service);
    if (!isLoopback(host) && service.tokens.size === 0)
      throw new UsageError(
        "bad-option",
        `${options.listen} can be reached from other hosts, and there are no tokens`,
        "make one: hoptime token add",
        { parameter: "listen", value: options.listen },
      );
    const requests = new RequestMetrics();
    const app = createApp({
      routes: [...routesOf(service), stationRoute(station), metricsRoute(service, requests)],
      onRequest: (route, status, ms) => requests.count(route, status, ms),
      tokens: service.tokens,
      loopback: isLoopback(host),
      tls: options.tls,
      limits: options.limits,
      onError: (text) => options.onLog?.(text),
    });
    const url = await app.listen({ host, port });
    return {
      url,
      service,
      station,
      close: async () => {
        await app.close();
        await station?.close();
        await service.close();
      },
    };
  } catch (error) {
    await station?.close();
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
