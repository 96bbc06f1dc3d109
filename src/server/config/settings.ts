/**
 * All settings of `hoptime.yaml` in one schema. The file is checked against it, docs/config.md is generated from it, and the command line takes its
 * defaults from it. It adds three annotations to JSON Schema: `reads`: how a text is parsed (reading.ts); `reload`: false if a change needs a
 * restart; `example`: a value for the page. Past 400 lines because the schema is one list, read from top to bottom.
 */
import Type, { type Static, type TProperties, type TSchemaOptions } from "typebox";
import { TAP_PLAN } from "../tap-plan.ts";

/** Names of the parsers for text values (reading.ts). */
export type Reads =
  | "duration"
  | "size"
  | "segment"
  | "condition"
  | "file"
  | "url"
  | "listen"
  | "name"
  | "nats"
  | "probe"
  | "clickhouse"
  | "objects";

export interface Annotations extends TSchemaOptions {
  description: string;
  reads?: Reads;
  reload?: boolean;
  example?: unknown;
}

const closed = <P extends TProperties>(fields: P, more: Annotations) =>
  Type.Object(fields, { additionalProperties: false, ...more });
const text = (description: string, reads: Reads, more: Partial<Annotations> = {}) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: 1000, description, reads, ...more }));
const name = (description: string) => Type.String({ minLength: 1, maxLength: 64, description });
const time = (description: string, more: Partial<Annotations> = {}) => text(description, "duration", more);

const TLS = closed(
  {
    certificate: Type.String({ minLength: 1, description: "certificate chain, PEM", reads: "file" }),
    key: Type.String({ minLength: 1, description: "its private key, PEM", reads: "file" }),
    clientCa: text("only clients with a certificate of this authority, PEM", "file"),
  },
  {
    description:
      "HTTPS. The files are read again on SIGHUP: renewed certificates need no restart; switching TLS on or off does",
  },
);

const NATS = closed(
  {
    url: Type.String({
      minLength: 1,
      maxLength: 1000,
      reads: "nats",
      description: "`nats://HOST:4222[,HOST:4222]`, or `tls://`",
    }),
    group: Type.Optional(
      Type.String({
        pattern: "^[A-Za-z0-9_-]{1,32}$",
        description:
          "workers of one group share the records; every group gets all (letters, digits, - and _)",
        default: "collect",
      }),
    ),
    credentials: text("file: .creds, the seed of an nkey, or USER:PASSWORD", "file"),
    tokenFile: text("file with a token", "file"),
    ca: text("certificate authority of the servers, PEM", "file"),
    certificate: text("certificate of this worker, PEM", "file"),
    key: text("its private key, PEM", "file"),
    partitions: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1024,
        description: "number of partitions, at least as many as workers; set once, by the first worker",
        default: 16,
      }),
    ),
    replicas: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 5,
        description: "copies of each record, when the stream is created (default: 3 in a cluster, else 1)",
      }),
    ),
    lease: time("how long a silent worker keeps its partitions", { default: "10s" }),
  },
  {
    description: "take records from a NATS cluster, shared with other workers (docs/cluster.md)",
    reload: false,
    example: { url: "nats://n1:4222,n2:4222,n3:4222", group: "collect" },
  },
);

const KEEP = closed(
  {
    records: time("remove records of a point older than this, counted from its newest (default: keep all)"),
    size: text("remove the oldest records beyond this size, e.g. 10GB (default: keep all)", "size"),
    epochs: time("keep results of single epochs this long", { default: "7d" }),
    minutes: time("keep results of minutes this long", { default: "90d" }),
    hours: time("keep results of hours this long", { default: "1825d" }),
    epochsSize: text(
      "remove the oldest results of single epochs (delay, loss, flows) beyond this size. It is the size of the rows before the database compresses them: the file is smaller (default: no limit)",
      "size",
    ),
    minutesSize: text("the same for results of minutes", "size"),
    hoursSize: text("the same for results of hours", "size"),
    incidents: time("keep closed incidents this long", { default: "365d" }),
  },
  { description: "what is removed, and when" },
);

const LIMITS = closed(
  {
    requests: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: "requests per second of one token (or address)",
        default: 200,
      }),
    ),
    burst: Type.Optional(Type.Integer({ minimum: 1, description: "requests at once", default: 1000 })),
    bytes: text("bytes of records per second", "size", { default: "256MB" }),
    burstBytes: text("bytes of records at once", "size", { default: "1GB" }),
    questionTime: time("time limit of one question", { default: "30s", reload: false }),
  },
  { description: "how much of the collector's time one client gets" },
);

const PATH = closed(
  {
    name: Type.Optional(name("for answers and alerts (default: its points)")),
    points: Type.Optional(
      Type.Array(name("a point"), {
        minItems: 2,
        maxItems: 64,
        description: "points in path order; each neighbouring pair is a watched segment",
      }),
    ),
    from: Type.Optional(name("a router of the map: all equal-cost paths to `to`, cut at its m-routers")),
    to: Type.Optional(name("a router of the map")),
    estimator: Type.Optional(name("estimator to use (default: the first with answers)")),
  },
  {
    description: "a path: its points, or two routers of the map",
    example: { name: "web", points: ["A", "B", "C"] },
  },
);

const TOPOLOGY = closed(
  {
    map: Type.String({
      minLength: 1,
      description: "file with the network's map, in any format that hoptime plan reads",
      reads: "file",
    }),
    latencies: text("Rocketfuel: the latencies file that belongs to the weights", "file"),
  },
  { description: "the network's map, for paths between two of its routers and for the monitoring station" },
);

const STATION = closed(
  {
    listen: text("UDP HOST:PORT for measurement state packets", "listen", { default: "127.0.0.1:8788" }),
    key: text("file with a key of 16 bytes or more: packets must be authenticated by it", "file"),
    hold: time("how long to keep a silent m-router, and a segment that is no longer needed", {
      default: "3m",
    }),
    probes: Type.Optional(
      Type.Array(
        Type.String({
          minLength: 5,
          maxLength: 300,
          reads: "probe",
          description: "`A:B=ADDRESS` or `A:B=ADDRESS:PORT`",
        }),
        {
          maxItems: 100,
          description: "segments that this host probes with reference packets while they need probing",
        },
      ),
    ),
  },
  {
    description: "the monitoring station of the m-routers of `topology` (docs/collect.md)",
    reload: false,
    example: { listen: "127.0.0.1:8788" },
  },
);

const INCIDENTS = closed(
  {
    confidence: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0.5,
        exclusiveMaximum: 1,
        description: "blame a segment from this probability on",
        default: 0.99,
      }),
    ),
    minShare: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0,
        maximum: 1,
        description: "and if it contributes at least this share of the path's rise",
        default: 0.2,
      }),
    ),
    minRise: time("smaller rises of the mean delay are ignored", { default: "10us" }),
    window: Type.Optional(
      Type.Integer({
        minimum: 20,
        maximum: 5000,
        description: "epochs from which normal values are learned",
        default: 300,
      }),
    ),
    settle: Type.Optional(
      Type.Integer({
        minimum: 8,
        maximum: 5000,
        description: "epochs of a segment before it is judged",
        default: 60,
      }),
    ),
    openAfter: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 100,
        description: "epochs that a rise must last to be an incident",
        default: 3,
      }),
    ),
    closeAfter: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1000,
        description: "ordinary epochs that end an incident",
        default: 10,
      }),
    ),
  },
  { description: "when a rise of delay or loss on a path becomes an incident" },
);

const NOTIFY = closed(
  {
    name: name("alerts name it in `to`"),
    webhook: Type.String({
      minLength: 1,
      description:
        "URL that gets a POST with JSON (format hoptime.alert/1) when an alert begins and when it ends",
      reads: "url",
    }),
    tokenFile: text("file with a token for `authorization: Bearer`; never logged", "file"),
    timeout: time("of one attempt", { default: "5s" }),
    retries: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 20,
        description: "attempts after the first, 1, 2, 4 … s apart (at most a minute)",
        default: 5,
      }),
    ),
  },
  { description: "a receiver of alerts", example: { name: "ops", webhook: "https://ops.example/hook" } },
);

const ALERT = closed(
  {
    name: name("for answers, metrics and messages"),
    when: Type.String({
      minLength: 1,
      maxLength: 100,
      reads: "condition",
      description:
        "`mean > 20ms`, `stdev > 5ms`, `loss > 1%`, `coverage < 90%` (share of packets with an answer), `silent > 1m` (a point that sends nothing), or `incident`. Delay and loss count where their whole interval is beyond the limit",
    }),
    segment: Type.Optional(
      Type.String({
        minLength: 3,
        maxLength: 200,
        reads: "segment",
        description: "`A:B` or `A:B=LABEL` (default: every segment; `silent`: every point)",
      }),
    ),
    estimator: Type.Optional(name("estimator to use (default: the first with answers)")),
    for: time("begins after the condition has held this long", { default: "10s" }),
    clearAfter: time("ends after the condition has not held this long", { default: "30s" }),
    clear: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 30,
        description:
          "limit that the value must return to before the alert ends, e.g. `15ms` (default: the limit itself)",
      }),
    ),
    to: Type.Optional(
      Type.Array(name("an entry of `notify`"), {
        maxItems: 20,
        description: "receivers, in addition to the log and /metrics",
      }),
    ),
  },
  {
    description: "an alert",
    example: { name: "slow", when: "mean > 20ms", segment: "A:B", for: "30s", to: ["ops"] },
  },
);

const OTLP = closed(
  {
    url: Type.String({
      minLength: 1,
      reads: "url",
      description: "OTLP/HTTP endpoint of metrics, e.g. http://127.0.0.1:4318/v1/metrics (JSON encoding)",
    }),
    interval: time("how often", { default: "15s" }),
    timeout: time("of one push", { default: "10s" }),
    tokenFile: text("file with a token for `authorization: Bearer`; never logged", "file"),
    resource: Type.Optional(
      Type.Record(Type.String({ minLength: 1, maxLength: 64 }), Type.String({ maxLength: 200 }), {
        description: "attributes of the resource, in addition to service.name",
      }),
    ),
  },
  { description: "push the metrics of /metrics to an OpenTelemetry collector" },
);

const CLICKHOUSE = closed(
  {
    url: text(
      "`http://USER@HOST:8123/DATABASE`; `https://` for TLS. The database is created if it is missing",
      "clickhouse",
    ),
    passwordFile: text("file with the password (default: the variable HOPTIME_CLICKHOUSE_PASSWORD)", "file"),
    ca: text("with https: certificate authority, PEM (default: those of the system)", "file"),
    cluster: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 64,
        pattern: "^[A-Za-z_][A-Za-z0-9_-]*$",
        description:
          "name of a cluster in the server's configuration: tables are created on all its servers, rows are spread over its shards by segment",
      }),
    ),
    replicated: Type.Optional(
      Type.Boolean({
        description:
          "with a cluster: servers of a shard keep copies (set the macros {shard} and {replica} on them)",
        default: false,
      }),
    ),
  },
  {
    description: "keep results in ClickHouse instead of the collector's directory (docs/collect.md)",
    reload: false,
    example: { url: "http://hoptime@clickhouse:8123/hoptime" },
  },
);

const OBJECTS = closed(
  {
    url: text("`s3://BUCKET/PREFIX`; the bucket must exist", "objects"),
    endpoint: text(
      "address of the store, e.g. `http://minio:9000` (default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's)",
      "url",
    ),
    region: text("(default: AWS_REGION, AWS_DEFAULT_REGION, or us-east-1)", "name"),
  },
  {
    description:
      "copy records to an S3-compatible object store, and read from it what the directory no longer has (docs/collect.md). Credentials: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN",
    reload: false,
    example: { url: "s3://hoptime/records", endpoint: "http://minio:9000" },
  },
);

export const SETTINGS = closed(
  {
    data: text("directory of the collector, created if missing", "name", {
      reload: false,
      example: "/var/lib/hoptime",
    }),
    listen: text("HOST:PORT to listen on", "listen", { default: "127.0.0.1:8787", reload: false }),
    insecure: Type.Optional(
      Type.Boolean({
        description: "allow other hosts without TLS: records, answers and tokens can be read on the way",
        default: false,
        reload: false,
      }),
    ),
    tls: Type.Optional(TLS),
    clickhouse: Type.Optional(CLICKHOUSE),
    objects: Type.Optional(OBJECTS),
    log: Type.Optional(
      Type.Union([Type.Literal("text"), Type.Literal("json")], {
        description: "plain lines, or lines of JSON",
        default: "text",
        reload: false,
      }),
    ),
    lateness: time("how long an epoch waits for its other end", { default: "30s", reload: false }),
    segments: Type.Optional(
      Type.Array(
        Type.String({
          minLength: 3,
          maxLength: 200,
          reads: "segment",
          description: "`A:B`, or `A:B=LABEL` for records of a label",
        }),
        {
          maxItems: 10_000,
          description:
            "segments whose results are kept, in addition to those of paths, of the plan, and of records labelled A:B. A segment that is removed here is watched until the next start",
          example: ["A:B"],
        },
      ),
    ),
    plan: Type.Optional(
      Type.Object(TAP_PLAN.properties, {
        additionalProperties: false,
        description:
          "what the taps keep (docs/collect.md, The plan). It is set if it differs from the plan in force",
        example: { estimators: ["lda", "lds"], epoch: "1s" },
      }),
    ),
    nats: Type.Optional(NATS),
    topology: Type.Optional(TOPOLOGY),
    station: Type.Optional(STATION),
    paths: Type.Optional(
      Type.Array(PATH, {
        maxItems: 1000,
        description: "paths whose delay and loss are split by segment in every epoch",
      }),
    ),
    incidents: Type.Optional(INCIDENTS),
    notify: Type.Optional(Type.Array(NOTIFY, { maxItems: 20, description: "who receives alerts" })),
    alerts: Type.Optional(
      Type.Array(ALERT, {
        maxItems: 1000,
        description: "thresholds and incidents to alert on",
      }),
    ),
    otlp: Type.Optional(OTLP),
    keep: Type.Optional(KEEP),
    limits: Type.Optional(LIMITS),
  },
  { description: "settings of hoptime collect" },
);

export type Settings = Static<typeof SETTINGS>;
export type AlertSettings = Static<typeof ALERT>;
export type IncidentSettings = Static<typeof INCIDENTS>;

/** The schema as plain data. */
interface Annotated {
  description?: string;
  default?: unknown;
  reads?: Reads;
  reload?: boolean;
  type?: string;
  properties?: Record<string, Annotated>;
  items?: Annotated;
  anyOf?: Annotated[];
  patternProperties?: Record<string, Annotated>;
  const?: unknown;
}

export interface Setting {
  /** Field names from the root to this setting; `[]` stands for the entries of a list. */
  keys: string[];
  schema: Annotated;
}

/** Yields every setting in the order of the schema, outer ones first. */
export function* settingsOf(
  schema: Annotated = SETTINGS as unknown as Annotated,
  keys: string[] = [],
): Generator<Setting> {
  for (const [field, inner] of Object.entries(schema.properties ?? {})) {
    const at = [...keys, field];
    yield { keys: at, schema: inner };
    yield* settingsOf(inner, at);
    if (inner.items) {
      if (inner.items.type !== "object") continue;
      yield* settingsOf(inner.items, [...at, "[]"]);
    }
  }
}

/** Whether a change of this top-level setting takes effect without a restart. */
export function reloads(field: string): boolean {
  return (SETTINGS as unknown as Annotated).properties?.[field]?.reload !== false;
}
