/** What a row of a flow is to look like, for those who write rows without an object for each (flow-texts.ts). */

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
  /** Written for a value that is not there. */
  none: string;
}
