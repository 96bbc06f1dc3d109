/** Payloads of the UDP packets of a pcap file held in memory: for the few captures whose contents are read, not timed (flow exports). */
import { FormatError } from "../base/errors.ts";
import { formatIpv4, formatIpv6 } from "./address.ts";
import { PCAP_HEADER_BYTES, sniff } from "./sniff.ts";

export interface Datagram {
  /** Offset of the payload in the file, its length on the wire, and what was captured of it. */
  from: number;
  length: number;
  captured: number;
  /** Address and port that sent it. */
  exporter: string;
}

/** Bytes of link headers up to the type of what follows, and where that type stands; null: it begins with IP. */
const LINKS = new Map<number, { header: number; type: number } | null>([
  [1, { header: 14, type: 12 }],
  [113, { header: 16, type: 14 }],
  [276, { header: 20, type: 0 }],
  [12, null],
  [14, null],
  [101, null],
  [228, null],
  [229, null],
]);
const VLAN = new Set([0x8100, 0x88a8, 0x9100]);
const UDP = 17;

/** `skipped`: packets that are not UDP, or fragments of it. */
export function capturedDatagrams(
  bytes: Uint8Array,
  file: string,
): { datagrams: Datagram[]; skipped: number } {
  const sniffed = sniff(bytes);
  if (sniffed.format !== "pcap") {
    const message = "exports are read from pcap: convert it first (editcap -F pcap IN OUT)";
    throw new FormatError("unknown-format", file, 0, message);
  }
  const { swapped, modified, link } = sniffed.header;
  if (!LINKS.has(link)) throw new FormatError("unknown-format", file, 20, `link type ${link}`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const head = modified ? 24 : 16;
  const datagrams: Datagram[] = [];
  let skipped = 0;
  for (let at = PCAP_HEADER_BYTES; at < bytes.length; ) {
    if (bytes.length - at < head) throw new FormatError("truncated", file, at, "a packet's header is cut");
    const captured = view.getUint32(at + 8, !swapped);
    const end = at + head + captured;
    if (end > bytes.length) {
      const message = `a packet of ${captured} bytes, ${bytes.length - at - head} are left`;
      throw new FormatError("truncated", file, at, message);
    }
    const datagram = datagramIn(view, at + head, end, link);
    if (datagram) datagrams.push(datagram);
    else skipped++;
    at = end;
  }
  return { datagrams, skipped };
}

function datagramIn(view: DataView, from: number, end: number, link: number): Datagram | null {
  const layer = LINKS.get(link);
  let ip = from;
  if (layer) {
    if (end - from < layer.header) return null;
    ip = from + layer.header;
    let type = view.getUint16(from + layer.type);
    while (VLAN.has(type) && end - ip >= 4) {
      type = view.getUint16(ip + 2);
      ip += 4;
    }
    if (type !== 0x0800 && type !== 0x86dd) return null;
  }
  if (end - ip < 20) return null;
  const version = view.getUint8(ip) >> 4;
  if (version === 4) {
    const header = 4 * (view.getUint8(ip) & 15);
    // More fragments, or not the first: put together nowhere here.
    const fragment = (view.getUint16(ip + 6) & 0x3fff) !== 0;
    if (header < 20 || fragment || view.getUint8(ip + 9) !== UDP) return null;
    return udpAt(view, ip + header, end, formatIpv4(view.getUint32(ip + 12)));
  }
  if (version !== 6 || end - ip < 40 || view.getUint8(ip + 6) !== UDP) return null;
  const word = (i: number) => view.getUint32(ip + 8 + 4 * i);
  return udpAt(view, ip + 40, end, formatIpv6([word(0), word(1), word(2), word(3)]));
}

function udpAt(view: DataView, udp: number, end: number, address: string): Datagram | null {
  if (end - udp < 8) return null;
  const length = view.getUint16(udp + 4) - 8;
  if (length <= 0) return null;
  const from = udp + 8;
  return {
    from,
    length,
    captured: Math.min(length, end - from),
    exporter: `${address}:${view.getUint16(udp)}`,
  };
}
