/**
 * Reads unmatched packets again from their captures, with the fields that show what happened on the way: TCP byte ranges, fragments, options. They are found by
 * time, flow and digest: packets of a flow with the same time (coarse timestamps, merged segments) may have partners.
 */
import type { Kernels } from "../../base/kernels.ts";
import { FLAG, META_HIGH, type PacketBatch } from "../../capture/batch.ts";
import { rowHash } from "../../capture/flow/row-hash.ts";
import { type CaptureOptions, CaptureReader } from "../../capture/reader.ts";
import type { AlonePacket } from "../match-types.ts";
import type { ExactMatcher } from "../matcher.ts";

export interface LonePacket extends AlonePacket {
  proto: number;
  /** Length of the IP packet; and of its payload behind the TCP or UDP header (behind the IP header for other protocols). */
  length: number;
  payload: number;
  /** Addresses and protocol. */
  between: string;
  /** Identification shared by the fragments of a packet; null if there is none: in IPv6 only fragments have it. */
  identification: number | null;
  /** Bytes behind the IP header and its extensions; and a few bytes that identify the packet, from behind the ports on. */
  transportBytes: number;
  start: string;
  /** The IPv4 identification; null in IPv6. */
  ipid: number | null;
  fragment: { offset: number; more: boolean } | null;
  /** `header`: its length; null if the packet was cut before it. */
  tcp: { sequence: number; header: number | null; flags: number; mss: number | null } | null;
  /** ICMP errors: what address translation leaves unchanged of them and of the packet they quote. */
  quotes: string | null;
  /** UDP: the first bytes of its payload; all that was captured, as long as there is room. */
  content: Uint8Array | null;
  /** A first fragment: what it shows of the packet, and the length of the TCP or UDP header. */
  opening: { header: number; tcp: LonePacket["tcp"]; content: Uint8Array | null } | null;
}

/** Packets longer than ordinary frames that have a partner: a row each, in the order of their capture. */
export interface LongRows {
  timeNs: number[];
  /** The digest, and the hash of the flow's key. */
  low: number[];
  high: number[];
  keyHash: number[];
  payload: number[];
}

/** What is read of both captures, by side. */
export interface Collected {
  lone: [LonePacket[], LonePacket[]];
  long: [LongRows, LongRows];
}

/** Bytes of a datagram's payload that identify it. */
export const KNOWN_BY = 16;
/**
 * Limits for storing datagrams completely. Those longer than an ordinary frame have their own limit: with offload, at least one of the two points has such. But
 * a datagram of a few short pieces is no longer than an ordinary frame.
 */
export const LONGEST_ORDINARY = 1500;
const LONGEST_LINK_HEADER = 14;
/** Long packets with a partner that are kept. */
const MAX_LONG = 1 << 21;
const MAX_CONTENT = 64 << 20;
const MAX_ORDINARY_CONTENT = 16 << 20;

export interface ResidueSource {
  file: string;
  capture: CaptureOptions;
  /** Offset that puts the times of its rows on the matcher's axis. */
  shiftNs: (originNs: bigint) => number;
}

/** Returns the unmatched packets of both captures, by side, in time order, and the long ones that have a partner. */
export async function collectLone(
  kernels: Kernels,
  matcher: ExactMatcher,
  sources: readonly [ResidueSource, ResidueSource],
): Promise<Collected> {
  const wanted = [new Map<number, AlonePacket[]>(), new Map<number, AlonePacket[]>()] as const;
  for (const alone of matcher.alone()) {
    const { side, timeNs } = alone;
    const same = wanted[side].get(timeNs);
    if (same) same.push(alone);
    else wanted[side].set(timeNs, [alone]);
  }
  // Loss alone is not examined further: only unmatched packets in both captures can belong together.
  if (wanted[0].size === 0 || wanted[1].size === 0) return { lone: [[], []], long: [noLong(), noLong()] };
  const read = (side: 0 | 1) => readLone(kernels, matcher, sources[side], wanted[side]);
  const [before, after] = [await read(0), await read(1)];
  return { lone: [before.found, after.found], long: [before.long, after.long] };
}

const noLong = (): LongRows => ({ timeNs: [], low: [], high: [], keyHash: [], payload: [] });

async function readLone(
  kernels: Kernels,
  matcher: ExactMatcher,
  source: ResidueSource,
  wanted: Map<number, AlonePacket[]>,
): Promise<{ found: LonePacket[]; long: LongRows }> {
  const found: LonePacket[] = [];
  const long = noLong();
  const room = { long: MAX_CONTENT, ordinary: MAX_ORDINARY_CONTENT };
  const reader = await CaptureReader.open(kernels, source.file, source.capture);
  try {
    while (await reader.next()) {
      const { batch } = reader;
      const shiftNs = source.shiftNs(reader.originNs ?? 0n);
      const { timeNs, count, digest, wireLength } = batch;
      for (let row = 0; row < count; row++) {
        const at = (timeNs[row] ?? 0) + shiftNs;
        const same = wanted.get(at);
        const k =
          same?.findIndex(
            ({ flow, mark }) => digest[2 * row] === mark && isOfFlow(matcher, flow, batch, row),
          ) ?? -1;
        const [alone] = k < 0 ? [] : (same?.splice(k, 1) ?? []);
        if (!alone) {
          if ((wireLength[row] ?? 0) > LONGEST_ORDINARY + LONGEST_LINK_HEADER) noteLong(long, batch, row, at);
          continue;
        }
        const packet = describe(batch, row, alone, { room, nat: source.capture.nat ?? false });
        if (packet) found.push(packet);
      }
    }
  } finally {
    reader.close();
    reader.free();
  }
  return { found: found.sort((a, b) => a.timeNs - b.timeNs), long };
}

/** Keeps a packet that a card may have split, or merged from several. */
function noteLong(long: LongRows, batch: PacketBatch, row: number, timeNs: number): void {
  if (long.timeNs.length >= MAX_LONG || ((batch.flags[row] ?? 0) & FLAG.fragment) !== 0) return;
  const ip = ipOf(batch, row);
  if (ip === null) return;
  const length = ipLength(batch, row, ip);
  const [proto, header] = transportOf(ip);
  if (length <= LONGEST_ORDINARY || (proto !== TCP && proto !== UDP)) return;
  const own = proto === UDP ? 8 : ip.byteLength > header + 12 ? (ip.getUint8(header + 12) >> 4) << 2 : 20;
  long.timeNs.push(timeNs);
  long.low.push(batch.digest[2 * row] ?? 0);
  long.high.push(batch.digest[2 * row + 1] ?? 0);
  long.keyHash.push(rowHash(batch, row));
  long.payload.push(length - header - own);
}

/** Returns whether the row is of this flow, by its key at either point. */
function isOfFlow(matcher: ExactMatcher, flow: number, batch: PacketBatch, row: number): boolean {
  if (sameKey(matcher, flow, batch, row)) return true;
  const after = matcher.nat ? matcher.mapped(flow) : null;
  return after !== null && sameKey(matcher, after, batch, row);
}

/** Returns whether the row, whose key columns are masked, is of this flow. */
function sameKey(matcher: ExactMatcher, flow: number, batch: PacketBatch, row: number): boolean {
  const { words, at } = matcher.keyWords(flow);
  const columns = [batch.meta, batch.addrA, batch.addrB, batch.addrC, batch.addrD];
  const v6 = ((batch.meta[2 * row + 1] ?? 0) & META_HIGH.ipv6) !== 0;
  return columns
    .slice(0, v6 ? 5 : 2)
    .every((c, i) => c[2 * row] === words[at + 2 * i] && c[2 * row + 1] === words[at + 2 * i + 1]);
}

const ICMP = 1;
export const TCP = 6;
export const UDP = 17;
const MSS_OPTION = 2;

/** Bytes that may still be stored. */
interface Room {
  long: number;
  ordinary: number;
}

function describe(
  batch: PacketBatch,
  row: number,
  alone: AlonePacket,
  { room, nat }: { room: Room; nat: boolean },
): LonePacket | null {
  const flags = batch.flags[row] ?? 0;
  const ip = ipOf(batch, row);
  if (ip === null) return null;
  const captured = ip.byteLength;
  const version = ip.getUint8(0) >> 4;
  const proto = (batch.meta[2 * row + 1] ?? 0) & 0xff;
  const length = ipLength(batch, row, ip);
  const fragmented = (flags & FLAG.fragment) !== 0;
  const head = version === 4 ? headOf4(ip, { proto, length, fragmented }) : headOf6(ip, length, fragmented);
  if (head === null) return null;
  const { header, hosts, next, ...rest } = head;
  // Addresses differ behind a translation: identifications must suffice.
  const known = { ...rest, between: `${nat ? "" : hosts},${next}` };
  const base = { ...alone, ...known, proto, length };
  const bare = { ...base, payload: length - header, tcp: null, quotes: null, content: null, opening: null };
  if ((flags & FLAG.laterFragment) !== 0) return bare;
  if (fragmented) return { ...bare, opening: openingOf(ip, next, header) };
  if (proto === UDP) {
    const from = Math.min(captured, header + 8);
    const kind = length > LONGEST_ORDINARY ? "long" : "ordinary";
    const most = room[kind] > 0 ? Math.max(0, length - header - 8) : KNOWN_BY;
    const content = new Uint8Array(ip.buffer, ip.byteOffset + from, Math.min(captured - from, most)).slice();
    room[kind] -= content.length;
    return { ...bare, payload: length - header - 8, content };
  }
  if (proto === ICMP) return { ...bare, quotes: quotedIn(ip, header) };
  const tcp = proto === TCP ? tcpOf(ip, header) : null;
  return tcp === null ? bare : { ...bare, payload: Math.max(0, length - header - (tcp.header ?? 20)), tcp };
}

function tcpOf(ip: DataView, at: number): LonePacket["tcp"] {
  const captured = ip.byteLength - at;
  if (captured < 8) return null;
  const sequence = ip.getUint32(at + 4);
  if (captured < 14) return { sequence, header: null, flags: 0, mss: null };
  const header = (ip.getUint8(at + 12) >> 4) << 2;
  const mss = mssOf(ip, at + 20, Math.min(ip.byteLength, at + header));
  return { sequence, header, flags: ip.getUint8(at + 13), mss };
}

/** Returns what a first fragment shows of its packet; null if it was cut before. */
function openingOf(ip: DataView, proto: number, header: number): LonePacket["opening"] {
  if (proto === UDP && ip.byteLength >= header + 8) {
    const content = new Uint8Array(ip.buffer, ip.byteOffset + header + 8, ip.byteLength - header - 8);
    return { header: 8, tcp: null, content: content.slice(0, KNOWN_BY) };
  }
  const tcp = proto === TCP ? tcpOf(ip, header) : null;
  return tcp?.header == null ? null : { header: tcp.header, tcp, content: null };
}

/** Returns the captured bytes from the IP header on; null if there are too few. */
function ipOf(batch: PacketBatch, row: number): DataView | null {
  const captured = batch.captured[row] ?? 0;
  return captured < 20 ? null : new DataView(batch.kernels.memory.buffer, batch.header[row] ?? 0, captured);
}

function ipLength(batch: PacketBatch, row: number, ip: DataView): number {
  const version = ip.getUint8(0) >> 4;
  const stated = version === 4 ? ip.getUint16(2) : ip.getUint16(4) + 40;
  // Segmentation offload leaves 0 if the length does not fit: use the wire length minus the link header.
  const unstated = stated === (version === 4 ? 0 : 40);
  return unstated ? Math.max(ip.byteLength, (batch.wireLength[row] ?? 0) - LONGEST_LINK_HEADER) : stated;
}

/** Returns the protocol behind the IP header, and where it begins. */
function transportOf(ip: DataView): [number, number] {
  if (ip.getUint8(0) >> 4 === 4) return [ip.getUint8(9), (ip.getUint8(0) & 15) << 2];
  const head = headOf6(ip, 0, false);
  return head ? [head.next, head.header] : [0, 0];
}

/** Unreachable, source quench, redirect, time exceeded, parameter problem. */
const ICMP_ERRORS: ReadonlySet<number> = new Set([3, 4, 5, 11, 12]);
/** Bytes of the quoted header up to the protocol: the checksum and the addresses behind it are rewritten. */
const QUOTED_BYTES = 10;

function quotedIn(ip: DataView, header: number): string | null {
  if (ip.byteLength < header + 8 + QUOTED_BYTES || !ICMP_ERRORS.has(ip.getUint8(header))) return null;
  return (
    bytesOf(ip, 4, 6) + bytesOf(ip, header, header + 2) + bytesOf(ip, header + 8, header + 8 + QUOTED_BYTES)
  );
}

/** Fields of the IP header; `header`: its length, including extensions. */
type Head = Pick<LonePacket, "identification" | "transportBytes" | "start" | "ipid" | "fragment"> & {
  header: number;
  hosts: string;
  /** The protocol behind the IP header. */
  next: number;
};

function headOf4(
  ip: DataView,
  { proto, length, fragmented }: { proto: number; length: number; fragmented: boolean },
): Head {
  const field = ip.getUint16(6);
  const ipid = ip.getUint16(4);
  const header = (ip.getUint8(0) & 15) << 2;
  return {
    header,
    hosts: bytesOf(ip, 12, 20),
    next: proto,
    identification: ipid,
    transportBytes: length - header,
    start: startOf(ip, header, proto),
    ipid,
    fragment: fragmented ? { offset: (field & 0x1fff) * 8, more: (field & 0x2000) !== 0 } : null,
  };
}

const FRAGMENT = 44;
const AUTHENTICATION = 51;
/** Hop-by-hop, routing, authentication, destination options. */
const EXTENSIONS: ReadonlySet<number> = new Set([0, 43, AUTHENTICATION, 60]);
/** Bytes behind the ports, length and checksum of UDP: enough to identify a packet. */
const START_FROM = 8;
const TCP_CHECKSUM = 16;
const START_TO = 24;
export const START_BYTES = START_TO - START_FROM;

function headOf6(ip: DataView, length: number, fragmented: boolean): Head | null {
  if (ip.byteLength < 40) return null;
  let [next, at] = [ip.getUint8(6), 40];
  let id: number | null = null;
  let field = 0;
  while ((next === FRAGMENT || EXTENSIONS.has(next)) && at + 8 <= ip.byteLength) {
    const own = next;
    next = ip.getUint8(at);
    if (own === FRAGMENT) {
      [field, id] = [ip.getUint16(at + 2), ip.getUint32(at + 4)];
      at += 8;
      break;
    }
    const size = ip.getUint8(at + 1);
    at += own === AUTHENTICATION ? (size + 2) * 4 : (size + 1) * 8;
  }
  return {
    header: at,
    hosts: bytesOf(ip, 8, 40),
    next,
    identification: fragmented ? id : null,
    transportBytes: length - at,
    start: startOf(ip, at, next),
    ipid: null,
    fragment: fragmented ? { offset: field & 0xfff8, more: (field & 1) !== 0 } : null,
  };
}

/** Omits TCP's checksum: with offload the card fills it in after the capture, and address translation changes it. */
function startOf(ip: DataView, header: number, proto: number): string {
  const start = bytesOf(ip, header + START_FROM, header + START_TO);
  if (proto !== TCP) return start;
  const checksum = TCP_CHECKSUM - START_FROM;
  return `${start.slice(0, checksum)}${"\0\0".slice(0, Math.max(0, start.length - checksum))}${start.slice(checksum + 2)}`;
}

/** Returns one character per byte, of those that were captured. */
function bytesOf(ip: DataView, from: number, to: number): string {
  let text = "";
  for (let at = from; at < Math.min(to, ip.byteLength); at++) text += String.fromCharCode(ip.getUint8(at));
  return text;
}

function mssOf(ip: DataView, from: number, to: number): number | null {
  for (let at = from; at + 1 < to; ) {
    const kind = ip.getUint8(at);
    if (kind === 0) return null;
    if (kind === 1) {
      at++;
      continue;
    }
    const size = ip.getUint8(at + 1);
    if (kind === MSS_OPTION && size === 4 && at + 4 <= to) return ip.getUint16(at + 2);
    if (size < 2) return null;
    at += size;
  }
  return null;
}
