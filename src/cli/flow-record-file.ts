/** --flow-records: reads flow records from a file, with notes that are added to the notes of the results. */
import { type FlowRecord, readFlowRecordFile } from "../flow-records/flow-records.ts";

export interface NamedFlowRecords {
  flowRecords: FlowRecord[] | undefined;
  flowRecordNotes: string[];
}

export async function openFlowRecords(path: string | undefined): Promise<NamedFlowRecords> {
  if (path === undefined) return { flowRecords: undefined, flowRecordNotes: [] };
  const { records, notes } = await readFlowRecordFile(path);
  return { flowRecords: records, flowRecordNotes: notes.map((note) => `${path}: ${note}`) };
}
