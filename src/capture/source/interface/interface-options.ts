/** Options of a live capture, for all ways of capturing an interface. */
import type { FilterExpression } from "../../filter/expression.ts";
import type { SourceCapture } from "../capture-source.ts";
import type { WallClock } from "../live-clock.ts";

export const DIRECTIONS = ["in", "out", "both"] as const;
export const TIMESTAMPS = ["software", "hardware"] as const;

export interface InterfaceOptions {
  /** Capture packets that the interface receives, sends, or both. */
  direction?: (typeof DIRECTIONS)[number];
  /** Capture packets for other hosts too, as needed on a mirror port. */
  promiscuous?: boolean;
  /** Bytes captured of each packet. Default: what the digest covers and the headers before it. */
  snapBytes?: number;
  timestamps?: (typeof TIMESTAMPS)[number];
  ringBytes?: number;
  /** Copy blocks of the ring before reading them, which is slower. Default: only if necessary. */
  copyBlocks?: boolean;
  /** Called when capturing starts, with a description of how. */
  onOpen?: (text: string) => void;
}

export interface InterfaceSourceOptions extends InterfaceOptions {
  capture?: SourceCapture;
  /** The kernel may already drop packets that cannot match this filter. */
  wanted?: FilterExpression | null;
  signal?: AbortSignal | undefined;
  clock?: WallClock;
}

/** Ethernet and four tags before the IP header, as OBSERVE_COVER assumes; then a tunnel's headers. */
const LINK_BYTES = 32;
const TUNNEL_BYTES = 96;

/** Header before an IP header without tags. */
const ETHERNET_BYTES = 14;
/** IPv4 and TCP headers without options. */
const LEAST_COVER = 40;

/** Returns the bytes to capture of each packet: as asked for, or what the digest covers and the headers before it. */
export function snapBytesOf({ snapBytes, capture }: InterfaceSourceOptions, defaultCover: number): number {
  const { cover = defaultCover, inner = false } = capture ?? {};
  return snapBytes ?? cover + LINK_BYTES + (inner ? TUNNEL_BYTES : 0);
}

/** Returns the bytes to capture of an untagged IPv4 packet without options: ports and all that the digest covers, if nobody reads its bytes later. */
export function plainSnapOf(options: InterfaceSourceOptions, defaultCover: number): number {
  const snapBytes = snapBytesOf(options, defaultCover);
  const { cover = defaultCover, inner = false, rowsOnly = false } = options.capture ?? {};
  if (options.snapBytes !== undefined || inner || !rowsOnly) return snapBytes;
  return Math.min(snapBytes, Math.max(cover, LEAST_COVER) + ETHERNET_BYTES);
}
