/** Payloads of the UDP packets of a capture, for captures that are read for their contents, not their timing (flow exports). */
import { FormatError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { formatIpv4, formatIpv6 } from "../capture/address.ts";
import { FLAG } from "../capture/batch.ts";
import { CaptureReader } from "../capture/reader.ts";
import { MemorySource } from "../capture/source/memory-source.ts";

export interface Datagram {
  /** The captured part of the payload, valid until the next datagram is requested; its offset in the file and its length on the wire. */
  view: DataView;
  offset: number;
  length: number;
  /** Address and port of the sender. */
  exporter: string;
}

const UDP = 17;
const IPV6_HEADER = 40;
/** Files are read one after the other with the same kernels, which take longer to create than a small file to read. */
let idle: Kernels | null = null;

/** Returns the number of packets that are not UDP, or fragments of it. A truncated or damaged capture yields its contents and then throws a FormatError. */
export async function* capturedDatagrams(
  bytes: Uint8Array,
  file: string,
): AsyncGenerator<Datagram, number, undefined> {
  const kernels = idle ?? new Kernels();
  idle = null;
  const reader = await CaptureReader.of(kernels, new MemorySource(file, bytes));
  let found = 0;
  try {
    while (await reader.next()) {
      const { batch } = reader;
      for (let row = 0; row < batch.count; row++) {
        if ((batch.flags[row]! & (FLAG.fragment | FLAG.laterFragment)) !== 0) continue;
        const ip = batch.header[row]!;
        const packet = new DataView(kernels.memory.buffer, ip, batch.captured[row]!);
        const datagram = datagramIn(packet, reader.offsetOf(ip));
        if (!datagram) continue;
        found++;
        yield datagram;
      }
    }
    if (reader.damage) throw new FormatError("truncated", file, reader.damage.offset, reader.damage.what);
    return reader.statistics().packets - found;
  } finally {
    reader.close();
    reader.free();
    idle = kernels;
  }
}

/** `packet`: from the IP header on. IPv6 extension headers are not followed: no exporter sends them. */
function datagramIn(packet: DataView, offset: number): Datagram | null {
  if (packet.byteLength < 20) return null;
  if (packet.getUint8(0) >> 4 === 4) {
    if (packet.getUint8(9) !== UDP) return null;
    return udpAt(packet, 4 * (packet.getUint8(0) & 15), offset, formatIpv4(packet.getUint32(12)));
  }
  if (packet.byteLength < IPV6_HEADER || packet.getUint8(6) !== UDP) return null;
  const word = (i: number) => packet.getUint32(8 + 4 * i);
  return udpAt(packet, IPV6_HEADER, offset, formatIpv6([word(0), word(1), word(2), word(3)]));
}

function udpAt(packet: DataView, udp: number, offset: number, address: string): Datagram | null {
  if (packet.byteLength - udp < 8) return null;
  const length = packet.getUint16(udp + 4) - 8;
  if (length <= 0) return null;
  const from = udp + 8;
  const captured = Math.min(length, packet.byteLength - from);
  return {
    view: new DataView(packet.buffer, packet.byteOffset + from, captured),
    offset: offset + from,
    length,
    exporter: `${address}:${packet.getUint16(udp)}`,
  };
}
