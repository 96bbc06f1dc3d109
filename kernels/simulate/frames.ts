// Writes simulated packets as bytes: records of a nanosecond pcap file, with IPv4 or IPv6 and TCP, UDP or ICMP headers with correct checksums. The payload is
// the packet's number (little-endian, as much as fits), then zeros. TCP also carries the number in its sequence and acknowledgement numbers, so that packets
// without payload differ too. Captured bytes end at the snap length; checksums cover the whole packet.

import { Batch, FLAG_FRAGMENT, FLAG_LATER_FRAGMENT, META_IPV6, META_PORTS } from "../decode/batch";

/** Returns the packet number from which digestOf made the digest. */
function numberOf(digest: u64, seed: u64): u64 {
  let x = digest ^ (digest >> 32);
  x *= 0xe9e9f4c41d6df849; // the inverse of P3 modulo 2^64
  x = x ^ (x >> 29) ^ (x >> 58);
  x *= 0x0ba79078168d4baf; // ... of P2
  x ^= x >> 33;
  return (x - seed) * 0x0887493432badb37; // ... of P1
}

// @ts-ignore: decorator
@inline
function put16(p: usize, v: u32): void {
  store<u16>(p, bswap<u16>(<u16>v));
}
// @ts-ignore: decorator
@inline
function put32(p: usize, v: u32): void {
  store<u32>(p, bswap<u32>(v));
}

/** Returns the one's complement sum of 16-bit words in network order. */
function sum16(p: usize, bytes: u32, sum: u32): u32 {
  for (let i: u32 = 0; i + 1 < bytes; i += 2) sum += <u32>bswap<u16>(load<u16>(p + i));
  if ((bytes & 1) != 0) sum += (<u32>load<u8>(p + bytes - 1)) << 8;
  return sum;
}
// @ts-ignore: decorator
@inline
function fold(sum: u32): u32 {
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}

/** Room for the longest headers and the number, before the snap length cuts them. */
const SCRATCH: u32 = 128;


export function simFrameBytes(snap: u32): u32 {
  return 16 + max<u32>(snap, SCRATCH);
}

/** Parameters of writing frames to a file. */
@unmanaged
class Frames {
  base: i64;
  seed: u64;
  snap: u32;
  ethernet: u32;
  used: u32;
}

/** `base`: ns since 1970 at time 0; `seed`: seed of the packets' numbers. The caller frees the result. */
export function simFramesNew(base: i64, seed: u64, snap: u32, ethernet: u32): usize {
  const p = heap.alloc(offsetof<Frames>());
  const frames = changetype<Frames>(p);
  frames.base = base;
  frames.seed = seed;
  frames.snap = snap;
  frames.ethernet = ethernet;
  frames.used = 0;
  return p;
}

/** Returns the number of bytes written by the last call of simFrames. */
export function simFramesUsed(writer: usize): u32 {
  return changetype<Frames>(writer).used;
}

/** Writes rows [from, ...) as pcap records at `out` while another one may fit before `end`. Returns the next row. */
export function simFrames(writer: usize, b: usize, from: u32, out: usize, end: usize): u32 {
  const frames = changetype<Frames>(writer);
  const base = frames.base;
  const snap = frames.snap;
  const ethernet = frames.ethernet;
  const seed = frames.seed;
  const batch = changetype<Batch>(b);
  const room = <usize>simFrameBytes(snap);
  let p = out;
  let i = from;
  for (; i < batch.count && p + room <= end; i++) {
    const o = i << 3;
    const q = i << 2;
    const at = base + <i64>load<f64>(batch.time + o);
    const frame = p + 16;
    memory.fill(frame, 0, max<u32>(snap, SCRATCH));
    const meta = load<u64>(batch.meta + o);
    const flags = load<u32>(batch.flags + q);
    const number = numberOf(load<u64>(batch.digest + o), seed);
    const six = (meta & META_IPV6) != 0;
    const proto = <u32>(meta >> 32) & 0xff;
    const later = (flags & FLAG_LATER_FRAGMENT) != 0;
    const header: u32 = six ? 40 : 20;
    const ports = (meta & META_PORTS) != 0;
    const l4: u32 = later ? 0 : proto == 6 ? 20 : proto == 17 || proto == 1 || proto == 58 ? 8 : ports ? 4 : 0;
    const total = min<u32>(max<u32>(load<u32>(batch.wireLength + q), header + l4), 65535);
    let ip = frame;
    if (ethernet != 0) {
      // Locally administered MAC addresses; hosts are distinguished by IP address.
      store<u64>(frame, 0x0002020000000002);
      store<u8>(frame, 0x01, 11);
      put16(frame + 12, six ? 0x86dd : 0x0800);
      ip += 14;
    }
    let pseudo: u32 = proto;
    const tos = (<u32>(meta >> 40) & 63) << 2;
    if (six) {
      put32(ip, 0x60000000 | (tos << 20));
      put16(ip + 4, total - 40);
      store<u8>(ip, <u8>proto, 6);
      store<u8>(ip, <u8>flags, 7);
      store<u64>(ip, bswap<u64>(load<u64>(batch.addrA + o)), 8);
      store<u64>(ip, bswap<u64>(load<u64>(batch.addrB + o)), 16);
      store<u64>(ip, bswap<u64>(load<u64>(batch.addrC + o)), 24);
      store<u64>(ip, bswap<u64>(load<u64>(batch.addrD + o)), 32);
      pseudo = sum16(ip + 8, 32, pseudo + total - 40);
    } else {
      put16(ip, 0x4500 | tos);
      put16(ip + 2, total);
      put16(ip + 4, load<u32>(batch.ipid + q));
      // Mark later fragments; their original offset is not known.
      put16(ip + 6, later ? 185 : (flags & FLAG_FRAGMENT) != 0 ? 0x2000 : 0);
      store<u8>(ip, <u8>flags, 8);
      store<u8>(ip, <u8>proto, 9);
      put32(ip + 12, <u32>(load<u64>(batch.addrA + o) >> 32));
      put32(ip + 16, <u32>load<u64>(batch.addrA + o));
      put16(ip + 10, fold(sum16(ip, 20, 0)));
      pseudo = sum16(ip + 12, 8, pseudo + total - 20);
    }
    const body = ip + header;
    let carried: u32 = total - header - l4;
    if (ports && !later) put32(body, <u32>meta);
    const payload = body + l4;
    for (let k: u32 = 0; k < 8 && k < carried; k++) store<u8>(payload + k, <u8>(number >> (k << 3)));
    const summed = l4 + min<u32>(carried, 8);
    if (!later) {
      if (proto == 6) {
        put32(body + 4, <u32>number);
        put32(body + 8, <u32>(number >> 32));
        put16(body + 12, 0x5000 | ((flags >> 8) & 0xff));
        put16(body + 14, 0xffff);
        put16(body + 16, fold(sum16(body, summed, pseudo)));
      } else if (proto == 17) {
        put16(body + 4, total - header);
        const sum = fold(sum16(body, summed, pseudo));
        put16(body + 6, sum == 0 ? 0xffff : sum);
      } else if (proto == 1 || proto == 58) {
        store<u8>(body, proto == 1 ? 8 : 128);
        put16(body + 4, <u32>number);
        put16(body + 6, <u32>(number >> 16));
        put16(body + 2, fold(sum16(body, summed, proto == 58 ? pseudo : 0)));
      }
    }
    const wire = total + (ethernet != 0 ? 14 : 0);
    const captured = min<u32>(wire, snap);
    store<u32>(p, <u32>(at / 1000000000));
    store<u32>(p, <u32>(at % 1000000000), 4);
    store<u32>(p, captured, 8);
    store<u32>(p, wire, 12);
    p = frame + captured;
  }
  frames.used = <u32>(p - out);
  return i;
}
