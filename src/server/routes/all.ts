/** What a collector answers: one list of routes, of one shape (route.ts). Handlers take what was checked, call one function of the library, and give its answer. */
import { VERSION } from "../../base/version.ts";
import { metricsText, type RequestMetrics } from "../metrics.ts";
import { eventRoutes } from "./events.ts";
import { networkRoutes } from "./network.ts";
import { docsPage, openapi } from "./openapi.ts";
import { packetRoutes } from "./packets.ts";
import { questionRoutes } from "./questions.ts";
import { recordRoutes } from "./records.ts";
import { resultRoutes } from "./results.ts";
import type { Parts, Route } from "./route.ts";
import { stationRoutes } from "./station.ts";

export function routesOf(parts: Parts, requests: RequestMetrics): Route[] {
  const routes: Route[] = [
    {
      method: "GET",
      path: "/healthz",
      needs: "none",
      summary: "is it there",
      answer: "ok",
      handle: () => ({ json: { status: "ok", hoptime: VERSION } }),
    },
    ...recordRoutes(parts),
    ...questionRoutes(parts),
    ...packetRoutes(parts),
    ...resultRoutes(parts),
    ...networkRoutes(parts),
    ...stationRoutes(parts),
    ...eventRoutes(parts),
    {
      method: "GET",
      path: "/metrics",
      needs: "read",
      summary: "metrics for Prometheus",
      answer: "text",
      handle: () => ({
        type: "text/plain; version=0.0.4; charset=utf-8",
        body: metricsText(parts, requests),
      }),
    },
  ];
  return [
    ...routes,
    {
      method: "GET",
      path: "/docs",
      needs: "read",
      summary: "this list",
      answer: "a page",
      handle: () => ({ type: "text/html; charset=utf-8", body: docsPage(routes) }),
    },
    {
      method: "GET",
      path: "/docs/openapi.json",
      needs: "read",
      summary: "this list for programs",
      answer: "OpenAPI 3.1",
      handle: () => ({ json: openapi(routes) }),
    },
  ];
}
