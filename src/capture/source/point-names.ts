/** The points that one file may hold: what `FILE#point` may name, and the errors if it names none. */
import { readFileSync } from "node:fs";
import { UsageError } from "../../base/errors.ts";
import type { CaptureInterface } from "../format/pcapng-blocks.ts";
import type { PcapHeader } from "../format/sniff.ts";

/** Link types of `tcpdump -i any`, Linux cooked. Version 1 does not hold the interface of a packet. */
const COOKED_V1 = 113;
export const COOKED_V2 = 276;

/** Returns whether the file's only interface stands for all interfaces of a host: packets name theirs in their cooked headers. */
export function isOneCooked(interfaces: readonly CaptureInterface[]): boolean {
  return interfaces.length === 1 && interfaces[0]?.link === COOKED_V2;
}

/** Returns whether the text behind `FILE#` names the interface: by number, name or description. */
export function isPoint(point: string, description: CaptureInterface | undefined): boolean {
  if (!description) return false;
  if (/^\d+$/.test(point)) return description.index === Number(point);
  return point !== "" && (description.name === point || description.description === point);
}

/** Returns the error for a point other than 0 of a pcap file with one point. */
export function notPointZero(file: string, point: string, { link }: PcapHeader): UsageError {
  if (link !== COOKED_V1) return noSuchPoint(file, point, ["0"], "a pcap file has one interface, 0");
  return noSuchPoint(
    file,
    point,
    ["0"],
    "Linux cooked v1 does not record the interface: capture with 'tcpdump -i any -y LINUX_SLL2', or each interface by itself",
  );
}

/** Returns the interface number that `FILE#point` names. A name is looked up on this host, since the file holds none. Null if there is no such interface. */
export function cookedIndex(point: string): number | null {
  return /^\d+$/.test(point) ? Number(point) : indexHere(point);
}

function indexHere(name: string): number | null {
  if (!/^[\w.@-]+$/.test(name)) return null;
  try {
    return Number(readFileSync(`/sys/class/net/${name}/ifindex`, "utf8"));
  } catch {
    return null;
  }
}

const MAX_LISTED = 20;
export const NUMBERS_ONLY =
  "write the number behind the # ('ip link' on the capturing host lists the names: captures of all interfaces contain numbers only)";

/** Lists the points of a capture for people. */
export function pointsText(points: readonly string[]): string {
  const more = points.length > MAX_LISTED ? ` and ${points.length - MAX_LISTED} more` : "";
  return points.length === 0 ? "none" : points.slice(0, MAX_LISTED).join(", ") + more;
}

export function noSuchPoint(
  file: string,
  point: string,
  points: readonly string[],
  advice = "write the number or the name behind the #",
): UsageError {
  const list = pointsText(points);
  const asked = point === "" ? `no interface is named behind '${file}#'` : `has no interface '${point}'`;
  return new UsageError(
    "bad-option",
    point === "" ? asked : `${file}: ${asked}`,
    `it has ${list}; ${advice}`,
  );
}
