/** What is to be captured of an interface, however it is. */
import type { FilterExpression } from "../../filter/expression.ts";
import type { SourceCapture } from "../capture-source.ts";
import type { WallClock } from "../live-clock.ts";

export const DIRECTIONS = ["in", "out", "both"] as const;
export const TIMESTAMPS = ["software", "hardware"] as const;

export interface InterfaceOptions {
  /** Packets that the interface receives, sends, or both. */
  direction?: (typeof DIRECTIONS)[number];
  /** Packets for other hosts too: on a mirror port. */
  promiscuous?: boolean;
  /** Bytes captured of each packet; left out: what the digest covers, and the headers before it. */
  snapBytes?: number;
  timestamps?: (typeof TIMESTAMPS)[number];
  ringBytes?: number;
  /** Blocks of the ring are copied before they are read, which is slower; left out: only where they must be. */
  copyBlocks?: boolean;
  /** From now on packets are captured; with what, in words. */
  onOpen?: (text: string) => void;
}

export interface InterfaceSourceOptions extends InterfaceOptions {
  capture?: SourceCapture;
  /** Packets that cannot match it may be left out by the kernel already. */
  wanted?: FilterExpression | null;
  signal?: AbortSignal | undefined;
  clock?: WallClock;
}

/** Ethernet and four tags before the IP header, as OBSERVE_COVER assumes; and a tunnel's headers. */
const LINK_BYTES = 32;
const TUNNEL_BYTES = 96;

/** Before an IP header that is not tagged. */
const ETHERNET_BYTES = 14;
/** IPv4 and TCP headers without options. */
const LEAST_COVER = 40;

/** Bytes captured of each packet: as asked for, or what the digest covers and the headers before it. */
export function snapBytesOf({ snapBytes, capture }: InterfaceSourceOptions, defaultCover: number): number {
  const { cover = defaultCover, inner = false } = capture ?? {};
  return snapBytes ?? cover + LINK_BYTES + (inner ? TUNNEL_BYTES : 0);
}

/** As many are enough of an IPv4 packet without options and without a tag where its bytes are not looked at later: ports and all that the digest covers. */
export function plainSnapOf(options: InterfaceSourceOptions, defaultCover: number): number {
  const snapBytes = snapBytesOf(options, defaultCover);
  const { cover = defaultCover, inner = false, rowsOnly = false } = options.capture ?? {};
  if (options.snapBytes !== undefined || inner || !rowsOnly) return snapBytes;
  return Math.min(snapBytes, Math.max(cover, LEAST_COVER) + ETHERNET_BYTES);
}
