/**
 * In-band Start and End messages (LDA, section III): the sender inserts them into the stream that they cut, as UDP packets to CONTROL_PORT. They follow the
 * path of the packets around them, so the packets between Start n and End n are the same at both ends of a FIFO segment. The payload, little-endian
 * (docs/formats/control.md):
 *
 *   0      4       5     6      8          16            24       28      32
 *   +------+-------+-----+------+----------+-------------+--------+-------+
 *   |"HOPC"|version|kind | zero | sequence | reference   | stream | CRC   |
 *   | u32  | u8    | u8  | u16  | u64      | i64 ns      | u32    | u32   |
 *   +------+-------+-----+------+----------+-------------+--------+-------+
 *
 * kind 1 Start, 2 End; reference: the sender's clock at sending (times in the epoch are relative to that of Start, at both ends); stream: CRC-32C of the
 * segment's label, so that messages of other segments that cross a point are ignored.
 */
import { ByteWriter, crc32c } from "../base/bytes.ts";
import type { Kernels } from "../base/kernels.ts";
import type { PacketBatch } from "../capture/batch.ts";

export const CONTROL_PORT = 17_477;
export const CONTROL_BYTES = 32;
const MAGIC = 0x43504f48; // "HOPC"
const VERSION = 1;
const KIND = { start: 1, end: 2 } as const;
const UDP = 17;
const UDP_HEADER = 8;

export interface ControlMessage {
  kind: "start" | "end";
  /** Number of the epoch: Start and End of one epoch have the same, the next epoch one more. */
  sequence: bigint;
  /** ns since 1970 on the sender's clock. */
  referenceNs: bigint;
  stream: number;
}

export function controlStream(segment: string): number {
  return crc32c(new TextEncoder().encode(segment));
}

export function encodeControl(message: ControlMessage): Uint8Array {
  const out = new ByteWriter(CONTROL_BYTES);
  out.u32(MAGIC);
  out.u8(VERSION);
  out.u8(KIND[message.kind]);
  out.u16(0);
  out.u64(message.sequence);
  out.i64(message.referenceNs);
  out.u32(message.stream);
  out.u32(crc32c(out.view()));
  return out.finish();
}

/** Null for anything else: a packet that merely resembles a message is ordinary traffic. */
export function decodeControl(bytes: Uint8Array): ControlMessage | null {
  if (bytes.length < CONTROL_BYTES) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, CONTROL_BYTES);
  if (view.getUint32(0, true) !== MAGIC || bytes[4] !== VERSION) return null;
  const kind = bytes[5] === KIND.start ? "start" : bytes[5] === KIND.end ? "end" : null;
  if (kind === null || view.getUint32(28, true) !== crc32c(bytes.subarray(0, 28))) return null;
  return {
    kind,
    sequence: view.getBigUint64(8, true),
    referenceNs: view.getBigInt64(16, true),
    stream: view.getUint32(24, true),
  };
}

/** Returns the control message in a row's captured bytes; null for other rows. */
export function controlOfRow(batch: PacketBatch, row: number, port: number): ControlMessage | null {
  const ip = batch.header[row]!;
  // Simulated rows have no bytes.
  if (ip === 0) return null;
  return controlAt(batch.kernels, ip, ip + batch.captured[row]!, port);
}

function controlAt(kernels: Kernels, ip: number, end: number, port: number): ControlMessage | null {
  const { u8 } = kernels;
  const version = u8[ip]! >>> 4;
  const udp = version === 4 ? ip + (u8[ip]! & 15) * 4 : ip + 40;
  const protocol = version === 4 ? u8[ip + 9] : u8[ip + 6];
  if (protocol !== UDP || udp + UDP_HEADER + CONTROL_BYTES > end) return null;
  // A later fragment has no UDP header.
  if (version === 4 && (((u8[ip + 6]! << 8) | u8[ip + 7]!) & 0x1fff) !== 0) return null;
  if (((u8[udp + 2]! << 8) | u8[udp + 3]!) !== port) return null;
  return decodeControl(u8.subarray(udp + UDP_HEADER, udp + UDP_HEADER + CONTROL_BYTES));
}
