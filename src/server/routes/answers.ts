/** Response schemas of the routes about rows and records. */
import Type from "typebox";
import { TAP_PLAN } from "../tap-plan.ts";

export const NS = Type.String({ description: "ns since 1970" });
export const orNull = <S extends Parameters<typeof Type.Union>[0][number]>(schema: S) =>
  Type.Union([schema, Type.Null()]);
const text = Type.String();
const count = Type.Number();
const countOrNull = orNull(Type.Number());

export const LATENCY = orNull(
  Type.Object({
    meanNs: Type.Number(),
    lowNs: Type.Number(),
    highNs: Type.Number(),
    stdevNs: orNull(Type.Number()),
  }),
);

const REASON = orNull(Type.String({ description: "why there is no delay" }));
const ANSWERED = orNull(Type.Number({ description: "share of the packets that have an answer" }));

const SERIES_POINT = Type.Object({
  startNs: NS,
  endNs: NS,
  latency: LATENCY,
  reason: REASON,
  answered: ANSWERED,
  sent: countOrNull,
  received: countOrNull,
  lost: orNull(Type.Number({ description: "beyond what may be in flight at the cuts" })),
  lostLow: countOrNull,
  lostHigh: countOrNull,
  lossRate: orNull(Type.Number({ description: "lost / sent" })),
  dropped: orNull(Type.Number({ description: "by the captures" })),
  clockNs: orNull(Type.Number({ description: "maximum error of the clocks of both ends" })),
  epochs: count,
  missing: count,
  refused: count,
  edges: count,
});

const SEGMENT = { from: text, to: text, label: text };
const SELECTED = { ...SEGMENT, estimator: text, fromNs: NS, toNs: NS };

export const SEGMENTS_ANSWER = Type.Object({
  segments: Type.Array(
    Type.Object({
      ...SEGMENT,
      estimators: Type.Array(text),
      packets: Type.Boolean({ description: "one of them answers about packets" }),
      firstNs: orNull(NS),
      lastNs: orNull(NS),
    }),
  ),
});

export const LATENCY_ANSWER = Type.Object({
  ...SEGMENT,
  estimator: text,
  stepNs: text,
  points: Type.Array(SERIES_POINT),
  next: orNull(Type.String({ description: "cursor of the next page" })),
});

const SUMMARY = {
  packets: countOrNull,
  bytes: countOrNull,
  lost: countOrNull,
  lostLow: Type.Number({ description: "at least this many: of the epochs whose loss is known" }),
  latency: LATENCY,
  reason: REASON,
  answered: ANSWERED,
};
export const FLOW = Type.Object({ flow: text, ...SUMMARY, epochs: count });

export const FLOWS_ANSWER = Type.Union([
  Type.Object({ ...SELECTED, flows: Type.Array(FLOW) }),
  Type.Object({
    ...SELECTED,
    group: text,
    kept: orNull(Type.Number({ description: "share of the segment's packets that the rows' flows are" })),
    groups: Type.Array(Type.Object({ group: text, flows: count, ...SUMMARY })),
  }),
]);

export const FLOW_ANSWER = Type.Object({
  ...SELECTED,
  total: FLOW,
  points: Type.Array(Type.Object({ startNs: NS, ...SUMMARY, epochs: count })),
  next: orNull(Type.String({ description: "cursor of the next page" })),
});

export const FLOW_SEGMENTS_ANSWER = Type.Object({
  flow: text,
  segments: Type.Array(Type.Object({ ...SEGMENT, estimator: text, total: FLOW })),
});

const steps = Type.Array(orNull(Type.Number()));
export const OVERVIEW_ANSWER = Type.Object({
  fromNs: NS,
  toNs: NS,
  stepNs: text,
  segments: Type.Array(
    Type.Object({
      ...SEGMENT,
      estimator: text,
      estimators: Type.Array(text),
      lastNs: NS,
      latest: orNull(SERIES_POINT),
      normal: orNull(Type.Object({}, { description: "what is ordinary at this time" })),
      sent: countOrNull,
      lost: countOrNull,
      epochs: count,
      missing: count,
      refused: count,
      meanNs: steps,
      lowNs: steps,
      highNs: steps,
      lossRate: steps,
    }),
  ),
});

const OUTCOME = Type.Union(
  (["stored", "unchanged", "replaced", "merged", "refused"] as const).map((o) => Type.Literal(o)),
);
export const RECORDS_ANSWER = Type.Object({
  results: Type.Array(Type.Object({ outcome: OUTCOME, reason: Type.Optional(text) })),
  cut: Type.Optional(Type.String({ description: "why the message ends within a record" })),
});

const TAP = Type.Object({
  heardMs: Type.Number({ description: "when its last message came, ms since 1970" }),
  lastEndNs: NS,
  program: text,
  records: count,
  packets: count,
  packetsPerSecond: orNull(Type.Number({ description: "in its newest epochs" })),
  dropped: countOrNull,
  clock: orNull(
    Type.Object(
      {
        synchronised: Type.Boolean(),
        discipline: orNull(Type.Union([Type.Literal("ntp"), Type.Literal("ptp")])),
        estimatedErrorNs: count,
        maximumErrorNs: count,
      },
      { description: "of its newest live epoch" },
    ),
  ),
  cpuShare: orNull(Type.Number({ description: "of one processor, in its newest live epoch" })),
  queue: orNull(
    Type.Number({ description: "records that waited in it when its newest live epoch was sealed" }),
  ),
  spool: orNull(
    Type.Object(
      { hoptime: text, waiting: count, waitingBytes: count, dropped: count, refused: count },
      { description: "its own report: what waits in its spool, what it gave up" },
    ),
  ),
});
export const POINTS_ANSWER = Type.Object({
  points: Type.Array(Type.Object({ name: text, tap: orNull(TAP) })),
});

export const PLAN_ANSWER = Type.Object({
  format: Type.Literal("hoptime.tap-plan/1"),
  version: count,
  plan: orNull(TAP_PLAN),
  next: orNull(Type.Object({ version: count, plan: TAP_PLAN, fromNs: NS })),
});

export const HEALTH_ANSWER = Type.Object({
  status: Type.Union([Type.Literal("ok"), Type.Literal("trouble")]),
  trouble: orNull(Type.String({ description: "why results cannot be written" })),
  hoptime: text,
  upSeconds: count,
  records: Type.Record(text, count),
  pairing: Type.Record(text, count),
  memory: Type.Object({
    rss: count,
    heapUsed: count,
    external: count,
    arrayBuffers: count,
    results: orNull(Type.Integer({ description: "of the results' database, where it is embedded" })),
  }),
  taps: Type.Record(text, TAP),
  problems: Type.Array(text),
});
