/**
 * Reference packets and probes on the wire: STAMP test packets (RFC 8762, unauthenticated, with the session id of RFC 8972) in UDP, so that
 * routers and hosts that speak STAMP can send or serve them. Times are PTPv2 truncated (seconds and nanoseconds, Z bit set) where we send;
 * NTP times (Z clear) are understood too. All numbers big-endian.
 *
 *    0  u32  sequence number
 *    4  u32  seconds (PTP: since 1970 TAI or UTC as the sender's clock has it; NTP: since 1900)
 *    8  u32  nanoseconds, or the NTP fraction (2^-32 s)
 *   12  u16  error estimate: S (synchronised), Z (PTP), scale (6 bits), multiplier (8): multiplier * 2^scale * 2^-32 s
 *   14  u16  session id
 *   16       zeros up to 44 bytes
 */
export const STAMP_PORT = 862;
export const STAMP_BYTES = 44;
/** Seconds between 1900 and 1970. */
const NTP_EPOCH = 2_208_988_800n;

export interface StampPacket {
  sequence: number;
  /** Sending time, ns since 1970 by the sender's clock. */
  timeNs: bigint;
  session: number;
  synchronised: boolean;
  /** Largest error of the sender's clock, as it says; null where it does not. */
  errorNs: number | null;
}

export function encodeStamp(packet: StampPacket, into: Buffer = Buffer.alloc(STAMP_BYTES)): Buffer {
  into.writeUInt32BE(packet.sequence >>> 0, 0);
  into.writeUInt32BE(Number((packet.timeNs / 1_000_000_000n) & 0xffff_ffffn), 4);
  into.writeUInt32BE(Number(packet.timeNs % 1_000_000_000n), 8);
  into.writeUInt16BE(encodeError(packet), 12);
  into.writeUInt16BE(packet.session & 0xffff, 14);
  return into;
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

/** Null where the bytes are no STAMP packet: too short, or a time that no clock shows. */
export function decodeStamp(bytes: Uint8Array, at = 0, length = bytes.length - at): StampPacket | null {
  if (length < 16) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, length);
  const error = view.getUint16(12);
  const seconds = BigInt(view.getUint32(4));
  const fraction = view.getUint32(8);
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
    session: view.getUint16(14),
    synchronised: (error & 0x8000) !== 0,
    // RFC 4656: a multiplier of 0 makes the estimate void.
    errorNs: multiplier === 0 ? null : (multiplier * 2 ** scale * 1e9) / 2 ** 32,
  };
}
