/** Things that begin and end (incidents, alerts), kept beside the rows: each under its id, with its times and the rest as JSON. Written again it replaces the one before. */
import type { Value } from "./duckdb.ts";

export interface Happening {
  id: string;
  startNs: bigint;
  /** Null: it goes on. */
  closedNs: bigint | null;
  /** JSON. */
  body: string;
}

export interface HappeningSelection {
  /** Those that went on at some time from here on, and before there. */
  fromNs?: bigint | undefined;
  toNs?: bigint | undefined;
  open?: boolean | undefined;
  limit: number;
  /** Only those that began before this one, in the order of the answer. */
  before?: bigint | undefined;
}

/** How a table of the results is reached: one statement after the other. */
export interface Statements {
  run(sql: string, values?: readonly Value[]): Promise<void>;
  all(sql: string, values?: readonly Value[]): Promise<Value[][]>;
}

export class HappeningTable {
  readonly #table: "incidents" | "alerts";
  readonly #db: Statements;

  constructor(table: "incidents" | "alerts", db: Statements) {
    this.#table = table;
    this.#db = db;
  }

  async write({ id, startNs, closedNs, body }: Happening): Promise<void> {
    await this.#db.run(`DELETE FROM ${this.#table} WHERE id = $1`, [id]);
    await this.#db.run(`INSERT INTO ${this.#table} VALUES ($1, $2, $3, $4)`, [id, startNs, closedNs, body]);
  }

  /** The latest first. */
  async list({ fromNs, toNs, open, before, limit }: HappeningSelection): Promise<Happening[]> {
    const where: string[] = [];
    const values: Value[] = [];
    const add = (text: (n: string) => string, value: Value) => {
      values.push(value);
      where.push(text(`$${values.length}`));
    };
    if (fromNs !== undefined) add((n) => `(closed_ns IS NULL OR closed_ns >= ${n})`, fromNs);
    if (toNs !== undefined) add((n) => `opened_ns < ${n}`, toNs);
    if (before !== undefined) add((n) => `opened_ns < ${n}`, before);
    if (open !== undefined) where.push(`closed_ns IS ${open ? "" : "NOT "}NULL`);
    values.push(limit);
    const rows = await this.#db.all(
      `SELECT id, opened_ns, closed_ns, body FROM ${this.#table} ${where.length > 0 ? `WHERE ${where.join(" AND ")}` : ""} ORDER BY opened_ns DESC, id LIMIT $${values.length}`,
      values,
    );
    return rows.map(read);
  }

  async find(id: string): Promise<Happening | null> {
    const [row] = await this.#db.all(
      `SELECT id, opened_ns, closed_ns, body FROM ${this.#table} WHERE id = $1`,
      [id],
    );
    return row ? read(row) : null;
  }

  /** Removes those that closed before. */
  async retain(beforeNs: bigint): Promise<void> {
    await this.#db.run(`DELETE FROM ${this.#table} WHERE closed_ns < $1`, [beforeNs]);
  }
}

function read([id, opened, closed, body]: Value[]): Happening {
  return {
    id: String(id),
    startNs: BigInt(opened as bigint),
    closedNs: closed === null || closed === undefined ? null : BigInt(closed as bigint),
    body: String(body),
  };
}
