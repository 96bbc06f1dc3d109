import { renameSync } from "node:fs";
import { DatabaseDamaged } from "../results/duckdb.ts";
import { DuckdbStore } from "../results/duckdb-store.ts";
import type { ResultsStore } from "../results/results-store.ts";

/** Opens the results file. A damaged file is set aside, and its rows are made again from the records. */
export async function openResultsFile(path: string, onLog?: (text: string) => void): Promise<ResultsStore> {
  try {
    return await DuckdbStore.open(path);
  } catch (error) {
    if (!(error instanceof DatabaseDamaged)) throw error;
    const aside = `${path}.damaged-${Date.now()}`;
    renameSync(path, aside);
    onLog?.(`${path}: ${error.message}; set aside as ${aside}, and made again from the records`);
    return await DuckdbStore.open(path);
  }
}
