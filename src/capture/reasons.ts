/** Why a captured packet is not used: the counters of kernels/decode/decode.ts, by index. A bad packet is a counted result. */
export const SKIP_REASONS = [
  "",
  "notIp",
  "truncatedLink",
  "truncatedIp",
  "badIp",
  "unknownLink",
  "tooDeep",
  "noTimestamp",
  "unknownInterface",
] as const;

/** Rows that a filter dropped are counted beside them. */
export type SkipReason = Exclude<(typeof SKIP_REASONS)[number], ""> | "filtered";
