/** What a collector answers. Handlers take what was checked, call one function of the library, and give its answer. */
import { VERSION } from "../base/version.ts";
import { BATCH_TYPE } from "../transport/batch.ts";
import { docsPage, openapi } from "./openapi.ts";
import { HttpError } from "./problem.ts";
import {
  PACKET_QUESTION,
  PATH_QUESTION,
  type PacketsQuestion,
  type PathQuestion,
  SEGMENT_QUESTION,
  type SegmentQuestion,
} from "./questions.ts";
import { resultRoutes } from "./result-routes.ts";
import type { Route } from "./route.ts";
import type { CollectorService } from "./service.ts";
import { TAP_PLAN, type TapPlan } from "./tap-plan.ts";

export function routesOf(service: CollectorService): Route[] {
  const routes = [
    ...recordRoutes(service),
    ...planRoutes(service),
    ...questionRoutes(service),
    ...resultRoutes(service),
  ];
  return [
    {
      method: "GET",
      path: "/healthz",
      needs: "none",
      summary: "is it there",
      answer: "ok",
      handle: () => ({ json: { status: "ok", hoptime: VERSION } }),
    },
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

function recordRoutes(service: CollectorService): Route[] {
  return [
    {
      method: "POST",
      path: "/v1/records",
      needs: "ingest",
      summary: "records of a point, one message (docs/formats/batch.md), plain or with content-encoding gzip",
      bodyType: BATCH_TYPE,
      answer:
        "what became of each, in order: stored, unchanged, replaced, merged, refused (with the reason). What is not refused is on disk",
      handle: async ({ body, client, headers }) => {
        const tap = headers["hoptime-tap"];
        const { results, cut } = await service.ingest(
          body as Uint8Array,
          client.point,
          typeof tap === "string" ? tap : null,
        );
        if (cut !== null && results.length === 0) throw new HttpError(400, "bad-message", cut);
        return { json: { results, ...(cut === null ? {} : { cut }) } };
      },
    },
    {
      method: "GET",
      path: "/v1/points",
      needs: "read",
      summary: "points that have records",
      answer: "their names, and when each was heard of last",
      handle: () => ({ json: { points: service.points() } }),
    },
    {
      method: "GET",
      path: "/v1/health",
      needs: "read",
      summary: "how the collector is",
      answer: "counts of records and questions, memory, and what is wrong",
      handle: () => ({ json: service.health() }),
    },
  ];
}

function planRoutes(service: CollectorService): Route[] {
  return [
    {
      method: "GET",
      path: "/v1/plan",
      needs: "any",
      summary: "what the taps are to keep, and what is to come",
      answer: "format hoptime.tap-plan/1",
      handle: () => ({ json: service.plan }),
    },
    {
      method: "PUT",
      path: "/v1/plan",
      needs: "admin",
      summary: "change what the taps are to keep: estimators, parameters, epoch, key, cover, seed, segments",
      body: TAP_PLAN,
      answer: "the plan, and from when on it counts: a whole minute, half a minute or more from now",
      handle: async ({ body }) => ({ json: await service.setPlan(body as TapPlan) }),
    },
  ];
}

function questionRoutes(service: CollectorService): Route[] {
  return [
    {
      method: "POST",
      path: "/v1/query",
      needs: "read",
      summary: "delay and loss between two points, from their records: the question of hoptime query",
      body: SEGMENT_QUESTION,
      answer: "format hoptime.answer/1",
      handle: async ({ body }) => ({
        jsonText: await service.ask({ kind: "segment", question: body as SegmentQuestion }),
      }),
    },
    {
      method: "POST",
      path: "/v1/packets",
      needs: "read",
      summary: "delays of single packets, from records of maple: by digest, by flow, or of all flows listed",
      body: PACKET_QUESTION,
      answer: "format hoptime.packet-answer/1",
      handle: async ({ body }) => ({
        jsonText: await service.ask({ kind: "packets", question: body as PacketsQuestion }),
      }),
    },
    {
      method: "POST",
      path: "/v1/localise",
      needs: "read",
      summary: "which segment of a path is to blame, from records: the question of hoptime localise",
      body: PATH_QUESTION,
      answer: "format hoptime.localise/1",
      handle: async ({ body }) => ({
        jsonText: await service.ask({ kind: "path", question: body as PathQuestion }),
      }),
    },
  ];
}
