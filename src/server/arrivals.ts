/** Records that came, counted by point and time for `/v1/coverage`. */
import type { ArrivalCounts } from "../results/arrivals-table.ts";
import type { ResultsStore } from "../results/results-store.ts";
import type { Accepted, Ingested } from "./ingest.ts";

/** `redelivered`: what was there before is no duplicate of the tap's, it has come from the stream once more. */
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
