/**
 * One of several writers in one directory, run as a separate process and stopped by the crash tests. Arguments: directory, number of the writer, number of
 * writers, first epoch, and the epoch after the last. For every epoch it stores a record of its own point, a record that is the same for all writers, and its
 * part of an epoch that all writers have a part of; then it prints a line.
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
