/** --flow-records: the records of a file, with what is to be said of them on standard error. */
import { type FlowRecord, readFlowRecordFile } from "../capture/flow-records.ts";

export function tellFlowRecords(path: string): FlowRecord[] {
  const { records, notes } = readFlowRecordFile(path);
  for (const note of notes) process.stderr.write(`hoptime: ${path}: ${note}\n`);
  return records;
}
