/** Where a point's records go: a directory (directory-sink.ts); a collector, over a network. */
import type { StoreOutcome } from "../archive/writer.ts";
import type { EncodeOptions, EpochRecord } from "../epoch/record.ts";

/** What became of a record. */
export type PutOutcome = StoreOutcome;

export interface RecordSink {
  /**
   * Takes a record: each is given once, those of a tap in the order of their epochs. Resolves when it is durable: it will be there whatever ends, or is cut off, from then
   * on. Rejects where it cannot be: then nothing more is taken.
   */
  put(record: EpochRecord, options?: EncodeOptions): Promise<PutOutcome>;
  /** All that was put is to become durable now, and is when this resolves. */
  flush(): Promise<void>;
  /** Flushes, and gives back what it holds. */
  close(): Promise<void>;
}
