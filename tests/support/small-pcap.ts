/** Small captures made by hand: UDP over IPv4 over Ethernet, nanosecond pcap. */
import { writeFileSync } from "node:fs";

export interface SmallPacket {
  timeNs: bigint;
  src: string;
  dst: string;
  sport: number;
  dport: number;
  ipid: number;
  payload?: Uint8Array;
  /** Default 64. */
  ttl?: number;
  /** Between the MAC addresses and the EtherType. */
  tags?: Uint8Array;
  /** Behind the packet. */
  trailer?: Uint8Array;
  /** Captured bytes; default: all. */
  snap?: number;
}

const GLOBAL = 24;
const RECORD = 16;
const ETHERNET = 14;
const IP = 20;
const UDP = 8;

export function writePcap(path: string, packets: readonly SmallPacket[]): void {
  writeFileSync(path, Buffer.concat([pcapHeader(), ...packets.map(frame)]));
}

/** Returns the header of a file or a pipe. */
export function pcapHeader(): Buffer {
  const head = Buffer.alloc(GLOBAL);
  head.writeUInt32LE(0xa1b23c4d, 0);
  head.writeUInt16LE(2, 4);
  head.writeUInt16LE(4, 6);
  head.writeUInt32LE(65_535, 16);
  head.writeUInt32LE(1, 20);
  return head;
}

export function frame(packet: SmallPacket): Buffer {
  const { timeNs, src, dst, sport, dport, ipid, ttl = 64 } = packet;
  const { payload = new Uint8Array(20), tags = new Uint8Array(), trailer = new Uint8Array() } = packet;
  const length = IP + UDP + payload.length;
  const bytes = ETHERNET + tags.length + length + trailer.length;
  const out = Buffer.alloc(RECORD + bytes);
  out.writeUInt32LE(Number(timeNs / 1_000_000_000n), 0);
  out.writeUInt32LE(Number(timeNs % 1_000_000_000n), 4);
  out.writeUInt32LE(Math.min(bytes, packet.snap ?? bytes), 8);
  out.writeUInt32LE(bytes, 12);
  out.set(tags, RECORD + 12);
  const ip = RECORD + ETHERNET + tags.length;
  out.writeUInt16BE(0x0800, ip - 2);
  out[ip] = 0x45;
  out.writeUInt16BE(length, ip + 2);
  out.writeUInt16BE(ipid, ip + 4);
  out[ip + 8] = ttl;
  out[ip + 9] = 17;
  out.set(src.split(".").map(Number), ip + 12);
  out.set(dst.split(".").map(Number), ip + 16);
  out.writeUInt16BE(sport, ip + IP);
  out.writeUInt16BE(dport, ip + IP + 2);
  out.writeUInt16BE(UDP + payload.length, ip + IP + 4);
  out.set(payload, ip + IP + UDP);
  out.set(trailer, ip + length);
  return out.subarray(0, RECORD + Math.min(bytes, packet.snap ?? bytes));
}
