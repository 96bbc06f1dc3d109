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
}

const GLOBAL = 24;
const RECORD = 16;
const ETHERNET = 14;
const IP = 20;
const UDP = 8;

export function writePcap(path: string, packets: readonly SmallPacket[]): void {
  writeFileSync(path, Buffer.concat([pcapHeader(), ...packets.map(frame)]));
}

/** What a file or a pipe begins with. */
export function pcapHeader(): Buffer {
  const head = Buffer.alloc(GLOBAL);
  head.writeUInt32LE(0xa1b23c4d, 0);
  head.writeUInt16LE(2, 4);
  head.writeUInt16LE(4, 6);
  head.writeUInt32LE(65_535, 16);
  head.writeUInt32LE(1, 20);
  return head;
}

export function frame({
  timeNs,
  src,
  dst,
  sport,
  dport,
  ipid,
  payload = new Uint8Array(20),
  ttl = 64,
}: SmallPacket): Buffer {
  const length = IP + UDP + payload.length;
  const out = Buffer.alloc(RECORD + ETHERNET + length);
  out.writeUInt32LE(Number(timeNs / 1_000_000_000n), 0);
  out.writeUInt32LE(Number(timeNs % 1_000_000_000n), 4);
  out.writeUInt32LE(ETHERNET + length, 8);
  out.writeUInt32LE(ETHERNET + length, 12);
  out.writeUInt16BE(0x0800, RECORD + 12);
  const ip = RECORD + ETHERNET;
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
  return out;
}
