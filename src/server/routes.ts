/** What a collector answers. Handlers take what was checked, call one function of the library, and give its answer. */
import { VERSION } from "../base/version.ts";
import { BATCH_TYPE } from "../transport/batch.ts";
import { docsPage, openapi } from "./openapi.ts";
import { packetRoutes } from "./packet-routes.ts";
import { HttpError } from "./problem.ts";
import {
  MAX_QUESTION_BYTES,
  PATH_QUESTION,
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
    ...packetRoutes(service),
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
      summary: "health of the collector",
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
      summary: "the plan that taps follow, and the next one",
      answer: "format hoptime.tap-plan/1",
      handle: () => ({ json: service.plan }),
    },
    {
      method: "PUT",
      path: "/v1/plan",
      needs: "admin",
      summary: "set the plan that taps follow: estimators, parameters, epoch, key, cover, seed, segments",
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
      maxJsonBytes: MAX_QUESTION_BYTES,
      handle: async ({ body, client, signal }) => ({
        jsonText: await service.ask(
          { kind: "segment", question: body as SegmentQuestion },
          { name: client.name, signal },
        ),
      }),
    },
    {
      method: "POST",
      path: "/v1/localise",
      needs: "read",
      summary: "which segment of a path is to blame, from records: the question of hoptime localise",
      body: PATH_QUESTION,
      answer: "format hoptime.localise/1",
      handle: async ({ body, client, signal }) => ({
        jsonText: await service.ask(
          { kind: "path", question: body as PathQuestion },
          { name: client.name, signal },
        ),
      }),
    },
  ];
}
