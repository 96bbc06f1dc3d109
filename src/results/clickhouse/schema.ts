/**
 * The ClickHouse tables of the results, created and migrated at start. A migration is a list of statements that may run twice, so workers starting
 * together do no harm. The table `migrations` lists those that ran. A database of a newer hoptime is refused.
 *
 *   segments    one row per segment, estimator, step and start; `version` decides which of two rows with one key counts (row-writer.ts), `gone` marks a
 *               removed one
 *   flows       the flows of such a row as arrays: one row, so they are replaced together
 *   spans       the hours in which a segment and estimator has rows, filled by a materialised view: the list of segments is read from it
 *   dirty       minutes and hours to roll up again; each mark is a row, cleared by `gone`
 *   incidents, alerts, arrivals
 *
 * In the sort order, `hour` (since 1970) follows the step, so the index finds a time range for one segment and for all. In a cluster, each table is a
 * `_local` table on every server plus a Distributed table over them, sharded by segment: one shard answers the questions about a segment.
 */
import { UsageError } from "../../base/errors.ts";
import { COUNTS } from "../arrivals-table.ts";
import type { Step } from "../rows.ts";
import { FLOW_COLUMNS, SEGMENT_COLUMNS } from "../tables.ts";
import { notClickhouse } from "./failures.ts";
import type { ClickhouseHttp } from "./http.ts";

export interface Cluster {
  name: string;
  /** Replicates tables between the servers of a shard; requires the macros {shard} and {replica} on the servers. */
  replicated: boolean;
}

export interface SchemaOptions {
  cluster: Cluster | null;
  /** TTL of the rows of each step, counted from their write, s. Applied by the server itself; servers before 20.3 have no such TTL. */
  keepS: Record<Step, number> | null;
  /** Read-only: nothing is created or changed. */
  onlyRead?: boolean;
}

/** Year and release as one number: 18.16 is 1816. */
type ServerVersion = number;
const OLDEST: ServerVersion = 1816;
const HAS_TTL: ServerVersion = 2003;
const HAS_FSYNC: ServerVersion = 2010;
const HAS_PARTITION_LIMIT: ServerVersion = 1901;

const NAMES = "from_point, to_point, label, estimator";
const TYPES = {
  text: "String",
  bigint: "Int64",
  integer: "Int32",
  double: "Nullable(Float64)",
  bytes: "String",
};
const columnsOf = (list: typeof SEGMENT_COLUMNS) =>
  list.map(([name, , type]) => `${name} ${name === "reason" ? "Nullable(String)" : TYPES[type]}`);
const KEY_COLUMNS = columnsOf(FLOW_COLUMNS).slice(0, 7);
const ARRAY_COLUMNS = columnsOf(FLOW_COLUMNS).slice(7);
const BY_TIME =
  "(step_s, multiIf(step_s = 0, intDiv(hour, 24), step_s = 60, intDiv(hour, 720), intDiv(hour, 8760)))";
/** Length of a partition in hours, by step. */
export const PARTITION_HOURS: Record<Step, number> = { 0: 24, 60: 720, 3600: 8760 };

interface TableShape {
  name: string;
  columns: readonly string[];
  /** Column that decides between rows with the same key. Without it, or if it is equal, the row written last counts. */
  version?: string;
  order: string;
  partition: string;
  shard: string;
  kept?: boolean;
}

const TABLES: readonly TableShape[] = [
  {
    ...{ name: "segments", version: "version", kept: true, shard: NAMES },
    columns: [
      ...columnsOf(SEGMENT_COLUMNS),
      "hour Int32",
      "version UInt64",
      "gone UInt8",
      "written DateTime DEFAULT now()",
    ],
    ...{ order: `step_s, hour, ${NAMES}, start_ns`, partition: BY_TIME },
  },
  {
    ...{ name: "flows", version: "version", kept: true, shard: NAMES },
    columns: [
      ...KEY_COLUMNS,
      ...ARRAY_COLUMNS.map((c) => c.replace(/ (.*)$/, " Array($1)")),
      ...["hour Int32", "version UInt64", "written DateTime DEFAULT now()"],
    ],
    ...{ order: `step_s, hour, ${NAMES}, start_ns`, partition: BY_TIME },
  },
  {
    ...{ name: "spans", kept: true, shard: NAMES },
    columns: [...KEY_COLUMNS.slice(0, 5), "hour Int32", "written DateTime DEFAULT now()"],
    ...{ order: `${NAMES}, step_s, hour`, partition: BY_TIME },
  },
  {
    ...{ name: "dirty", version: "gone", shard: NAMES },
    columns: [...KEY_COLUMNS.slice(0, 6), "mark UInt64", "gone UInt8", "written DateTime DEFAULT now()"],
    ...{ order: `step_s, start_ns, ${NAMES}, mark`, partition: "step_s" },
  },
  ...["incidents", "alerts"].map((name) => ({
    ...{ name, order: "id", partition: "tuple()", shard: "id" },
    columns: ["id String", "opened_ns Int64", "closed_ns Nullable(Int64)", "body String"],
  })),
  {
    ...{ name: "arrivals", version: "seq", shard: "point" },
    columns: [
      ...[
        "point String",
        "label String",
        "estimator String",
        "minute_ns Int64",
        "writer String",
        "seq UInt64",
      ],
      ...COUNTS.map((c) => `${c} Float64`),
    ],
    ...{
      order: "minute_ns, point, label, estimator, writer",
      partition: "intDiv(minute_ns, 2592000000000000)",
    },
  },
];

/** The oldest schema in use; 1 was never released. */
const FIRST_SCHEMA = 2;

/** The view that fills `spans`. */
const SPANS_VIEW = "spans_of_segments";

/** Statements of each schema version, from FIRST_SCHEMA on. */
const MIGRATIONS: readonly ((place: Place) => string[])[] = [
  (place) => [
    ...TABLES.flatMap((table) => place.create(table)),
    `CREATE MATERIALIZED VIEW IF NOT EXISTS ${place.local(SPANS_VIEW)}${place.everywhere} TO ${place.local("spans")} AS SELECT ${NAMES}, step_s, hour, max(written) AS written FROM ${place.local("segments")} GROUP BY ${NAMES}, step_s, hour`,
  ],
];

const NEWEST_SCHEMA = FIRST_SCHEMA + MIGRATIONS.length - 1;

/** Where the tables are: on one server, or on all servers of a cluster. */
export class Place {
  readonly #database: string;
  readonly #cluster: Cluster | null;
  readonly #version: ServerVersion;

  constructor(database: string, cluster: Cluster | null, version: ServerVersion) {
    this.#database = database;
    this.#cluster = cluster;
    this.#version = version;
  }

  get everywhere(): string {
    return this.#cluster ? ` ON CLUSTER ${quoted(this.#cluster.name)}` : "";
  }

  /** Everything the schema has on every server. */
  get names(): string[] {
    const tables = TABLES.map(({ name }) => name);
    if (!this.#cluster) return [...tables, SPANS_VIEW];
    return [...tables, ...[...tables, SPANS_VIEW].map((name) => `${name}_local`)];
  }

  /** The table that physically holds the rows. */
  local(name: string): string {
    return `${quoted(this.#database)}.${this.#cluster ? `${name}_local` : name}`;
  }

  /** The parts of a table on every shard. */
  parts(table: string): string {
    const from = this.#cluster ? `cluster(${this.#cluster.name}, system, parts)` : "system.parts";
    const own = this.#cluster ? `${table}_local` : table;
    return `FROM ${from} WHERE active AND database = '${this.#database}' AND table = '${own}'`;
  }

  create(shape: TableShape): string[] {
    const { name, columns, order, partition, shard } = shape;
    const durable =
      this.#version >= HAS_FSYNC ? " SETTINGS fsync_after_insert = 1, fsync_part_directory = 1" : "";
    const made = [
      `CREATE TABLE IF NOT EXISTS ${this.local(name)}${this.everywhere} (${columns.join(", ")}) ENGINE = ${this.#engine(shape)} PARTITION BY ${partition} ORDER BY (${order})${durable}`,
    ];
    if (this.#cluster)
      made.push(
        `CREATE TABLE IF NOT EXISTS ${quoted(this.#database)}.${name}${this.everywhere} AS ${this.local(name)} ENGINE = Distributed(${quoted(this.#cluster.name)}, ${quoted(this.#database)}, ${name}_local, cityHash64(${shard}))`,
      );
    return made;
  }

  #engine({ name, version }: TableShape): string {
    const own = version === undefined ? [] : [version];
    if (!this.#cluster?.replicated) return `ReplacingMergeTree(${own.join(", ")})`;
    const path = `'/clickhouse/tables/{shard}/${this.#database}/${name}'`;
    return `ReplicatedReplacingMergeTree(${[path, "'{replica}'", ...own].join(", ")})`;
  }
}

/** Creates or migrates the database and its tables. Throws UsageError if the server is too old, the database too new, or permissions are missing. */
export async function prepareSchema(
  http: ClickhouseHttp,
  { cluster, keepS, onlyRead = false }: SchemaOptions,
): Promise<Place> {
  const { database } = http.address;
  const version = await serverVersion(http);
  const place = new Place(database, cluster, version);
  if (onlyRead) {
    await checkPresent(http);
    return place;
  }
  if (cluster) http.set({ insert_distributed_sync: 1, distributed_product_mode: "local" });
  // Replicated tables deduplicate identical inserts, but a row written again after another one must count again.
  if (cluster?.replicated) http.set({ insert_deduplicate: 0 });
  if (version >= HAS_PARTITION_LIMIT) http.set({ max_partitions_per_insert_block: 0 });
  // Creating anything requires all servers of the cluster; if everything exists, one may be down.
  if (!(await hasAll(http, place))) await makeAll(http, place);
  if (keepS && version >= HAS_TTL) await expire(http, place, keepS);
  return place;
}

/** Creates what is missing, including what was dropped; those tables are then empty. */
async function makeAll(http: ClickhouseHttp, place: Place): Promise<void> {
  const { database } = http.address;
  await http.run(`CREATE DATABASE IF NOT EXISTS ${quoted(database)}${place.everywhere}`, [], null);
  await http.run(
    `CREATE TABLE IF NOT EXISTS migrations${place.everywhere} (version Int32, hoptime String, made DateTime DEFAULT now()) ENGINE = MergeTree PARTITION BY tuple() ORDER BY version`,
  );
  const [row] = await http.all("SELECT max(version) FROM migrations");
  const current = Number(row?.[0] ?? 0);
  checkSchema(database, current);
  for (const [i, statements] of MIGRATIONS.entries()) {
    const schema = FIRST_SCHEMA + i;
    for (const statement of statements(place)) await http.run(statement);
    if (schema <= current) continue;
    await http.run("INSERT INTO migrations (version, hoptime) VALUES ($1, $2)", [schema, `schema ${schema}`]);
  }
}

/** Whether everything of the newest schema exists. */
async function hasAll(http: ClickhouseHttp, place: Place): Promise<boolean> {
  const names = ["migrations", ...place.names];
  const list = names.map((name) => `'${name}'`).join(", ");
  const [row] = await http.onServer(
    `SELECT count() FROM system.tables WHERE database = '${http.address.database}' AND name IN (${list})`,
  );
  if (Number(row?.[0] ?? 0) < names.length) return false;
  const [newest] = await http.all("SELECT max(version) FROM migrations");
  return Number(newest?.[0] ?? 0) === NEWEST_SCHEMA;
}

async function checkPresent(http: ClickhouseHttp): Promise<void> {
  const { database, origin } = http.address;
  const [row] = await http.onServer(
    `SELECT count() FROM system.tables WHERE database = '${database}' AND name = 'migrations'`,
  );
  if (Number(row?.[0] ?? 0) === 0)
    throw new UsageError(
      "no-such-file",
      `ClickHouse at ${origin} has no results of hoptime in database '${database}'`,
      "give the address and the database that the collectors have",
    );
  const [newest] = await http.all("SELECT max(version) FROM migrations");
  checkSchema(database, Number(newest?.[0] ?? 0));
}

function checkSchema(database: string, current: number): void {
  const wrong = (what: string, hint: string) =>
    new UsageError("mismatch", `ClickHouse database '${database}' is of ${what}`, hint);
  if (current > NEWEST_SCHEMA)
    throw wrong(
      `a newer hoptime (schema ${current}; this one reads up to ${NEWEST_SCHEMA})`,
      "use that hoptime, or another database",
    );
  if (current > 0 && current < FIRST_SCHEMA)
    throw wrong(
      `a hoptime before its first release (schema ${current})`,
      "remove the database, or use another",
    );
}

/**
 * Sets the TTL, so that rows expire even if no collector runs to remove them. Counted from the write: the epochs of replayed captures are long ago.
 */
async function expire(http: ClickhouseHttp, place: Place, keepS: Record<Step, number>): Promise<void> {
  const [whole, ...kept] = [keepS[3600], keepS[0], keepS[60]].map((s) => Math.min(Math.ceil(s), 3e9));
  const age = `multiIf(step_s = 0, ${kept[0]}, step_s = 60, ${kept[1]}, ${whole})`;
  http.set({ materialize_ttl_after_modify: 0 });
  for (const { name, kept: isKept } of TABLES)
    if (isKept)
      await http.run(
        `ALTER TABLE ${place.local(name)}${place.everywhere} MODIFY TTL written + toIntervalSecond(${age})`,
      );
}

async function serverVersion(http: ClickhouseHttp): Promise<ServerVersion> {
  const [row] = await http.onServer("SELECT version()");
  const text = String(row?.[0]);
  const match = /^(\d+)\.(\d+)/.exec(text);
  if (!match) throw notClickhouse(http.address, `version '${text.slice(0, 40)}'`);
  const version = 100 * Number(match[1]) + Number(match[2]);
  if (version < OLDEST)
    throw new UsageError(
      "not-supported",
      `ClickHouse at ${http.address.origin} is version ${text}: 18.16 or newer is needed`,
    );
  return version;
}

function quoted(name: string): string {
  return `\`${name.replaceAll("\\", "\\\\").replaceAll("`", "\\`")}\``;
}
