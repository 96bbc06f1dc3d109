/** Routes about incoming records, the points that send them, the tap plan and the collector's health. */
import { BATCH_TYPE } from "../../transport/batch.ts";
import { HttpError } from "../problem.ts";
import { TAP_PLAN, type TapsPlan } from "../tap-plan.ts";
import { HEALTH_ANSWER, PLAN_ANSWER, POINTS_ANSWER, RECORDS_ANSWER } from "./answers.ts";
import type { Parts, Route } from "./route.ts";

export function recordRoutes({ service }: Parts): Route[] {
  return [
    {
      method: "POST",
      path: "/v1/records",
      needs: "ingest",
      summary: "records of a point, one message (docs/formats/batch.md), plain or with content-encoding gzip",
      bodyType: BATCH_TYPE,
      answer:
        "the outcome of each, in order: stored, unchanged, replaced, merged, refused (with the reason). All that are not refused are on disk",
      response: RECORDS_ANSWER,
      handle: async ({ body, client, headers }) => {
        const tap = headers["hoptime-tap"];
        const { results, cut } = await service.ingest(
          body as Uint8Array,
          client.points,
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
      answer: "their names, and when each was last heard from",
      response: POINTS_ANSWER,
      handle: () => ({ json: { points: service.points() } }),
    },
    {
      method: "GET",
      path: "/v1/health",
      needs: "read",
      summary: "health of the collector",
      answer: "counts of records and questions, memory, and what is wrong",
      response: HEALTH_ANSWER,
      handle: async () => {
        const { memory, ...health } = service.health() as { memory: object };
        return { json: { ...health, memory: { ...memory, results: await service.results.memoryBytes() } } };
      },
    },
    {
      method: "GET",
      path: "/v1/plan",
      needs: "any",
      summary: "the plan that taps follow, and the next one",
      answer: "format hoptime.tap-plan/1",
      response: PLAN_ANSWER,
      handle: () => ({ json: service.plan }),
    },
    {
      method: "PUT",
      path: "/v1/plan",
      needs: "admin",
      summary: "set the plan that taps follow: estimators, parameters, epoch, key, cover, seed, segments",
      body: TAP_PLAN,
      answer: "the plan, and from when on it counts: a whole minute, half a minute or more from now",
      response: PLAN_ANSWER,
      handle: async ({ body }) => ({ json: await service.setPlan(body as TapsPlan) }),
    },
  ];
}
