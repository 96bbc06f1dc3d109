/**
 * Run as a separate process and killed by the crash tests: stores the same records from the start, whatever the directory contains, and prints after each group
 * how many are on disk. Arguments: directory, number of records.
 */
import { RecordArchive } from "../../src/archive/archive.ts";
import { numberedRecord } from "./numbered-record.ts";

const [directory, total] = [process.argv[2]!, Number(process.argv[3])];
const archive = await RecordArchive.create(directory);
process.stdout.write("begun\n");
for (let at = 0; at < total; ) {
  // Groups of 1 to 5, so that kills happen within groups as well as between them.
  const group = Array.from({ length: Math.min(1 + (at % 5), total - at) }, (_, i) => numberedRecord(at + i));
  await archive.store(group.map((record) => ({ record })));
  at += group.length;
  process.stdout.write(`stored ${at}\n`);
}
