/**
 * Interface of parts that follow the collector's rows: network paths and alerts. Rows are already on disk when they arrive. A failure is logged and
 * affects neither the rows nor the other followers.
 */
import type { SegmentRow } from "../../results/rows.ts";

export interface RowFollower {
  /** Takes the rows of one tick. */
  take(rows: readonly SegmentRow[]): Promise<void>;
  /** Called regularly, whether rows arrived or not. */
  tick(): Promise<void>;
  close(): Promise<void>;
}
