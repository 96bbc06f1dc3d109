/** Why a captured packet is not used, by the number of its counter. A bad packet is a counted result, not an error. */
import { linkConstants } from "../base/kernel-layout.ts";

const NAMED = {
  notIp: linkConstants.NOT_IP,
  truncatedLink: linkConstants.CUT_LINK,
  truncatedIp: linkConstants.CUT_IP,
  badIp: linkConstants.BAD_IP,
  unknownLink: linkConstants.UNKNOWN_LINK,
  tooDeep: linkConstants.TOO_DEEP,
  noTimestamp: linkConstants.NO_TIME,
  unknownInterface: linkConstants.NO_INTERFACE,
} as const;

/** Rows dropped by a filter are counted under a reason of their own. */
export type SkipReason = keyof typeof NAMED | "filtered";

export const SKIP_REASONS = Object.entries(NAMED) as [Exclude<SkipReason, "filtered">, number][];
