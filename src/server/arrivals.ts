/** Counts the records that arrive, per point and time, for `/v1/coverage`. */
import type { ArrivalCounts } from "../results/arrivals-table.ts";
import type { ResultsStore } from "../results/results-store.ts";
import type { Accepted, Ingested } from "./ingest.ts";

/** `redelivered`: the stream delivered the record again, so an unchanged record is not a duplicate sent by the tap. */
export function countArrivals(
  { arrivals }: Pick<ResultsStore, "arrivals">,
  { accepted, refused }: Ingested,
  redelivered: boolean,
): void {
  for (const { head, outcome, bytes } of accepted)
    if (!redelivered || outcome !== "unchanged") arrivals.count(head, arrivalOf(outcome, bytes));
  for (const head of refused) arrivals.count(head, { refused: 1 });
}

function arrivalOf(outcome: Accepted["outcome"], bytes: number): Partial<ArrivalCounts> {
  if (outcome === "unchanged") return { duplicate: 1 };
  return outcome === "stored" ? { records: 1, bytes } : { changed: 1, bytes };
}
