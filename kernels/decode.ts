// One captured frame -> one row of a batch, or the reason why not. The fast lane is "Ethernet, IPv4 without options";
// everything else takes the slow lane beside it. Bounds: `end` is the end of the captured bytes; words may be loaded a
// few bytes past it (the chunk is padded) but are masked before use.
//
// Digest (what survives a hop): IPv4: total length, identification, fragment field, protocol, both addresses; IPv6: payload length,
// protocol, fragment field, both addresses; then the L4 header without its checksum and the payload, up to `cover` bytes from the IP
// header on and never past the IP length (Ethernet padding and FCS are not payload).

import {
  Batch, FLAG_CUT_L4, FLAG_FRAGMENT, FLAG_INNER, FLAG_IPID, FLAG_LATER_FRAGMENT, FLAG_SHORT, META_IPV6, META_PORTS, META_VLAN,
} from "./batch";
import { avalanche, mixWord } from "./digest";

// Reasons, as indices into the counters of a cursor (src/capture/reasons.ts lists the same).
export const OK: i32 = 0;
export const NOT_IP: i32 = 1;
export const CUT_LINK: i32 = 2; //      captured bytes end within the link header
export const CUT_IP: i32 = 3; //        ... within the IP header
export const BAD_IP: i32 = 4; //        version, header length or total length impossible
export const UNKNOWN_LINK: i32 = 5; //  link type not decoded
export const TOO_DEEP: i32 = 6; //      more nested headers than we follow
export const NO_TIME: i32 = 7; //       pcapng simple packet block: no timestamp
export const NO_INTERFACE: i32 = 8; //  pcapng packet names an interface that was never described

const MAX_NESTING: i32 = 16;

// What the link-layer walk found (module globals: the slow lane is not hot).
let foundVlan: u64 = 0; //   META_VLAN | id << 46, of the outermost tag
let foundIp: usize = 0;
let innerDepth: i32 = 0;
/** Packets cut within the digest's coverage, counted by their visible size (bytes from the IP header on). */
const SHORT_SIZES: u32 = 1536;
const shortCounts: usize = memory.data(1536 * 4);
let shortSeen: u32 = 0;

/** Address of the counts if any was added since the last call, else 0. The caller reads and clears them. */
export function takeShorts(): usize {
  if (shortSeen == 0) return 0;
  shortSeen = 0;
  return shortCounts;
}

// @ts-ignore: decorator
@inline
function countShort(visible: u32): void {
  shortSeen = 1;
  const at = shortCounts + (min<u32>(visible, SHORT_SIZES - 1) << 2);
  store<u32>(at, load<u32>(at) + 1);
}

// @ts-ignore: decorator
@inline
function be16(p: usize): u32 {
  return <u32>bswap<u16>(load<u16>(p));
}
// @ts-ignore: decorator
@inline
function be32(p: usize): u32 {
  return bswap<u32>(load<u32>(p));
}

/** The IP header behind an EtherType at `p`, where the payload starts. */
function walkEtherType(type: u32, p: usize, end: usize): i32 {
  for (let depth = 0; depth < MAX_NESTING; depth++) {
    if (type == 0x0800 || type == 0x86dd) {
      foundIp = p;
      return OK;
    }
    if (type == 0x8100 || type == 0x88a8 || type == 0x9100 || type == 0x9200) {
      if (p + 4 > end) return CUT_LINK;
      if (foundVlan == 0) foundVlan = META_VLAN | (<u64>(be16(p) & 0xfff) << 46);
      type = be16(p + 2);
      p += 4;
      continue;
    }
    if (type == 0x8847 || type == 0x8848) {
      let label: u32 = 0;
      let labels = 0;
      do {
        if (p + 4 > end) return CUT_LINK;
        if (++labels > MAX_NESTING) return TOO_DEEP;
        label = be32(p);
        p += 4;
      } while ((label & 0x100) == 0);
      if (p >= end) return CUT_LINK;
      const nibble = load<u8>(p) >> 4;
      if (nibble == 4 || nibble == 6) {
        foundIp = p;
        return OK;
      }
      // A pseudowire: control word (first nibble 0), then an Ethernet frame.
      if (nibble == 0 && p + 18 <= end) {
        type = be16(p + 16);
        p += 18;
        continue;
      }
      return NOT_IP;
    }
    if (type == 0x8864) {
      if (p + 8 > end) return CUT_LINK;
      return walkPpp(p + 6, end);
    }
    if (type <= 1500) return walkLlc(p, end);
    if (type == 0x6558) {
      if (p + 14 > end) return CUT_LINK;
      type = be16(p + 12);
      p += 14;
      continue;
    }
    if (type == 0x880b) return walkPpp(p, end);
    return NOT_IP;
  }
  return TOO_DEEP;
}

function walkLlc(p: usize, end: usize): i32 {
  if (p + 8 > end) return p + 3 > end ? CUT_LINK : NOT_IP;
  if (load<u16>(p) != 0xaaaa || load<u8>(p + 2) != 0x03) {
    // 802.2 LLC with the IP SAP (RFC 948)
    if (load<u16>(p) == 0x0606 && load<u8>(p + 2) == 0x03) {
      foundIp = p + 3;
      return OK;
    }
    return NOT_IP;
  }
  const type = be16(p + 6);
  if (type <= 1500) return NOT_IP;
  return walkEtherType(type, p + 8, end);
}

/** PPP: optional address/control (ff 03), protocol of one or two bytes. */
function walkPpp(p: usize, end: usize): i32 {
  if (p + 2 > end) return CUT_LINK;
  if (load<u16>(p) == 0x03ff) p += 2;
  if (p + 1 > end) return CUT_LINK;
  let proto: u32 = load<u8>(p);
  if ((proto & 1) == 1) p += 1;
  else {
    if (p + 2 > end) return CUT_LINK;
    proto = be16(p);
    p += 2;
  }
  if (proto == 0x21 || proto == 0x57) {
    foundIp = p;
    return OK;
  }
  if (proto == 0x281) return walkEtherType(0x8847, p, end);
  if (proto == 0x283) return walkEtherType(0x8848, p, end);
  return NOT_IP;
}

function walkHdlc(p: usize, end: usize): i32 {
  if (p + 4 > end) return CUT_LINK;
  const first = load<u8>(p);
  if (first == 0xff) return walkPpp(p, end);
  return walkEtherType(be16(p + 2), p + 4, end);
}

function walkFamily(family: u32, p: usize): i32 {
  if (family == 2 || family == 10 || family == 23 || family == 24 || family == 28 || family == 30) {
    foundIp = p;
    return OK;
  }
  return NOT_IP;
}

/** Finds the IP header of a frame of a link type (LINKTYPE_ numbers of the pcap registry). */
function walkLink(link: u32, p: usize, end: usize): i32 {
  switch (link) {
    case 1: // Ethernet
      if (p + 14 > end) return CUT_LINK;
      return walkEtherType(be16(p + 12), p + 14, end);
    case 12:
    case 14:
    case 101: // raw IP
    case 228:
    case 229:
      if (p >= end) return CUT_IP;
      foundIp = p;
      return OK;
    case 0: {
      // null: address family in the byte order of the capturing host
      if (p + 4 > end) return CUT_LINK;
      const family = load<u32>(p);
      return walkFamily((family & 0xffff0000) != 0 ? bswap<u32>(family) : family, p + 4);
    }
    case 108: // loop: address family in network order
      if (p + 4 > end) return CUT_LINK;
      return walkFamily(be32(p), p + 4);
    case 113: {
      // Linux cooked v1: protocol at 14; a "protocol" of the ARPHRD kinds below 0x0600 is no EtherType
      if (p + 16 > end) return CUT_LINK;
      const type = be16(p + 14);
      if (type == 4) return walkLlc(p + 16, end);
      if (type < 0x600) return NOT_IP;
      return walkEtherType(type, p + 16, end);
    }
    case 276: {
      // Linux cooked v2: protocol first, header of 20 bytes
      if (p + 20 > end) return CUT_LINK;
      const type = be16(p);
      if (type == 4) return walkLlc(p + 20, end);
      if (type < 0x600) return NOT_IP;
      return walkEtherType(type, p + 20, end);
    }
    case 9: // PPP
    case 50: // PPP in HDLC-like framing
      if (p + 4 <= end && (load<u8>(p) == 0x0f || load<u8>(p) == 0x8f)) return walkHdlc(p, end);
      return walkPpp(p, end);
    case 166: // PPP with a direction byte in place of the address
      if (p + 2 > end) return CUT_LINK;
      return walkPpp(load<u8>(p) <= 1 && load<u8>(p + 1) == 0x03 ? p + 2 : p, end);
    case 204: // PPP with a direction byte in front
      return p >= end ? CUT_LINK : walkPpp(p + 1, end);
    case 51: // PPP over Ethernet, session
      if (p + 8 > end) return CUT_LINK;
      return walkPpp(p + 6, end);
    case 104: // Cisco HDLC
      return walkHdlc(p, end);
    case 100: // LLC/SNAP (RFC 1483)
      return walkLlc(p, end);
    case 10: // FDDI
      if (p + 13 > end) return CUT_LINK;
      return walkLlc(p + 13, end);
    default:
      return UNKNOWN_LINK;
  }
}

/** L4 of a packet that we may look inside of: sets foundIp to the inner header. OK, or NOT_IP when it is no tunnel. */
function walkTunnel(proto: u32, l4: usize, end: usize): i32 {
  if (proto == 4 || proto == 41) {
    if (l4 >= end) return NOT_IP;
    foundIp = l4;
    return OK;
  }
  if (proto == 47) {
    if (l4 + 4 > end) return NOT_IP;
    const bits = be16(l4);
    const type = be16(l4 + 2);
    if ((bits & 7) == 1) {
      // PPTP: enhanced GRE, PPP inside
      if (type != 0x880b) return NOT_IP;
      let q = l4 + 8;
      if ((bits & 0x1000) != 0) q += 4;
      if ((bits & 0x0080) != 0) q += 4;
      return q >= end ? NOT_IP : walkPpp(q, end);
    }
    let p = l4 + 4;
    if ((bits & 0xc000) != 0) p += 4;
    if ((bits & 0x2000) != 0) p += 4;
    if ((bits & 0x1000) != 0) p += 4;
    if ((bits & 0x4000) != 0) {
      // RFC 1701 source routing: entries until one of length 0
      for (let i = 0; ; i++) {
        if (i == MAX_NESTING || p + 4 > end) return NOT_IP;
        const length: u32 = load<u8>(p + 3);
        const family = be16(p);
        p += 4 + length;
        if (length == 0 && family == 0) break;
      }
    }
    if (p >= end) return NOT_IP;
    if (type == 0x88be) {
      // ERSPAN: type I has no sequence number and no header, type II has both
      if ((bits & 0x1000) != 0) p += 8;
      return p + 14 > end ? NOT_IP : walkEtherType(be16(p + 12), p + 14, end);
    }
    if (type == 0x22eb) {
      if (p + 12 > end) return NOT_IP;
      p += (load<u8>(p + 11) & 1) != 0 ? 20 : 12;
      return p + 14 > end ? NOT_IP : walkEtherType(be16(p + 12), p + 14, end);
    }
    return walkEtherType(type, p, end);
  }
  if (proto == 17) {
    if (l4 + 8 > end) return NOT_IP;
    const port = be16(l4 + 2);
    const p = l4 + 8;
    if (port == 4789 || port == 8472) {
      if (p + 22 > end || (load<u8>(p) & 0x08) == 0) return NOT_IP;
      return walkEtherType(be16(p + 20), p + 22, end);
    }
    if (port == 6081) {
      if (p + 8 > end) return NOT_IP;
      return walkEtherType(be16(p + 2), p + 8 + ((load<u8>(p) & 0x3f) << 2), end);
    }
    if (port == 2152) {
      if (p + 8 > end || load<u8>(p + 1) != 0xff) return NOT_IP;
      const bits = load<u8>(p);
      if (bits >> 5 != 1) return NOT_IP;
      let q = p + 8;
      if ((bits & 7) != 0) {
        if (q + 4 > end) return NOT_IP;
        let next = load<u8>(q + 3);
        q += 4;
        if ((bits & 4) == 0) next = 0;
        for (let i = 0; next != 0; i++) {
          if (i == MAX_NESTING || q + 4 > end) return NOT_IP;
          const length: u32 = (<u32>load<u8>(q)) << 2;
          if (length == 0) return NOT_IP;
          q += length;
          if (q > end) return NOT_IP;
          next = load<u8>(q - 1);
        }
      }
      if (q >= end) return NOT_IP;
      const nibble = load<u8>(q) >> 4;
      if (nibble != 4 && nibble != 6) return NOT_IP;
      foundIp = q;
      return OK;
    }
  }
  return NOT_IP;
}

// @ts-ignore: decorator
@inline
function hasPorts(proto: u32): bool {
  return proto == 6 || proto == 17 || proto == 132 || proto == 33 || proto == 136;
}

/** Digest of the L4 header and payload in [l4, lim), the L4 checksum masked out. */
// @ts-ignore: decorator
@inline
function digestL4(h: u64, proto: u32, l4: usize, lim: usize): u64 {
  let p = l4;
  // Where the checksum lies: the word (8-byte steps from l4) and what remains of it.
  let at: usize = 0;
  let keep: u64 = 0;
  if (proto == 6) {
    at = l4 + 16;
    keep = 0xffffffffffff0000;
  } else if (proto == 17) {
    at = l4;
    keep = 0x0000ffffffffffff;
  } else if (proto == 1 || proto == 58 || proto == 2) {
    at = l4;
    keep = 0xffffffff0000ffff;
  } else if (proto == 132) {
    at = l4 + 8;
    keep = 0xffffffff00000000;
  }
  while (p + 8 <= lim) {
    const w = load<u64>(p);
    h = mixWord(h, p == at ? w & keep : w);
    p += 8;
  }
  if (p < lim) {
    let w = load<u64>(p) & (((<u64>1) << (<u64>(lim - p) << 3)) - 1);
    if (p == at) w &= keep;
    h = mixWord(h, w);
  }
  return h;
}

/**
 * Decodes the frame [p, end) into the next row of the batch. `wire` is its length on the wire, `cover` the bytes from the IP header
 * on that the digest covers, `inner` 1 to look inside tunnels. Returns OK or the reason.
 */
// @ts-ignore: decorator
@inline
export function decodeFrame(
  batch: Batch, link: u32, p: usize, end: usize, wire: u32, time: f64, iface: u32, cover: u32, inner: u32, seed: u64,
): i32 {
  let ip: usize;
  if (link == 1 && (load<u32>(p + 12) & 0xffffff) == 0x450008 && p + 34 <= end && inner == 0) {
    return rowV4(batch, p + 14, end, wire - 14, wire, time, iface, cover, 0, 0, seed, 20);
  }
  return decodeSlow(batch, link, p, end, wire, time, iface, cover, inner, seed);
}

function decodeSlow(
  batch: Batch, link: u32, p: usize, end: usize, wire: u32, time: f64, iface: u32, cover: u32, inner: u32, seed: u64,
): i32 {
  foundVlan = 0;
  const reason = walkLink(link, p, end);
  if (reason != OK) return reason;
  innerDepth = 0;
  return rowIp(batch, p, foundIp, end, wire, time, iface, cover, inner, seed);
}

function rowIp(
  batch: Batch, frame: usize, ip: usize, end: usize, wire: u32, time: f64, iface: u32, cover: u32, inner: u32, seed: u64,
): i32 {
  if (ip >= end) return CUT_IP;
  const version = load<u8>(ip) >> 4;
  const left = wire > <u32>(ip - frame) ? wire - <u32>(ip - frame) : 0;
  const flags = innerDepth > 0 ? FLAG_INNER : 0;
  if (version == 4) {
    const ihl: u32 = (<u32>(load<u8>(ip) & 15)) << 2;
    if (ihl < 20) return BAD_IP;
    if (ip + 20 > end) return CUT_IP;
    if (inner != 0 && ip + ihl <= end && (be16(ip + 6) & 0x3fff) == 0 && innerDepth < MAX_NESTING) {
      const total = be16(ip + 2);
      const inEnd = total >= ihl && ip + total < end ? ip + total : end;
      if (walkTunnel(load<u8>(ip + 9), ip + ihl, inEnd) == OK) {
        innerDepth++;
        const r = rowIp(batch, frame, foundIp, inEnd, wire, time, iface, cover, inner, seed);
        if (r == OK) return OK;
      }
    }
    return rowV4(batch, ip, end, left, wire, time, iface, cover, foundVlan, flags, seed, ihl);
  }
  if (version == 6) {
    if (ip + 40 > end) return CUT_IP;
    return rowV6(batch, frame, ip, end, left, wire, time, iface, cover, inner, flags, seed);
  }
  return BAD_IP;
}

// @ts-ignore: decorator
@inline
function rowV4(
  batch: Batch, ip: usize, end: usize, left: u32, wire: u32, time: f64, iface: u32, cover: u32, vlan: u64, flagsIn: u32, seed: u64,
  ihl: u32,
): i32 {
  let total = be16(ip + 2);
  // A total length of 0 is what segmentation offload leaves in captures of the sending host.
  if (total == 0) total = left;
  if (total < ihl) return BAD_IP;
  const frag = be16(ip + 6);
  const proto: u32 = load<u8>(ip + 9);
  const l4 = ip + ihl;
  const seen: usize = min<usize>(end, ip + total);
  const covered: usize = min<usize>(seen, ip + cover);
  let flags: u32 = load<u8>(ip + 8) | flagsIn | FLAG_IPID;
  let h = mixWord(mixWord(seed, load<u64>(ip + 12)), load<u64>(ip + 2) & 0xff00ffffffffffff);
  let meta: u64 = (<u64>proto << 32) | (<u64>(load<u8>(ip + 1) >> 2) << 40) | vlan;
  if ((frag & 0x1fff) == 0) {
    if ((frag & 0x2000) != 0) flags |= FLAG_FRAGMENT;
    if (hasPorts(proto)) {
      if (l4 + 4 <= seen) meta |= META_PORTS | <u64>be32(l4);
      else flags |= FLAG_CUT_L4;
      if (proto == 6 && l4 + 14 <= seen) flags |= (<u32>load<u8>(l4 + 13)) << 8;
    }
    h = digestL4(h, proto, l4, covered);
  } else {
    flags |= FLAG_FRAGMENT | FLAG_LATER_FRAGMENT;
    h = digestL4(h, 255, l4, covered);
  }
  if (<u32>(end - ip) < min<u32>(total, cover)) {
    flags |= FLAG_SHORT;
    countShort(<u32>(end - ip));
  }
  const i = batch.count;
  const o = i << 3;
  store<f64>(batch.time + o, time);
  store<u64>(batch.digest + o, avalanche(h));
  store<u64>(batch.meta + o, meta);
  store<u64>(batch.addrA + o, (<u64>be32(ip + 12) << 32) | <u64>be32(ip + 16));
  const q = i << 2;
  store<u32>(batch.wireLength + q, wire);
  store<u32>(batch.ipid + q, be16(ip + 4));
  store<u32>(batch.flags + q, flags);
  store<u32>(batch.header + q, <u32>ip);
  store<u32>(batch.captured + q, <u32>(end - ip));
  store<u32>(batch.iface + q, iface);
  batch.count = i + 1;
  return OK;
}

function rowV6(
  batch: Batch, frame: usize, ip: usize, end: usize, left: u32, wire: u32, time: f64, iface: u32, cover: u32, inner: u32, flagsIn: u32,
  seed: u64,
): i32 {
  const payload = be16(ip + 4);
  // A payload length of 0 is a jumbogram or segmentation offload.
  const total: u32 = payload == 0 ? max<u32>(left, 40) : payload + 40;
  const seen: usize = min<usize>(end, ip + total);
  let proto: u32 = load<u8>(ip + 6);
  let flags: u32 = load<u8>(ip + 7) | flagsIn;
  let l4 = ip + 40;
  let fragment: u64 = 0;
  let ipid: u32 = 0;
  let cut = false;
  for (let depth = 0; depth < MAX_NESTING; depth++) {
    if (proto == 0 || proto == 43 || proto == 60 || proto == 135 || proto == 139 || proto == 140) {
      if (proto == 135 || proto == 139) {
        // Mobility and HIP may stand last: their next header is 59 then, and they are the protocol themselves.
        if (l4 + 2 > seen || load<u8>(l4) == 59) break;
      }
      if (l4 + 2 > seen) {
        cut = true;
        break;
      }
      const next = load<u8>(l4);
      l4 += ((<u32>load<u8>(l4 + 1)) + 1) << 3;
      proto = next;
    } else if (proto == 51) {
      if (l4 + 2 > seen) {
        cut = true;
        break;
      }
      const next = load<u8>(l4);
      l4 += ((<u32>load<u8>(l4 + 1)) + 2) << 2;
      proto = next;
    } else if (proto == 44) {
      if (l4 + 8 > seen) {
        cut = true;
        break;
      }
      const next = load<u8>(l4);
      const field = be16(l4 + 2);
      ipid = be32(l4 + 4);
      fragment = (<u64>field << 32) | <u64>ipid;
      // An atomic fragment (offset 0, no more) is a whole packet.
      if ((field & 0xfff9) != 0) flags |= FLAG_FRAGMENT;
      flags |= FLAG_IPID;
      if ((field & 0xfff8) != 0) {
        flags |= FLAG_LATER_FRAGMENT;
        proto = next;
        l4 += 8;
        break;
      }
      proto = next;
      l4 += 8;
    } else break;
    if (l4 > seen) {
      cut = true;
      break;
    }
  }
  const covered: usize = min<usize>(seen, ip + cover);
  if (inner != 0 && !cut && (flags & FLAG_FRAGMENT) == 0 && innerDepth < MAX_NESTING) {
    if (walkTunnel(proto, l4, seen) == OK) {
      innerDepth++;
      const r = rowIp(batch, frame, foundIp, seen, wire, time, iface, cover, inner, seed);
      if (r == OK) return OK;
    }
  }
  const sa = load<u64>(ip + 8);
  const sb = load<u64>(ip + 16);
  const da = load<u64>(ip + 24);
  const db = load<u64>(ip + 32);
  let h = mixWord(mixWord(mixWord(mixWord(seed, sa), sb), da), db);
  h = mixWord(mixWord(h, (<u64>payload << 32) | <u64>proto), fragment);
  const dscp: u64 = <u64>((be16(ip) >> 6) & 0x3f);
  let meta: u64 = META_IPV6 | (<u64>proto << 32) | (dscp << 40) | foundVlan;
  if (!cut && (flags & FLAG_LATER_FRAGMENT) == 0) {
    if (hasPorts(proto)) {
      if (l4 + 4 <= seen) meta |= META_PORTS | <u64>be32(l4);
      else flags |= FLAG_CUT_L4;
      if (proto == 6 && l4 + 14 <= seen) flags |= (<u32>load<u8>(l4 + 13)) << 8;
    }
    if (l4 < covered) h = digestL4(h, proto, l4, covered);
  } else {
    if (cut) flags |= FLAG_CUT_L4;
    if (l4 < covered) h = digestL4(h, 255, l4, covered);
  }
  if (<u32>(end - ip) < min<u32>(total, cover)) {
    flags |= FLAG_SHORT;
    countShort(<u32>(end - ip));
  }
  const i = batch.count;
  const o = i << 3;
  store<f64>(batch.time + o, time);
  store<u64>(batch.digest + o, avalanche(h));
  store<u64>(batch.meta + o, meta);
  store<u64>(batch.addrA + o, bswap<u64>(sa));
  store<u64>(batch.addrB + o, bswap<u64>(sb));
  store<u64>(batch.addrC + o, bswap<u64>(da));
  store<u64>(batch.addrD + o, bswap<u64>(db));
  const q = i << 2;
  store<u32>(batch.wireLength + q, wire);
  store<u32>(batch.ipid + q, ipid);
  store<u32>(batch.flags + q, flags);
  store<u32>(batch.header + q, <u32>ip);
  store<u32>(batch.captured + q, <u32>(end - ip));
  store<u32>(batch.iface + q, iface);
  batch.count = i + 1;
  return OK;
}
