/** `hoptime export --data DIR --parquet FILE`: exports the results of a collector for other tools. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { UsageError } from "../base/errors.ts";
import { ClickhouseStore } from "../results/clickhouse/store.ts";
import { DuckdbStore } from "../results/duckdb-store.ts";
import type { ResultsStore } from "../results/results-store.ts";
import { clickhouseOptions } from "../server/config/clickhouse-options.ts";
import { choiceOption } from "./options.ts";
import { printJson, warn } from "./output.ts";
import { writeWhole } from "./whole-file.ts";

interface Flags {
  data?: string;
  clickhouse?: string;
  clickhouseCa?: string;
  parquet?: string;
  csv?: string;
  table: "segments" | "flows";
  json?: boolean;
}

const EXAMPLES = `
The file has rows of all steps: step_s is 0 for epochs, 60 for minutes, 3600 for hours. Times are
nanoseconds since 1970, delays are nanoseconds. docs/collect.md describes the columns. Stop the
collector of the directory first; with --clickhouse it may be running.

Examples:
  hoptime export --data /var/lib/hoptime --parquet results.parquet
  hoptime export --data /var/lib/hoptime --csv flows.csv --table flows
  hoptime export --clickhouse http://hoptime@clickhouse:8123/hoptime --csv results.csv
`;

export function exportCommand(): Command {
  return new Command("export")
    .description("Writes the results of a collector to a file.")
    .option("--data <dir>", "directory of the collector")
    .option(
      "--clickhouse <url>",
      "read results from ClickHouse: http://USER@HOST:8123/DATABASE; password in $HOPTIME_CLICKHOUSE_PASSWORD",
    )
    .option("--clickhouse-ca <file>", "with https: certificate authority, PEM")
    .option("--parquet <file>", "write this Parquet file")
    .option("--csv <file>", "write this CSV file")
    .option(
      "--table <which>",
      "rows to write: segments or flows",
      choiceOption("--table", ["segments", "flows"] as const),
      "segments",
    )
    .option("--json", "print what was written as JSON")
    .addHelpText("after", EXAMPLES)
    .action(async (flags: Flags) => {
      const { table, parquet, csv } = flags;
      const [file, format] = parquet === undefined ? [csv, "csv" as const] : [parquet, "parquet" as const];
      if (file === undefined || (parquet !== undefined && csv !== undefined))
        throw new UsageError("bad-option", "exactly one of --parquet and --csv is needed");
      const store = await opened(flags);
      try {
        await writeWhole(file, (to) => store.export(table, to, format));
      } finally {
        await store.close();
      }
      if (flags.json) await printJson({ file, format, table });
      else warn(`hoptime: ${table} written to ${file}`);
    });
}

async function opened({ data, clickhouse, clickhouseCa }: Flags): Promise<ResultsStore> {
  if ((data === undefined) === (clickhouse === undefined))
    throw new UsageError("bad-option", "exactly one of --data and --clickhouse is needed");
  if (clickhouseCa !== undefined && clickhouse === undefined)
    throw new UsageError("bad-option", "--clickhouse-ca needs --clickhouse");
  const place = clickhouse === undefined ? {} : { clickhouse: { url: clickhouse, ca: clickhouseCa } };
  const options = clickhouseOptions(place, {});
  if (options) return await ClickhouseStore.open({ ...options, keepS: undefined, onlyRead: true });
  const path = join(data ?? "", "results.duckdb");
  if (!existsSync(path))
    throw new UsageError(
      "no-such-file",
      `${data}: contains no results`,
      "give the directory of hoptime collect --data, or --clickhouse",
    );
  return await DuckdbStore.open(path);
}
