/** Describes why packets of a capture are not used; JSON has the reasons' names. */
import { formatCount } from "../../base/quantity.ts";

const WORDS: Readonly<Record<string, string>> = {
  notIp: "not IP",
  truncatedLink: "cut within the link header",
  truncatedIp: "cut within the IP header",
  badIp: "with a bad IP header",
  unknownLink: "of an unknown link type",
  tooDeep: "in too many headers",
  noTimestamp: "without a timestamp",
  unknownInterface: "of an unknown interface",
  filtered: "not of the filter",
};

export function skipWords(reason: string): string {
  return WORDS[reason] ?? reason;
}

/** Returns "8 not IP, 2 cut within the IP header"; empty if all packets are used. */
export function skipText(skipped: Readonly<Record<string, number>>): string {
  return Object.entries(skipped)
    .map(([reason, n]) => `${formatCount(n)} ${skipWords(reason)}`)
    .join(", ");
}
