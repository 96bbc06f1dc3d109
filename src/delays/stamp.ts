/**
 * Reference packets and probes on the wire: STAMP test packets (RFC 8762, with the session id of RFC 8972) in UDP, so that routers and hosts with STAMP can
 * send or reflect them. Times are PTPv2 truncated (seconds and nanoseconds, Z bit set) when sent from here; NTP times (Z clear) are understood, too. All
 * numbers big-endian.
 *
 *    0  u32  sequence number
 *    4  u32  seconds (PTP: since 1970 TAI or UTC as the sender's clock has it; NTP: since 1900)
 *    8  u32  nanoseconds, or the NTP fraction (2^-32 s)
 *   12  u16  error estimate: S (synchronised), Z (PTP), scale (6 bits), multiplier (8): multiplier * 2^scale * 2^-32 s
 *   14  u16  session id
 *   16       zeros up to 44 bytes
 *
 * Authenticated (RFC 8762, section 4.2.2):
 *
 *    0  u32  sequence number
 *    4       12 zero bytes
 *   16       seconds, fraction, error estimate and session id, as above
 *   28       68 zero bytes
 *   96       the first 16 bytes of HMAC-SHA-256 over bytes 0 to 95
 */
import { createHmac, timingSafeEqual } from "node:crypto";

export const STAMP_PORT = 862;
export const STAMP_BYTES = 44;
export const AUTHENTICATED_STAMP_BYTES = 112;
const COVERED_BYTES = 96;
const CODE_BYTES = 16;
/** Offsets of the time. */
const OPEN_TIME = 4;
const AUTHENTICATED_TIME = 16;
/** Seconds between 1900 and 1970. */
const NTP_EPOCH = 2_208_988_800n;

export interface StampPacket {
  sequence: number;
  /** Sending time, ns since 1970 by the sender's clock. */
  timeNs: bigint;
  session: number;
  synchronised: boolean;
  /** Maximum error of the sender's clock, as stated; null if not stated. */
  errorNs: number | null;
}

export function encodeStamp(packet: StampPacket, into: Buffer = Buffer.alloc(STAMP_BYTES)): Buffer {
  into.writeUInt32BE(packet.sequence >>> 0, 0);
  writeTime(packet, into, OPEN_TIME);
  return into;
}

/** The same in authenticated mode. */
export function encodeAuthenticatedStamp(
  packet: StampPacket,
  key: Uint8Array,
  into: Buffer = Buffer.alloc(AUTHENTICATED_STAMP_BYTES),
): Buffer {
  into.fill(0, 0, COVERED_BYTES);
  into.writeUInt32BE(packet.sequence >>> 0, 0);
  writeTime(packet, into, AUTHENTICATED_TIME);
  codeOf(into, key).copy(into, COVERED_BYTES);
  return into;
}

function writeTime(packet: StampPacket, into: Buffer, at: number): void {
  into.writeUInt32BE(Number((packet.timeNs / 1_000_000_000n) & 0xffff_ffffn), at);
  into.writeUInt32BE(Number(packet.timeNs % 1_000_000_000n), at + 4);
  into.writeUInt16BE(encodeError(packet), at + 8);
  into.writeUInt16BE(packet.session & 0xffff, at + 10);
}

function codeOf(packet: Uint8Array, key: Uint8Array): Buffer {
  return createHmac("sha256", key).update(packet.subarray(0, COVERED_BYTES)).digest().subarray(0, CODE_BYTES);
}

function encodeError({ synchronised, errorNs }: StampPacket): number {
  let units = Math.max(1, Math.ceil(((errorNs ?? 1000) / 1e9) * 2 ** 32));
  let scale = 0;
  while (units > 255 && scale < 63) {
    units = Math.ceil(units / 2);
    scale++;
  }
  return (synchronised ? 0x8000 : 0) | 0x4000 | (scale << 8) | units;
}

/** Returns null if the bytes are not a STAMP packet: too short, or an impossible time. */
export function decodeStamp(bytes: Uint8Array, at = 0, length = bytes.length - at): StampPacket | null {
  if (length < OPEN_TIME + 12) return null;
  return readTime(new DataView(bytes.buffer, bytes.byteOffset + at, length), OPEN_TIME);
}

/** In authenticated mode; returns null also if the code does not match the key. */
export function decodeAuthenticatedStamp(bytes: Uint8Array, key: Uint8Array): StampPacket | null {
  if (bytes.length < AUTHENTICATED_STAMP_BYTES) return null;
  const code = bytes.subarray(COVERED_BYTES, COVERED_BYTES + CODE_BYTES);
  if (!timingSafeEqual(code, codeOf(bytes, key))) return null;
  return readTime(new DataView(bytes.buffer, bytes.byteOffset, bytes.length), AUTHENTICATED_TIME);
}

function readTime(view: DataView, at: number): StampPacket | null {
  const error = view.getUint16(at + 8);
  const seconds = BigInt(view.getUint32(at));
  const fraction = view.getUint32(at + 4);
  let timeNs: bigint;
  if ((error & 0x4000) !== 0) {
    if (fraction >= 1_000_000_000) return null;
    timeNs = seconds * 1_000_000_000n + BigInt(fraction);
  } else {
    if (seconds < NTP_EPOCH) return null;
    timeNs = (seconds - NTP_EPOCH) * 1_000_000_000n + ((BigInt(fraction) * 1_000_000_000n) >> 32n);
  }
  const multiplier = error & 0xff;
  const scale = (error >> 8) & 0x3f;
  return {
    sequence: view.getUint32(0),
    timeNs,
    session: view.getUint16(at + 10),
    synchronised: (error & 0x8000) !== 0,
    // RFC 4656: a multiplier of 0 makes the estimate void.
    errorNs: multiplier === 0 ? null : (multiplier * 2 ** scale * 1e9) / 2 ** 32,
  };
}
