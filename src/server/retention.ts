/** Retention of a collector: records by age and bytes, rows of each step by age and bytes, closed incidents by age. */
import type { RecordArchive } from "../archive/archive.ts";
import { retain } from "../archive/retention.ts";
import type { ResultsStore } from "../results/results-store.ts";
import { STEPS, type Step } from "../results/rows.ts";

const DAY_NS = 86_400_000_000_000n;
const DEFAULT_ROWS_NS: Record<Step, bigint> = { 0: 7n * DAY_NS, 60: 90n * DAY_NS, 3600: 1825n * DAY_NS };
const DEFAULT_INCIDENTS_NS = 365n * DAY_NS;

export interface Retention {
  /**
   * A point's records are removed when they end longer than `recordsNs` before its newest. `recordBytes` bounds all records; the oldest are removed
   * first.
   */
  recordsNs?: bigint | undefined;
  recordBytes?: number | undefined;
  /** Rows of epochs, minutes and hours: maximum age, and maximum bytes of each. */
  rowsNs?: Partial<Record<Step, bigint>>;
  rowBytes?: Partial<Record<Step, number | undefined>>;
  /** Maximum age of closed incidents. */
  incidentsNs?: bigint | undefined;
}

/** Removes what exceeds the configured age or size. */
export async function retainKept(
  archive: RecordArchive,
  results: ResultsStore,
  { recordsNs, recordBytes, rowsNs, rowBytes, incidentsNs = DEFAULT_INCIDENTS_NS }: Retention,
  nowNs: bigint,
): Promise<void> {
  const { directory } = archive;
  if (recordsNs !== undefined)
    for (const point of archive.points()) retain(directory, { keepNs: recordsNs }, { points: [point] });
  if (recordBytes !== undefined) retain(directory, { maxBytes: recordBytes });
  const kept = { ...DEFAULT_ROWS_NS, ...rowsNs };
  for (const step of STEPS)
    await results.retain(step, { nowNs, keepNs: kept[step], maxBytes: rowBytes?.[step] ?? null });
  await results.arrivals.tidy(nowNs - kept[60]);
  for (const table of [results.incidents, results.alerts]) await table.retain(nowNs - incidentsNs);
}
