/** A block of a packet ring as the Linux kernel writes it (TPACKET_V3), for tests: the fields are those of linux/if_packet.h. */

export interface RingPacket {
  timeNs: bigint;
  /** As on the wire, including the tag. */
  frame: Uint8Array;
  wire?: number;
  /** sll_pkttype: 0 to us, 1 broadcast, 2 multicast, 3 to others, 4 sent. */
  kind?: number;
  /** The network card removed the tag: it is passed in addition to the frame. */
  stripTag?: boolean;
  /** Additional status bits. */
  status?: number;
}

const BLOCK_HEAD = 48;
const HEADER = 68;
const ALIGN = 16;

export function ringBlock(packets: readonly RingPacket[]): { bytes: Buffer; first: number } {
  const parts: Buffer[] = [Buffer.alloc(BLOCK_HEAD)];
  packets.forEach((packet, i) => {
    const last = i === packets.length - 1;
    parts.push(ringPacket(packet, last));
  });
  const bytes = Buffer.concat(parts);
  bytes.writeUInt32LE(1, 8);
  bytes.writeUInt32LE(packets.length, 12);
  bytes.writeUInt32LE(BLOCK_HEAD, 16);
  bytes.writeUInt32LE(bytes.length, 20);
  return { bytes, first: BLOCK_HEAD };
}

function ringPacket(
  { timeNs, frame, wire, kind = 0, stripTag, status = 0 }: RingPacket,
  last: boolean,
): Buffer {
  const bare = stripTag ? Buffer.concat([frame.subarray(0, 12), frame.subarray(16)]) : frame;
  const wireBytes = (wire ?? frame.length) - (frame.length - bare.length);
  // The network header is aligned; the frame begins before it, by the length of its link header.
  const network = Math.ceil((HEADER + 16) / ALIGN) * ALIGN;
  const mac = network - 14;
  const bytes = Buffer.alloc(Math.ceil((mac + bare.length) / 8) * 8);
  bytes.writeUInt32LE(last ? 0 : bytes.length, 0);
  bytes.writeUInt32LE(Number(timeNs / 1_000_000_000n), 4);
  bytes.writeUInt32LE(Number(timeNs % 1_000_000_000n), 8);
  bytes.writeUInt32LE(bare.length, 12);
  bytes.writeUInt32LE(wireBytes, 16);
  bytes.writeUInt32LE((1 | status | (stripTag ? (1 << 4) | (1 << 6) : 0)) >>> 0, 20);
  bytes.writeUInt16LE(mac, 24);
  bytes.writeUInt16LE(network, 26);
  if (stripTag) {
    const tag = Buffer.from(frame.subarray(12, 16));
    bytes.writeUInt32LE(tag.readUInt16BE(2), 32);
    bytes.writeUInt16LE(tag.readUInt16BE(0), 36);
  }
  bytes.writeUInt16LE(17, 48);
  bytes.writeUInt8(kind, 58);
  bytes.set(bare, mac);
  return bytes;
}
