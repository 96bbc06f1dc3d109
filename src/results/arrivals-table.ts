/**
 * Counts the records that arrived from each point, per minute of epoch time: records, late ones, duplicates, refused ones. Counts are kept in
 * memory and written every few seconds. A kill loses the counts since the last write, never records.
 */
import type { ColumnType, Questions } from "./dialect.ts";
import type { Database } from "./duckdb.ts";
import type { Statements } from "./happenings.ts";

export interface ArrivalCounts {
  records: number;
  bytes: number;
  /** Arrived after their epoch was closed. */
  late: number;
  /** Already stored. */
  duplicate: number;
  /** Replaced, or were merged with, another record of their epoch. */
  changed: number;
  refused: number;
}

export interface PointArrivals extends ArrivalCounts {
  point: string;
  label: string;
  estimator: string;
}

export const NO_ARRIVALS: ArrivalCounts = {
  records: 0,
  bytes: 0,
  late: 0,
  duplicate: 0,
  changed: 0,
  refused: 0,
};
export const COUNTS = Object.keys(NO_ARRIVALS) as (keyof ArrivalCounts)[];
const KEY = "point, label, estimator, minute_ns";
const TOTALS = COUNTS.map((c) => `sum(${c})`).join(", ");
const SUMS = COUNTS.map((c) => `sum(${c}) AS ${c}`).join(", ");
export const ARRIVALS_TABLE = `CREATE TABLE IF NOT EXISTS arrivals (point VARCHAR, label VARCHAR, estimator VARCHAR, minute_ns BIGINT, ${COUNTS.map((c) => `${c} DOUBLE`).join(", ")})`;
const MINUTE_NS = 60_000_000_000n;
const POINT_KEY = "point, label, estimator";
/** Most separate keys between two writes, whatever names arrive. */
const MAX_PENDING = 100_000;

export interface MinuteArrivals {
  key: [point: string, label: string, estimator: string, minuteNs: bigint];
  counts: ArrivalCounts;
}

export abstract class ArrivalsTable {
  readonly #db: Questions;
  #pending = new Map<string, MinuteArrivals>();

  constructor(db: Questions) {
    this.#db = db;
  }

  /** Adds to the stored counts. */
  protected abstract add(arrivals: readonly MinuteArrivals[]): Promise<void>;

  /** Merges several rows of a minute into one, and removes those before a time. */
  abstract tidy(beforeNs: bigint): Promise<void>;

  count(
    {
      point,
      segment,
      estimator,
      epoch,
    }: { point: string; segment: string; estimator: string; epoch: { startNs: bigint } },
    more: Partial<ArrivalCounts>,
  ): void {
    this.#count([point, segment, estimator, epoch.startNs - (epoch.startNs % MINUTE_NS)], more);
  }

  #count(key: MinuteArrivals["key"], more: Partial<ArrivalCounts>): void {
    const name = key.join("\n");
    let known = this.#pending.get(name);
    if (!known) {
      if (this.#pending.size >= MAX_PENDING) return;
      known = { key, counts: { ...NO_ARRIVALS } };
      this.#pending.set(name, known);
    }
    for (const count of COUNTS) known.counts[count] += more[count] ?? 0;
  }

  /** Writes the pending counts. If that fails, they stay pending. */
  async flush(): Promise<void> {
    const pending = [...this.#pending.values()];
    this.#pending = new Map();
    try {
      await this.add(pending);
    } catch (error) {
      for (const { key, counts } of pending) this.#count(key, counts);
      throw error;
    }
  }

  /** Sums the minutes that begin in a time range. */
  async totals(fromNs: bigint, toNs: bigint): Promise<PointArrivals[]> {
    await this.flush();
    const rows = await this.#db.all(
      `SELECT ${POINT_KEY}, ${TOTALS} ${this.#db.dialect.from("arrivals")} AND minute_ns >= $1 AND minute_ns < $2 GROUP BY ${POINT_KEY} ORDER BY ${POINT_KEY}`,
      [fromNs - (fromNs % MINUTE_NS), toNs],
    );
    return rows.map(([point, label, estimator, ...counts]) => ({
      ...{ point: String(point), label: String(label), estimator: String(estimator) },
      ...(Object.fromEntries(COUNTS.map((c, i) => [c, Number(counts[i])])) as unknown as ArrivalCounts),
    }));
  }
}

export class DuckdbArrivals extends ArrivalsTable {
  readonly #statements: Statements & Pick<Database, "append">;

  constructor(statements: Statements & Pick<Database, "append">) {
    super(statements);
    this.#statements = statements;
  }

  protected async add(arrivals: readonly MinuteArrivals[]): Promise<void> {
    if (arrivals.length === 0) return;
    const rows = arrivals.map(({ key, counts }) => [...key, ...COUNTS.map((c) => counts[c])]);
    const types: ColumnType[] = ["text", "text", "text", "bigint", ...COUNTS.map(() => "double" as const)];
    await this.#statements.append("arrivals", rows, types);
  }

  async tidy(beforeNs: bigint): Promise<void> {
    await this.#statements.run(
      `CREATE OR REPLACE TABLE arrivals AS SELECT ${KEY}, ${SUMS} FROM arrivals WHERE minute_ns >= ${beforeNs} GROUP BY ${KEY}`,
    );
  }
}
