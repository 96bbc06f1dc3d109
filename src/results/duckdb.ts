/** The embedded database, loaded only when a collector starts: 68 MB of native code that nothing else needs. */
import type { DuckDBConnection, DuckDBInstance, DuckDBValue } from "@duckdb/node-api";
import { UsageError } from "../base/errors.ts";
import type { ColumnType, ReadRows, Value } from "./dialect.ts";

export interface Database {
  run(sql: string, values?: readonly Value[]): Promise<void>;
  /** Returns rows as arrays, in column order. Uses a connection of its own, which does not wait for writes and sees committed rows only. */
  all: ReadRows;
  /** Appends rows to a table; faster than statements. */
  append(table: string, rows: readonly (readonly Value[])[], types: readonly ColumnType[]): Promise<void>;
  /** Runs `work` in a transaction. */
  transaction<T>(work: () => Promise<T>): Promise<T>;
  close(): void;
}

export class DatabaseDamaged extends Error {}

/** Throws DatabaseDamaged if the file is not a database, UsageError if the package is missing or another process has the file open. */
export async function openDatabase(path: string, memoryBytes = 192e6): Promise<Database> {
  const { DuckDBInstance } = await load();
  let instance: DuckDBInstance;
  try {
    instance = await DuckDBInstance.create(path, {
      threads: "2",
      memory_limit: `${Math.round(memoryBytes / 1e6)}MB`,
    });
  } catch (cause) {
    const { message } = cause as Error;
    if (/lock/i.test(message))
      throw new UsageError("not-writable", `${path}: another process is using it`, undefined, { cause });
    if (/permission|read-only|no space/i.test(message))
      throw new UsageError("not-writable", `${path}: cannot be opened (${firstLine(message)})`, undefined, {
        cause,
      });
    throw new DatabaseDamaged(firstLine(message), { cause });
  }
  return database(instance, await instance.connect(), await instance.connect());
}

async function load() {
  try {
    return await import("@duckdb/node-api");
  } catch (cause) {
    throw new UsageError(
      "not-supported",
      "the package @duckdb/node-api, in which a collector keeps its results, is not installed",
      "npm install -g @duckdb/node-api",
      { cause },
    );
  }
}

const firstLine = (text: string) => text.split("\n")[0] ?? text;

function database(
  instance: DuckDBInstance,
  connection: DuckDBConnection,
  reader: DuckDBConnection,
): Database {
  const run = async (sql: string, values: readonly Value[] = []) => {
    await connection.run(sql, [...values] as DuckDBValue[]);
  };
  return {
    run,
    all: async (sql, values = []) =>
      (await reader.runAndReadAll(sql, [...values] as DuckDBValue[])).getRows() as Value[][],
    append: async (table, rows, types) => {
      const appender = await connection.createAppender(table);
      for (const row of rows) {
        for (const [i, value] of row.entries()) appendValue(appender, value, types[i] ?? "text");
        appender.endRow();
      }
      appender.closeSync();
    },
    transaction: async (work) => {
      await run("BEGIN TRANSACTION");
      try {
        const result = await work();
        await run("COMMIT");
        return result;
      } catch (error) {
        await run("ROLLBACK").catch(() => undefined);
        throw error;
      }
    },
    close: () => {
      reader.closeSync();
      connection.closeSync();
      instance.closeSync();
    },
  };
}

type Appender = Awaited<ReturnType<DuckDBConnection["createAppender"]>>;

function appendValue(appender: Appender, value: Value, type: ColumnType): void {
  if (value === null) appender.appendNull();
  else if (type === "text") appender.appendVarchar(String(value));
  else if (type === "bigint") appender.appendBigInt(value as bigint);
  else if (type === "integer") appender.appendInteger(Number(value));
  else if (type === "double") appender.appendDouble(Number(value));
  else appender.appendBlob(value as unknown as Uint8Array);
}
