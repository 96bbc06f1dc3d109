/** Routes answered from rows: fast, for pages and dashboards. */
import Type from "typebox";
import { invalidValue, UsageError } from "../../base/errors.ts";
import { parseDuration, parseTime } from "../../base/time.ts";
import { isWhole, withoutSuperseded } from "../../epoch/direction-label.ts";
import type { Estimator } from "../../estimators/estimator.ts";
import { ESTIMATORS } from "../../estimators/table.ts";
import { groupFlows } from "../../query/segment/row-groups.ts";
import { Normals } from "../../results/normals.ts";
import { overview } from "../../results/overview.ts";
import type { RowSelection } from "../../results/row-selection.ts";
import type { KnownSegment } from "../../results/segment-reader.ts";
import { flowSeries, latencySeries, oneFlow, topFlows } from "../../results/series.ts";
import type { CollectorService } from "../service.ts";
import {
  FLOW_ANSWER,
  FLOW_SEGMENTS_ANSWER,
  FLOWS_ANSWER,
  LATENCY_ANSWER,
  OVERVIEW_ANSWER,
  SEGMENTS_ANSWER,
} from "./answers.ts";
import type { Parts, Route } from "./route.ts";

const NAME = Type.String({ minLength: 1, maxLength: 64 });
const SELECTION = {
  from: Type.String({ minLength: 1, maxLength: 64, description: "sender of the segment" }),
  to: Type.String({ minLength: 1, maxLength: 64, description: "receiver of the segment" }),
  label: Type.Optional(
    Type.String({ maxLength: 64, description: "label of the segment or class, where there are several" }),
  ),
  estimator: Type.Optional(
    Type.String({ maxLength: 64, description: "estimator to use (default: the first with answers)" }),
  ),
  since: Type.Optional(
    Type.String({
      maxLength: 40,
      description:
        "from this time on: ISO 8601, ns, or seconds with a point (default: an hour before the newest)",
    }),
  ),
  until: Type.Optional(Type.String({ maxLength: 40, description: "before this time (default: the newest)" })),
};
const STEP = Type.Optional(
  Type.String({ maxLength: 20, description: "1m, 10s, 1h … (default: as the epochs are)" }),
);
const LIMIT = Type.Optional(
  Type.Integer({ minimum: 1, maximum: 10_000, description: "points or rows at most (default 1,000)" }),
);
const PAGE = { step: STEP, limit: LIMIT, cursor: Type.Optional(NAME) };
const DEFAULT_LIMIT = 1000;
const answering = (what: Estimator["answers"][number]) =>
  new Set(ESTIMATORS.filter((e) => e.answers.includes(what)).map((e) => e.name));
const PACKET_ESTIMATORS = answering("packet");
const FLOW_ESTIMATORS = answering("flow");
const HOUR_NS = 3_600_000_000_000n;
const closed = { additionalProperties: false };

interface Asked {
  from: string;
  to: string;
  label?: string;
  estimator?: string;
  since?: string;
  until?: string;
  step?: string;
  limit?: number;
  cursor?: string;
  flow?: string;
  top?: number;
}

export function resultRoutes({ service }: Parts): Route[] {
  return [
    segmentsRoute(service),
    overviewRoute(service),
    latencyRoute(service),
    flowsRoute(service),
    flowRoute(service),
    flowSegmentsRoute(service),
  ];
}

function segmentsRoute(service: CollectorService): Route {
  return {
    method: "GET",
    path: "/v1/segments",
    needs: "read",
    summary: "segments that are watched or have results",
    answer:
      "each with its estimators, whether one of them answers about packets, and the time that its rows cover",
    response: SEGMENTS_ANSWER,
    handle: async () => {
      const known = withoutSuperseded(await service.results.segments());
      const has = (s: { from: string; to: string; label: string }) =>
        known.some((k) => k.from === s.from && k.to === s.to && k.label === s.label);
      // An unlabelled segment without rows is represented by its direction from A to B.
      const stands = (s: { from: string; to: string; label: string }) =>
        s.label === "" && known.some((k) => k.from === s.from && k.to === s.to);
      const rest = service.pairing.segments.filter((s) => !has(s) && !stands(s));
      const described = known.map(({ firstNs, lastNs, ...k }) => ({
        ...k,
        packets: k.estimators.some((e) => PACKET_ESTIMATORS.has(e)),
        firstNs: `${firstNs}`,
        lastNs: `${lastNs}`,
      }));
      return {
        json: {
          segments: [
            ...described,
            ...rest.map((s) => ({ ...s, estimators: [], packets: false, firstNs: null, lastNs: null })),
          ],
        },
      };
    },
  };
}

function overviewRoute(service: CollectorService): Route {
  const normals = new Normals(service.results);
  return {
    method: "GET",
    path: "/v1/overview",
    needs: "read",
    summary:
      "all segments at a glance: the newest answer of each, and delay and loss over time in a few steps",
    query: Type.Object(
      {
        from: Type.Optional(SELECTION.from),
        to: Type.Optional(SELECTION.to),
        since: SELECTION.since,
        until: SELECTION.until,
        last: Type.Optional(
          Type.String({
            maxLength: 20,
            description: "instead of `since`: so long before the end, 5m, 1h … (default 1h)",
          }),
        ),
        steps: Type.Optional(
          Type.Integer({
            minimum: 0,
            maximum: 500,
            description: "about so many (default 60); 0: none and no sums, the newest answers alone",
          }),
        ),
      },
      closed,
    ),
    answer:
      "per segment: `latest` as a point of /v1/latency, sums, and per step mean, lowest low, highest high and loss (null where there is none)",
    response: OVERVIEW_ANSWER,
    handle: async ({ query }) => {
      const {
        from = null,
        to = null,
        since,
        until,
        last,
        steps = 60,
      } = query as Partial<Asked> & { steps?: number; last?: string };
      const [fromNs, toNs] = [since, until].map((t) => (t === undefined ? null : parseTime(t)));
      const preferred = ESTIMATORS.filter((e) => e.answers.includes("segment")).map((e) => e.name);
      return {
        json: await overview(service.results, normals, {
          from,
          to,
          fromNs: fromNs ?? null,
          toNs: toNs ?? null,
          lengthNs: last === undefined ? undefined : stepOf(last, "last"),
          steps,
          preferred,
        }),
      };
    },
  };
}

function latencyRoute(service: CollectorService): Route {
  return {
    method: "GET",
    path: "/v1/latency",
    needs: "read",
    summary: "delay, loss and coverage of a segment over time, in any step",
    query: Type.Object({ ...SELECTION, ...PAGE }, closed),
    answer:
      "points in order of time: mean with its interval, share answered, sent, received, lost, missing and refused epochs; `next` is the cursor of the next page",
    response: LATENCY_ANSWER,
    handle: async ({ query }) => {
      const asked = query as unknown as Asked;
      const selection = await selectionOf(service, asked);
      const { stepNs, limit, cursorNs } = pageOf(asked);
      return { json: await latencySeries(service.results, selection, stepNs, limit, cursorNs) };
    },
  };
}

function flowsRoute(service: CollectorService): Route {
  return {
    method: "GET",
    path: "/v1/flows",
    needs: "read",
    summary: "the flows of a segment with the most packets in a time (the largest of each epoch are kept)",
    query: Type.Object(
      {
        ...SELECTION,
        top: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000 })),
        group: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 64,
            description:
              "put flows together by: host, prefix/24, port, or any flow key (src, dst/16, proto …)",
          }),
        ),
      },
      closed,
    ),
    answer:
      "flows with packets, loss and mean delay with its interval; with `group` groups of them, and which share of the packets they are of. Others: POST /v1/query",
    response: FLOWS_ANSWER,
    handle: async ({ query }) => {
      const asked = query as unknown as Asked & { group?: string };
      const selection = await selectionOf(service, asked, "flow");
      if (asked.group !== undefined)
        return {
          json: {
            ...selectionJson(selection),
            ...(await groupFlows(service.results, selection, asked.group, asked.top ?? 10)),
          },
        };
      return {
        json: {
          ...selectionJson(selection),
          flows: await topFlows(service.results, selection, asked.top ?? 10),
        },
      };
    },
  };
}

function flowRoute(service: CollectorService): Route {
  return {
    method: "GET",
    path: "/v1/flow",
    needs: "read",
    summary: "one flow of a segment, in total and over time",
    query: Type.Object(
      { ...SELECTION, flow: Type.String({ minLength: 1, maxLength: 200 }), ...PAGE },
      closed,
    ),
    answer:
      "its total and its points, in order of time; `next` is the cursor of the next page; 404 where no row has it",
    response: FLOW_ANSWER,
    handle: async ({ query }) => {
      const asked = query as unknown as Asked & { flow: string };
      const selection = await selectionOf(service, asked, "flow");
      const total = await oneFlow(service.results, selection, asked.flow);
      if (!total)
        throw new UsageError(
          "no-records",
          "is not among the largest flows of any epoch in this time",
          "POST /v1/query asks the records",
          { parameter: "flow" },
        );
      const { points, next } = await flowSeries(service.results, selection, asked.flow, pageOf(asked));
      return { json: { ...selectionJson(selection), total, points, next } };
    },
  };
}

/** Most segments searched for one flow. */
const MAX_FLOW_SEGMENTS = 500;

function flowSegmentsRoute(service: CollectorService): Route {
  return {
    method: "GET",
    path: "/v1/flow/segments",
    needs: "read",
    summary: "one flow in every segment that has it: where its delay comes from",
    query: Type.Object(
      {
        flow: Type.String({ minLength: 1, maxLength: 200 }),
        since: SELECTION.since,
        until: SELECTION.until,
      },
      closed,
    ),
    answer: "segments with the flow's total in that time; those without it are left out",
    response: FLOW_SEGMENTS_ANSWER,
    handle: async ({ query }) => {
      const { flow, since, until } = query as { flow: string; since?: string; until?: string };
      const found: unknown[] = [];
      for (const { from, to, label, estimators } of await service.results.segments()) {
        if (found.length === MAX_FLOW_SEGMENTS) break;
        if (!estimators.some((e) => FLOW_ESTIMATORS.has(e))) continue;
        const times = {
          ...(since === undefined ? {} : { since }),
          ...(until === undefined ? {} : { until }),
        };
        const selection = await selectionOf(service, { from, to, label, ...times }, "flow");
        const total = await oneFlow(service.results, selection, flow);
        if (total) found.push({ from, to, label, estimator: selection.estimator, total });
      }
      return { json: { flow, segments: found } };
    },
  };
}

function stepOf(text: string | undefined, parameter = "step"): bigint {
  if (text === undefined) return 0n;
  const ns = parseDuration(text);
  if (!(ns >= 1e6)) throw invalidValue(parameter, text, "at least 1ms", { code: "bad-question" });
  return BigInt(ns);
}

function pageOf({ step, limit = DEFAULT_LIMIT, cursor }: Asked) {
  return { stepNs: stepOf(step), limit, cursorNs: cursor === undefined ? null : parseTime(cursor) };
}

/** Resolves which rows are meant: the named segment; the named estimator, or the first that has rows; by default the last hour. */
async function selectionOf(
  service: CollectorService,
  asked: Asked,
  need: "segment" | "flow" = "segment",
): Promise<RowSelection> {
  const { from, to } = asked;
  const known = await service.results.segments();
  // A direction represents the segment, unless the request names a label or a time before the directions were separated.
  const all = (
    asked.label === undefined && asked.until === undefined ? withoutSuperseded(known) : known
  ).filter((s) => s.from === from && s.to === to);
  const found = chooseLabel(all, asked);
  const able = ESTIMATORS.filter((e) => e.answers.includes(need)).map((e) => e.name);
  const estimator =
    asked.estimator ?? able.find((e) => found.estimators.includes(e)) ?? found.estimators[0] ?? "";
  if (!found.estimators.includes(estimator))
    throw new UsageError(
      "no-records",
      `no results of estimator '${estimator}'`,
      `there are: ${found.estimators.join(", ")}`,
      { parameter: "estimator" },
    );
  const toNs = asked.until === undefined ? found.lastNs : parseTime(asked.until);
  const fromNs = asked.since === undefined ? toNs - HOUR_NS : parseTime(asked.since);
  if (fromNs >= toNs)
    throw invalidValue("since", asked.since, "a time before the end of the range", { code: "bad-question" });
  return { from, to, label: found.label, estimator, fromNs, toNs };
}

function chooseLabel(all: readonly KnownSegment[], asked: Asked): KnownSegment {
  const { from, to, label } = asked;
  const wanted = label === undefined ? wholeSegment(all, asked) : all.find((s) => s.label === label);
  if (wanted) return wanted;
  const what = label === undefined ? "" : ` with label '${label}'`;
  throw new UsageError(
    "no-records",
    `no results of ${from} → ${to}${what}`,
    "is the segment watched? GET /v1/segments lists those that are",
  );
}

/**
 * Returns the label that represents the segment when none is given: `A:B` if it exists; otherwise the direction label or the empty label, whichever
 * has the newest rows in the requested time.
 */
function wholeSegment(
  all: readonly KnownSegment[],
  { from, to, since, until }: Asked,
): KnownSegment | undefined {
  const untilNs = until === undefined ? null : parseTime(until);
  const sinceNs = since === undefined ? null : parseTime(since);
  const whole = all.filter((s) => isWhole(s.label, from, to));
  const within = whole.filter(
    (s) => (untilNs === null || s.firstNs < untilNs) && (sinceNs === null || s.lastNs > sinceNs),
  );
  const newest = [...(within.length > 0 ? within : whole)].sort((a, b) => (a.lastNs < b.lastNs ? 1 : -1));
  return all.find((s) => s.label === `${from}:${to}`) ?? newest[0] ?? all[0];
}

function selectionJson({ from, to, label, estimator, fromNs, toNs }: RowSelection) {
  return { from, to, label, estimator, fromNs: `${fromNs}`, toNs: `${toNs}` };
}
