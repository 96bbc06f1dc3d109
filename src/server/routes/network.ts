/** Routes about the network: paths, segments to blame, incidents, coverage, alerts. */
import Type, { type Static } from "typebox";
import { invalidValue, UsageError } from "../../base/errors.ts";
import { parseTime } from "../../base/time.ts";
import type { HappeningPlace } from "../../results/happenings.ts";
import type { Alert } from "../alerts/alert.ts";
import { coverageOf } from "../coverage.ts";
import type { IncidentJson } from "../monitor/incident-json.ts";
import { LATENCY, NS, orNull } from "./answers.ts";
import type { Parts, Route } from "./route.ts";

const closed = { additionalProperties: false };
const PATH_LATENCY = Type.Object({
  meanNs: Type.Number(),
  lowNs: orNull(Type.Number()),
  highNs: orNull(Type.Number()),
});
export const PATHS_ANSWER = Type.Object({
  paths: Type.Array(
    Type.Object({
      name: Type.String(),
      points: Type.Array(Type.String()),
      estimator: orNull(Type.String()),
      startNs: orNull(NS),
      endNs: orNull(NS),
      latency: orNull(PATH_LATENCY),
      segments: Type.Array(
        Type.Object({
          from: Type.String(),
          to: Type.String(),
          latency: orNull(PATH_LATENCY),
          share: orNull(Type.Number({ description: "of the path's delay" })),
          packets: orNull(Type.Number()),
          lost: orNull(Type.Number()),
          lossRate: orNull(Type.Number()),
        }),
      ),
      incidents: Type.Array(Type.String({ description: "ids of those that are open" })),
    }),
  ),
});

const INCIDENT = Type.Object({
  id: Type.String(),
  kind: Type.Union([Type.Literal("delay"), Type.Literal("loss"), Type.Literal("clock")]),
  clock: orNull(
    Type.Object(
      { points: Type.Array(Type.String()), stepNs: Type.Number() },
      { description: "a clock that was set: of which tap (two: either), by how much" },
    ),
  ),
  state: Type.Union([Type.Literal("open"), Type.Literal("closed")]),
  segment: orNull(Type.Object({ from: Type.String(), to: Type.String() })),
  paths: Type.Array(Type.String()),
  startNs: NS,
  endNs: NS,
  closedNs: orNull(NS),
  ended: orNull(Type.Union([Type.Literal("ordinary"), Type.Literal("new-normal")])),
  baseline: Type.Number({ description: "ns, or a share of packets lost" }),
  peak: Type.Number(),
  now: orNull(Type.Number()),
  loss: orNull(
    Type.Object({
      sent: Type.Number(),
      lost: Type.Number(),
      rate: Type.Number(),
      low: Type.Number(),
      high: Type.Number(),
    }),
  ),
  confidence: Type.Number(),
  share: orNull(Type.Number({ description: "of the path's rise" })),
  reason: orNull(Type.String()),
  candidates: Type.Array(Type.Object({ from: Type.String(), to: Type.String(), confidence: Type.Number() })),
  also: Type.Boolean({ description: "blamed for the other kind, too" }),
  flows: Type.Array(
    Type.Object({
      flow: Type.String(),
      packets: orNull(Type.Number()),
      lost: orNull(Type.Number()),
      latency: LATENCY,
      before: LATENCY,
    }),
  ),
  flowCount: Type.Optional(Type.Integer({ description: "affected flows; `flows` are the most affected" })),
});
const NEXT = orNull(Type.String({ description: "cursor of the next page" }));
export const INCIDENTS_ANSWER = Type.Object({ incidents: Type.Array(INCIDENT), next: NEXT });

const COUNTED = {
  expected: Type.Number(),
  arrived: Type.Number(),
  missing: Type.Number(),
  late: Type.Number({ description: "came after their epoch was given up" }),
  duplicate: Type.Number(),
  refused: Type.Number(),
};
export const COVERAGE_ANSWER = Type.Object({
  fromNs: NS,
  toNs: NS,
  points: Type.Array(
    Type.Object({
      ...{ point: Type.String(), label: Type.String(), estimator: Type.String() },
      ...COUNTED,
      bytes: Type.Number(),
      coverage: orNull(Type.Number({ description: "arrived / expected" })),
    }),
  ),
  segments: Type.Array(
    Type.Object({
      ...{ from: Type.String(), to: Type.String(), label: Type.String(), estimator: Type.String() },
      epochs: Type.Number(),
      answered: Type.Number(),
      missing: Type.Number(),
      missingFrom: Type.Number(),
      missingTo: Type.Number(),
      refused: Type.Number(),
      edges: Type.Number(),
      coverage: orNull(Type.Number({ description: "answered / epochs" })),
    }),
  ),
});

const ALERT = Type.Object({
  format: Type.Literal("hoptime.alert/1"),
  id: Type.String(),
  name: Type.String(),
  when: Type.String(),
  state: Type.Union([Type.Literal("active"), Type.Literal("ended")]),
  target: Type.String(),
  sinceNs: NS,
  beganNs: NS,
  endedNs: orNull(NS),
  worst: orNull(Type.Number()),
  summary: Type.String(),
  incident: orNull(INCIDENT),
});
export const ALERTS_ANSWER = Type.Object({
  rules: Type.Array(
    Type.Object({
      name: Type.String(),
      when: Type.String(),
      segment: orNull(Type.String()),
      to: Type.Array(Type.String()),
      active: Type.Number(),
    }),
  ),
  alerts: Type.Array(ALERT),
  notify: Type.Array(
    Type.Object({
      ...{ name: Type.String(), waiting: Type.Number() },
      ...{ sent: Type.Number(), failed: Type.Number(), dropped: Type.Number() },
    }),
  ),
  next: NEXT,
});

const TIME = Type.Optional(
  Type.String({ maxLength: 40, description: "ISO 8601, ns, or seconds with a point" }),
);
const HAPPENINGS = Type.Object(
  {
    state: Type.Optional(
      Type.Union([Type.Literal("open"), Type.Literal("closed")], {
        description: "open (active) or closed (ended) ones only",
      }),
    ),
    since: TIME,
    until: TIME,
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 1000, description: "how many at most (default 100)" }),
    ),
    cursor: Type.Optional(Type.String({ maxLength: 400, description: "`next` of the page before" })),
  },
  closed,
);
const HOUR_NS = 3_600_000_000_000n;
const PAGE = 100;

export function networkRoutes(parts: Parts): Route[] {
  const { service, network, alerts } = parts;
  return [
    {
      method: "GET",
      path: "/v1/paths",
      needs: "read",
      summary: "paths that are watched, and where their time goes",
      answer:
        "each with its segments in the last epoch that is complete, and its open incidents. Over time: POST /v1/localise",
      response: PATHS_ANSWER,
      handle: () => ({ json: { paths: network.describe() } }),
    },
    {
      method: "GET",
      path: "/v1/incidents",
      needs: "read",
      summary:
        "incidents: which segment, since when, from which value to which, with what confidence, which flows are affected",
      query: HAPPENINGS,
      answer: "the latest first; `next` is the cursor of the next page",
      response: INCIDENTS_ANSWER,
      handle: async ({ query }) => {
        const { list, next } = await happenings(service.results.incidents, query as Asked);
        // For open incidents, the monitor's state is newer than what was last written.
        const now = new Map(network.openJson().map((i) => [i.id, i]));
        return { json: { incidents: (list as IncidentJson[]).map((i) => now.get(i.id) ?? i), next } };
      },
    },
    {
      method: "GET",
      path: "/v1/coverage",
      needs: "read",
      summary:
        "records that were expected, arrived, arrived late or twice, or are missing: per point and per segment",
      query: Type.Object({ since: TIME, until: TIME }, closed),
      answer: "by point, label and estimator, and by segment and estimator; the last hour by default",
      response: COVERAGE_ANSWER,
      handle: async ({ query }) => {
        const { since, until } = query as { since?: string; until?: string };
        const toNs = until === undefined ? ((await service.results.newest()) ?? 0n) : parseTime(until);
        const fromNs = since === undefined ? toNs - HOUR_NS : parseTime(since);
        checkOrder(fromNs, toNs);
        return { json: await coverageOf(service.results, fromNs, toNs) };
      },
    },
    {
      method: "GET",
      path: "/v1/alerts",
      needs: "read",
      summary: "alerts: the rules, what is active, what was",
      query: HAPPENINGS,
      answer:
        "rules, alerts (the latest first; `next` is the cursor of the next page), and how the webhooks do",
      response: ALERTS_ANSWER,
      handle: async ({ query }) => {
        const { incidents, alerts: table } = service.results;
        const { list, next } = await happenings(table, query as Asked);
        const { active } = alerts;
        // Alerts contain the current state of their incident, with all of its flows, not the state when they were sent.
        const blamed = (list as Alert[]).filter((a) => (a.incident ?? null) !== null).map((a) => a.target);
        const found = (await incidents.findAll(blamed)).map((h) => JSON.parse(h.body) as IncidentJson);
        const now = new Map([...found, ...network.openJson()].map((i) => [i.id, i]));
        return {
          json: {
            rules: alerts.rules.map(({ name, when, segment, to }) => ({
              ...{ name, when, to: [...to], segment: segment ? `${segment.from}:${segment.to}` : null },
              active: active.filter((a) => a.name === name).length,
            })),
            alerts: (list as Alert[]).map((a) =>
              (a.incident ?? null) === null ? a : { ...a, incident: now.get(a.target) ?? a.incident },
            ),
            notify: alerts.webhooks.map(({ name, waiting, counts }) => ({ name, waiting, ...counts })),
            next,
          },
        };
      },
    },
  ];
}

type Asked = Static<typeof HAPPENINGS>;

async function happenings(
  table: Parts["service"]["results"]["incidents"],
  { state, since, until, limit = PAGE, cursor }: Asked,
): Promise<{ list: unknown[]; next: string | null }> {
  const fromNs = since === undefined ? undefined : parseTime(since);
  const toNs = until === undefined ? undefined : parseTime(until);
  if (fromNs !== undefined && toNs !== undefined) checkOrder(fromNs, toNs);
  const found = await table.list({
    ...{ fromNs, toNs, limit: limit + 1, open: state === undefined ? undefined : state === "open" },
    after: cursor === undefined ? undefined : placeOf(cursor),
  });
  const page = found.slice(0, limit);
  const last = page.at(-1);
  return {
    list: page.map((h) => JSON.parse(h.body) as unknown),
    next: found.length > limit && last ? `${last.startNs} ${last.id}` : null,
  };
}

/** Parses a cursor: start and id of the last item of the previous page. */
function placeOf(cursor: string): HappeningPlace {
  const [, start = "", id = ""] = /^(\d{1,19}) (.+)$/s.exec(cursor) ?? [];
  if (id === "") throw invalidValue("cursor", cursor, "`next` of the page before", { code: "bad-question" });
  return { startNs: BigInt(start), id };
}

function checkOrder(fromNs: bigint, toNs: bigint): void {
  if (fromNs > toNs)
    throw new UsageError("bad-question", "is not before the end of the time asked for", undefined, {
      parameter: "since",
    });
}
