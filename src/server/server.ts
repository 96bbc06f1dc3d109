/** A collector that listens: the service (service.ts) with HTTP around it, until it is closed. */
import { invalidValue, UsageError } from "../base/errors.ts";
import { isLoopback } from "./access.ts";
import { createApp, type TlsFiles } from "./app.ts";
import type { RateLimits } from "./limits.ts";
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
  close(): Promise<void>;
}

export const DEFAULT_LISTEN = "127.0.0.1:8787";

export function parseListen(text: string): { host: string; port: number } {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]*)):(\d{1,5})$/.exec(text.trim());
  const port = Number(match?.[3] ?? Number.NaN);
  if (!match || !(port <= 65_535))
    throw invalidValue("listen", text, "HOST:PORT, e.g. 127.0.0.1:8787 or [::1]:8787");
  return { host: match[1] ?? (match[2] || "::"), port };
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
    const app = createApp({
      routes: [...routesOf(service), metricsRoute(service, requests)],
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
