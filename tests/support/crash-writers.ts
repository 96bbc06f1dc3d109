/**
 * One of several writers in one directory, run as a process of its own and ended by the crash tests. Arguments: directory, number of the writer, writers in all, the epoch to begin with, and to
 * end before. For every epoch it stores a record of its own point, the record that all writers have alike, and its part of an epoch that all of them have a part of; then it says so.
 */
import { RecordArchive } from "../../src/archive/archive.ts";
import { mergeParts } from "../../src/epoch/merge.ts";
import { countingEstimator } from "./counting-estimator.ts";
import { commonRecord, ownRecord, partRecord } from "./writers-records.ts";

const [directory = "", ...numbers] = process.argv.slice(2);
const [writer = 0, writers = 1, from = 0, to = 0] = numbers.map(Number);
let ending = false;
process.on("SIGTERM", () => {
  ending = true;
});
const archive = await RecordArchive.create(directory);
process.stdout.write("begun\n");
for (let n = from; n < to && !ending; n++) {
  const records = [ownRecord(n, writer), commonRecord(n), partRecord(n, writer, writers)];
  const { outcomes } = await archive.store(
    records.map((record) => ({ record })),
    (stored, record) => mergeParts(stored, record, countingEstimator),
  );
  if (outcomes.some((o) => o.outcome === "refused")) throw new Error(JSON.stringify(outcomes));
  process.stdout.write(`stored ${n + 1}\n`);
}
