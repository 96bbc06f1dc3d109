/** A collector that listens: the service (service.ts) with HTTP around it, until it is closed. */
import type { Server as TlsServer } from "node:https";
import { UsageError } from "../base/errors.ts";
import { isLoopback } from "./access.ts";
import { createApp, type TlsFiles, tlsOptions } from "./app.ts";
import { ClientLimits, RATE_LIMITS, type RateLimits } from "./limits.ts";
import { parseListen } from "./listen.ts";
import { metricsText, RequestMetrics } from "./metrics.ts";
import type { Route } from "./route.ts";
import { routesOf } from "./routes.ts";
import { CollectorService, type ServiceOptions } from "./service.ts";

export interface ServerOptions extends ServiceOptions {
  /** HOST:PORT, [HOST]:PORT; port 0: any that is free. */
  listen: string;
  tls?: TlsFiles | undefined;
  /** Listen for other hosts without TLS. */
  insecure?: boolean | undefined;
  limits?: RateLimits | undefined;
}

export interface RunningServer {
  url: string;
  service: CollectorService;
  /** Other settings while it runs: limits, certificates, retention, segments. */
  reload(options: ServerOptions): void;
  close(): Promise<void>;
}

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
  try {
    if (!isLoopback(host) && service.tokens.size === 0)
      throw new UsageError(
        "bad-option",
        `${options.listen} can be reached from other hosts, and there are no tokens`,
        "make one: hoptime token add",
        { parameter: "listen", value: options.listen },
      );
    const requests = new RequestMetrics();
    const limits = new ClientLimits(options.limits);
    const app = createApp({
      routes: [...routesOf(service), metricsRoute(service, requests)],
      onRequest: (route, status, ms) => requests.count(route, status, ms),
      tokens: service.tokens,
      loopback: isLoopback(host),
      tls: options.tls,
      limits,
      onError: (text) => options.onLog?.(text),
    });
    const url = await app.listen({ host, port });
    return {
      url,
      service,
      reload: (next) => {
        // What is wrong with a certificate shows here, before anything else has changed.
        if (options.tls && next.tls)
          (app.server as unknown as TlsServer).setSecureContext(tlsOptions(next.tls));
        limits.change(next.limits ?? RATE_LIMITS);
        service.reconfigure(next);
      },
      close: async () => {
        await app.close();
        await service.close();
      },
    };
  } catch (error) {
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
