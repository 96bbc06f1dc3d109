/** The destination of a point's records: a directory (directory-sink.ts), or a collector over a network. */
import type { StoreOutcome } from "../archive/writer.ts";
import type { EncodeOptions, EpochRecord } from "../epoch/record.ts";

/** The outcome of storing a record. */
export type PutOutcome = StoreOutcome;

export interface RecordSink {
  /**
   * Takes a record. Each is given once; the records of a tap in the order of their epochs. Resolves when the record is durable, whatever fails
   * afterwards. Rejects if that is impossible; no further record is accepted then.
   */
  put(record: EpochRecord, options?: EncodeOptions): Promise<PutOutcome>;
  /** Makes everything put so far durable; resolves when it is. */
  flush(): Promise<void>;
  /** Flushes and releases resources. */
  close(): Promise<void>;
}
