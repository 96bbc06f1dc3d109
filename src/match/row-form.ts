/** The form of a flow's row of text, for writers without an object per flow (flow-texts.ts). */

export type RowField =
  | "src"
  | "dst"
  | "proto"
  | "sport"
  | "dport"
  | "communityId"
  | "sent"
  | "received"
  | "matched"
  | "lost"
  | "appeared"
  | "duplicates"
  | "reordered"
  | "bytes"
  | "count"
  | "meanNs"
  | "stdevNs"
  | "minNs"
  | "maxNs"
  | "p50Ns"
  | "p90Ns"
  | "p99Ns"
  | "p999Ns"
  | "jitterNs";

/** A row: text, and fields by their names. */
export interface RowForm {
  parts: readonly (string | { field: RowField })[];
  /** Written for a missing value. */
  none: string;
}
