/** Builds packets layer by layer for tests: each layer takes the bytes inside and returns them with the layer added. */

import { crc32 } from "node:zlib";

export type Layer = (inside: Uint8Array) => Uint8Array;

/** The outermost layer is first: `stack([ethernet(0x0800), ipv4({...}), udp({...})], payload)`. */
export function stack(layers: readonly Layer[], payload: Uint8Array = new Uint8Array(0)): Uint8Array {
  return layers.reduceRight<Uint8Array>((inside, layer) => layer(inside), payload);
}

export function bytes(...parts: (number | Uint8Array)[]): Uint8Array {
  let length = 0;
  for (const part of parts) length += typeof part === "number" ? 1 : part.length;
  // All bytes are written below.
  const out = Buffer.allocUnsafe(length);
  let at = 0;
  for (const part of parts) {
    if (typeof part === "number") out[at++] = part;
    else {
      out.set(part, at);
      at += part.length;
    }
  }
  return out;
}
export function be16(v: number): Uint8Array {
  const out = new Uint8Array(2);
  out[0] = v >>> 8;
  out[1] = v;
  return out;
}
export function be32(v: number): Uint8Array {
  const out = new Uint8Array(4);
  out[0] = v >>> 24;
  out[1] = v >>> 16;
  out[2] = v >>> 8;
  out[3] = v;
  return out;
}
export function le32(v: number): Uint8Array {
  return be32(v).reverse();
}
/** Adds a fixed header in front. */
export function prefix(...parts: (number | Uint8Array)[]): Layer {
  return (inside) => bytes(...parts, inside);
}
/** Adds bytes behind: padding or a frame check sequence. */
export function trailer(behind: Uint8Array): Layer {
  return (inside) => bytes(inside, behind);
}

/** MAC addresses of real vendors: by them tshark distinguishes an Ethernet pseudowire with a control word from one without. */
const MAC = Uint8Array.of(0x00, 0x1b, 0x21, 0xaa, 0xbb, 0x01, 0x3c, 0xfd, 0xfe, 0xcc, 0xdd, 0x02);

export function ethernet(type: number, mac: Uint8Array = MAC): Layer {
  return prefix(mac, be16(type));
}
/** Adds the frame check sequence of an Ethernet frame. */
export function frameCheck(): Layer {
  return (inside) => bytes(inside, le32(crc32(inside)));
}
/** A tag with EtherType `type`; the layer outside must have 0x8100 or 0x88a8. */
export function vlan(id: number, type: number, priority = 0): Layer {
  return prefix(be16((priority << 13) | id), be16(type));
}
/** Labels, the last one with the bottom-of-stack bit. */
export function mpls(...labels: number[]): Layer {
  return prefix(...labels.map((l, i) => be32((l << 12) | (i === labels.length - 1 ? 0x100 : 0) | 64)));
}
export function pppoe(session: number): Layer {
  return (inside) => bytes(0x11, 0, be16(session), be16(inside.length), inside);
}
/** PPP protocol field; 0x21 and 0x57 can be compressed to one byte. */
export function ppp(protocol: number, compressed = false): Layer {
  return prefix(compressed ? protocol : be16(protocol));
}
export function llcSnap(type: number, organisation = 0): Layer {
  return prefix(0xaa, 0xaa, 3, organisation >>> 16, be16(organisation & 0xffff), be16(type));
}
/** 802.3: the length instead of a type. */
export function ethernet8023(): Layer {
  return (inside) => bytes(MAC, be16(inside.length), inside);
}
export function sll(type: number): Layer {
  return prefix(be16(0), be16(1), be16(6), MAC.subarray(6), be16(0), be16(type));
}
/** Solaris ipnet. */
export function ipnet(family: number): Layer {
  return (inside) => bytes(1, family, be16(0), be32(inside.length), new Uint8Array(16), inside);
}
/** Netfilter log: two attributes, the packet last. */
export function nflog(family: number): Layer {
  return (inside) =>
    bytes(family, 0, be16(1), 6, 0, 10, 0, 1, 2, 0, 0, be16(inside.length + 4).reverse(), 9, 0, inside);
}
/** IP over InfiniBand: routing header, EtherType. */
export function ipoib(type: number): Layer {
  return prefix(0x60, new Uint8Array(39), be16(type), be16(0));
}
export function preamble(): Layer {
  return prefix(0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0xd5);
}
export function sll2(type: number): Layer {
  return prefix(be16(type), be16(0), be32(2), be16(1), 0, 6, MAC.subarray(6), be16(0));
}

export function checksum(data: Uint8Array): number {
  let sum = 0;
  for (let i = 0; i < data.length; i += 2) sum += (data[i]! << 8) | (data[i + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

export interface Ipv4Fields {
  src?: Uint8Array;
  dst?: Uint8Array;
  proto: number;
  id?: number;
  /** Flags and fragment offset (in units of 8 bytes) as one field. */
  fragment?: number;
  ttl?: number;
  tos?: number;
  options?: Uint8Array;
  /** Total length in the header, if it differs from the true one. */
  total?: number;
}
export const V4_SRC = Uint8Array.of(10, 1, 2, 3);
export const V4_DST = Uint8Array.of(192, 168, 9, 8);

export function ipv4(f: Ipv4Fields): Layer {
  return (inside) => {
    const options = f.options ?? new Uint8Array(0);
    const header = bytes(
      0x40 | (5 + options.length / 4),
      f.tos ?? 0,
      be16(f.total ?? 20 + options.length + inside.length),
      be16(f.id ?? 0x1234),
      be16(f.fragment ?? 0),
      f.ttl ?? 64,
      f.proto,
      be16(0),
      f.src ?? V4_SRC,
      f.dst ?? V4_DST,
      options,
    );
    header.set(be16(checksum(header)), 10);
    return bytes(header, inside);
  };
}

export interface Ipv6Fields {
  src?: Uint8Array;
  dst?: Uint8Array;
  next: number;
  hopLimit?: number;
  trafficClass?: number;
  flowLabel?: number;
  /** Payload length in the header, if it differs from the true one. */
  payload?: number;
}
export const V6_SRC = Uint8Array.from([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
export const V6_DST = Uint8Array.from([0x20, 1, 0x0d, 0xb8, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);

export function ipv6(f: Ipv6Fields): Layer {
  return (inside) =>
    bytes(
      be32(0x60000000 | ((f.trafficClass ?? 0) << 20) | (f.flowLabel ?? 0)),
      be16(f.payload ?? inside.length),
      f.next,
      f.hopLimit ?? 64,
      f.src ?? V6_SRC,
      f.dst ?? V6_DST,
      inside,
    );
}
/** Hop-by-hop (0), routing (43), destination options (60), mobility (135): `units` of 8 bytes beyond the first; filled with PadN. */
export function extension(next: number, units = 0): Layer {
  return prefix(next, units, 1, 4 + 8 * units - 0, new Uint8Array(4 + 8 * units));
}
export function routing(next: number): Layer {
  return prefix(next, 2, 4, 0, 0, 0, 0, 0, V6_DST);
}
/** `field`: offset and more-fragments bit as in the header. */
export function fragment6(next: number, field: number, id: number): Layer {
  return prefix(next, 0, be16(field), be32(id));
}
export function authentication(next: number): Layer {
  return prefix(next, 4, be16(0), be32(7), be32(1), new Uint8Array(12));
}

export interface Ports {
  sport?: number;
  dport?: number;
}
export function udp({ sport = 1024, dport = 53, sum = 0xabcd }: Ports & { sum?: number } = {}): Layer {
  return (inside) => bytes(be16(sport), be16(dport), be16(8 + inside.length), be16(sum), inside);
}
export interface TcpFields extends Ports {
  seq?: number;
  ack?: number;
  flags?: number;
  sum?: number;
  options?: Uint8Array;
}
export function tcp({
  sport = 1024,
  dport = 443,
  seq = 1,
  ack = 2,
  flags = 0x18,
  sum = 0x5678,
  options,
}: TcpFields = {}): Layer {
  const extra = options ?? new Uint8Array(0);
  return prefix(
    be16(sport),
    be16(dport),
    be32(seq),
    be32(ack),
    (5 + extra.length / 4) << 4,
    flags,
    be16(0xffff),
    be16(sum),
    be16(0),
    extra,
  );
}
export function icmp(type: number, code = 0, id = 7, sequence = 1, sum = 0x1111): Layer {
  return prefix(type, code, be16(sum), be16(id), be16(sequence));
}
export function sctp({ sport = 2905, dport = 2906, sum = 0x01020304 }: Ports & { sum?: number } = {}): Layer {
  // One DATA chunk with the payload.
  return (inside) => {
    const pad = new Uint8Array((4 - (inside.length % 4)) % 4);
    const chunk = bytes(0, 3, be16(16 + inside.length), be32(1), be16(0), be16(0), be32(0), inside, pad);
    return bytes(be16(sport), be16(dport), be32(99), be32(sum), chunk);
  };
}
export function dccp({ sport = 5001, dport = 5002, sum = 0x2222 }: Ports & { sum?: number } = {}): Layer {
  // DATA packet with 48-bit sequence numbers
  return prefix(be16(sport), be16(dport), 4, 0, be16(sum), (2 << 1) | 1, 0, be16(0), be32(77));
}

export function gre(
  type: number,
  { key, sequence, sum }: { key?: number; sequence?: number; sum?: boolean } = {},
): Layer {
  const bits = (sum ? 0x8000 : 0) | (key !== undefined ? 0x2000 : 0) | (sequence !== undefined ? 0x1000 : 0);
  const fields: Uint8Array[] = [];
  if (sum) fields.push(be32(0));
  if (key !== undefined) fields.push(be32(key));
  if (sequence !== undefined) fields.push(be32(sequence));
  return prefix(be16(bits), be16(type), ...fields);
}
/** ERSPAN type III: 12 bytes; with `more` also a platform header of 8 bytes. */
export function erspan3(more: boolean): Layer {
  const head = prefix(0x20, 1, be16(0), be32(9), be16(0), be16(more ? 1 : 0));
  return more ? (inside) => head(bytes(0x00, new Uint8Array(7), inside)) : head;
}
export function vxlan(id: number): Layer {
  return prefix(be32(0x08000000), be32(id << 8));
}
export function geneve(type: number, options: Uint8Array = new Uint8Array(0)): Layer {
  return prefix(options.length / 4, 0, be16(type), be32(0x00abcd00), options);
}
/** G-PDU, optionally with a sequence number and an extension header. */
export function gtp({ sequence, extension: ext }: { sequence?: number; extension?: boolean } = {}): Layer {
  return (inside) => {
    const optional = sequence !== undefined || ext;
    const more = ext ? bytes(1, be16(0x0102), 0) : new Uint8Array(0);
    const bits = 0x30 | (sequence !== undefined ? 2 : 0) | (ext ? 4 : 0);
    const fields = optional ? bytes(be16(sequence ?? 0), 0, ext ? 0x85 : 0, more) : new Uint8Array(0);
    return bytes(bits, 0xff, be16(fields.length + inside.length), be32(0xdeadbeef), fields, inside);
  };
}
