/** What follows the rows of a collector as they are written: the network's paths, alerts. Rows are on disk when they come; a failure here is logged and stops neither the rows nor the others. */
import type { SegmentRow } from "../../results/rows.ts";

export interface RowFollower {
  /** Rows of one tick. */
  take(rows: readonly SegmentRow[]): Promise<void>;
  /** Now and then, whether rows came or not. */
  tick(): Promise<void>;
  close(): Promise<void>;
}
