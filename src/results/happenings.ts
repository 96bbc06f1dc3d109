/**
 * Events with a start and an end (incidents, alerts), stored beside the rows: id, times and a JSON body. Writing one again replaces the earlier
 * version.
 */
import type { Questions, Value } from "./dialect.ts";

export interface Happening {
  id: string;
  startNs: bigint;
  /** Null while it lasts. */
  closedNs: bigint | null;
  /** JSON. */
  body: string;
}

export interface HappeningSelection {
  /** Those that overlap this time range. */
  fromNs?: bigint | undefined;
  toNs?: bigint | undefined;
  open?: boolean | undefined;
  limit: number;
  /** Only those after this one, in the order of the answer. */
  after?: HappeningPlace | undefined;
}

/** Position in the order of answers. Several may start at the same time, so it includes the id. */
export type HappeningPlace = Pick<Happening, "startNs" | "id">;

/** Runs statements on a results table, one at a time. */
export interface Statements extends Questions {
  run(sql: string, values?: readonly Value[]): Promise<void>;
  /** Runs all statements or none, with no other statement in between. */
  runAll(statements: readonly (readonly [sql: string, values: readonly Value[]])[]): Promise<void>;
}

export type HappeningKind = "incidents" | "alerts";

export abstract class HappeningTable {
  readonly #table: HappeningKind;
  readonly #db: Questions;

  constructor(table: HappeningKind, db: Questions) {
    this.#table = table;
    this.#db = db;
  }

  abstract write(happening: Happening): Promise<void>;

  /** Removes those that closed before a time. */
  abstract retain(beforeNs: bigint): Promise<void>;

  /** Lists them, newest first. */
  async list({ fromNs, toNs, open, after, limit }: HappeningSelection): Promise<Happening[]> {
    const where: string[] = [];
    const values: Value[] = [];
    const add = (text: (n: string) => string, value: Value) => {
      values.push(value);
      where.push(text(`$${values.length}`));
    };
    if (fromNs !== undefined) add((n) => `(closed_ns IS NULL OR closed_ns >= ${n})`, fromNs);
    if (toNs !== undefined) add((n) => `opened_ns < ${n}`, toNs);
    if (after !== undefined) {
      add((n) => `opened_ns <= ${n}`, after.startNs);
      values.push(after.startNs, after.id);
      where.push(`(opened_ns < $${values.length - 1} OR id > $${values.length})`);
    }
    if (open !== undefined) where.push(`closed_ns IS ${open ? "" : "NOT "}NULL`);
    values.push(limit);
    const rows = await this.#db.all(
      `SELECT id, opened_ns, closed_ns, body ${this.#db.dialect.from(this.#table)} ${where.map((w) => `AND ${w} `).join("")}ORDER BY opened_ns DESC, id LIMIT $${values.length}`,
      values,
    );
    return rows.map(read);
  }

  async find(id: string): Promise<Happening | null> {
    const [found = null] = await this.findAll([id]);
    return found;
  }

  /** Those of these that are there, in no order. */
  async findAll(ids: readonly string[]): Promise<Happening[]> {
    if (ids.length === 0) return [];
    const list = ids.map((_, i) => `$${i + 1}`).join(", ");
    const rows = await this.#db.all(
      `SELECT id, opened_ns, closed_ns, body ${this.#db.dialect.from(this.#table)} AND id IN (${list})`,
      ids,
    );
    return rows.map(read);
  }
}

export class DuckdbHappenings extends HappeningTable {
  readonly #name: HappeningKind;
  readonly #statements: Statements;

  constructor(name: HappeningKind, statements: Statements) {
    super(name, statements);
    this.#name = name;
    this.#statements = statements;
  }

  async write({ id, startNs, closedNs, body }: Happening): Promise<void> {
    await this.#statements.runAll([
      [`DELETE FROM ${this.#name} WHERE id = $1`, [id]],
      [`INSERT INTO ${this.#name} VALUES ($1, $2, $3, $4)`, [id, startNs, closedNs, body]],
    ]);
  }

  async retain(beforeNs: bigint): Promise<void> {
    await this.#statements.run(`DELETE FROM ${this.#name} WHERE closed_ns < $1`, [beforeNs]);
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
