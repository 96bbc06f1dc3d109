// Finds the IP header of a frame: link layers, tags, labels, and (for `inner`) tunnels. LINKTYPE_ numbers are those of the pcap registry. Every read is below
// `end` or checked first; every step consumes bytes, and nested calls are counted in `nesting`: a hostile frame costs at most its length, and no deep stack.

import { META_VLAN } from "./batch";

// Reasons, as indices into the counters of a cursor (src/capture/reasons.ts has the same list).
export const OK: i32 = 0;
export const NOT_IP: i32 = 1;
export const CUT_LINK: i32 = 2; //      captured bytes end within the link header
export const CUT_IP: i32 = 3; //        ... within the IP header
export const BAD_IP: i32 = 4; //        version, header length or total length impossible
export const UNKNOWN_LINK: i32 = 5; //  link type not decoded
export const TOO_DEEP: i32 = 6; //      more nested headers than we follow
export const NO_TIME: i32 = 7; //       pcapng: a simple packet block has no timestamp, others may tell an impossible one
export const NO_INTERFACE: i32 = 8; //  pcapng packet names an interface that was never described

export const MAX_NESTING: i32 = 16;

// Results of a walk (module globals: the slow path is not hot).
let vlan: u64 = 0; // META_VLAN | id << 46, of the outermost tag
let ip: usize = 0;
let nesting: i32 = 0;

// @ts-ignore: decorator
@inline
export function foundVlan(): u64 {
  return vlan;
}
// @ts-ignore: decorator
@inline
export function setVlan(v: u64): void {
  vlan = v;
}
// @ts-ignore: decorator
@inline
export function foundIp(): usize {
  return ip;
}

// @ts-ignore: decorator
@inline
export function be16(p: usize): u32 {
  return <u32>bswap<u16>(load<u16>(p));
}
// @ts-ignore: decorator
@inline
export function be32(p: usize): u32 {
  return bswap<u32>(load<u32>(p));
}

function found(p: usize): i32 {
  ip = p;
  return OK;
}

/** Walks an Ethernet frame at `p`. */
function walkEthernet(p: usize, end: usize): i32 {
  if (p + 14 > end) return CUT_LINK;
  return walkEtherType(be16(p + 12), p + 14, end, true);
}

/** Walks the payload at `p` of an EtherType. Behind MAC addresses or a tag (`framed`) the type may be a length, and LLC follows. */
function walkEtherType(type: u32, p: usize, end: usize, framed: bool = false): i32 {
  if (++nesting > MAX_NESTING) return TOO_DEEP;
  // Any number of tags: each takes four bytes.
  while (type == 0x8100 || type == 0x88a8 || type == 0x9100 || type == 0x9200) {
    if (p + 4 > end) return CUT_LINK;
    if (vlan == 0) vlan = META_VLAN | (<u64>(be16(p) & 0xfff) << 46);
    type = be16(p + 2);
    p += 4;
    framed = true;
  }
  if (type == 0x0800 || type == 0x86dd) return found(p);
  if (type == 0x8847 || type == 0x8848) return walkMpls(p, end);
  if (type == 0x8864) {
    // PPPoE session: version and type 1, code 0
    if (p + 6 > end) return CUT_LINK;
    return walkPpp(p + 6, end);
  }
  if (type <= 1500) return framed ? walkLlc(p, end) : NOT_IP;
  if (type == 0x6558) return walkEthernet(p, end);
  if (type == 0x880b) return walkPpp(p, end);
  // An Arista switch's timestamp in front of the packet's own EtherType (kernels/maple/packet-times.ts).
  if (type == 0xd28b) {
    if (p + 14 > end) return CUT_LINK;
    if (be16(p) != 1) return NOT_IP;
    const after = p + (load<u8>(p + 3) >> 4 == 2 ? 10 : 12);
    return walkEtherType(be16(after), after + 2, end, true);
  }
  // Provider backbone bridge: service tag, then a whole frame.
  if (type == 0x88e7) return walkEthernet(p + 4, end);
  return NOT_IP;
}

function walkMpls(p: usize, end: usize): i32 {
  let label: u32 = 0;
  do {
    if (p + 4 > end) return CUT_LINK;
    label = be32(p);
    p += 4;
  } while ((label & 0x100) == 0);
  if (p >= end) return CUT_LINK;
  const nibble = load<u8>(p) >> 4;
  if (nibble == 4 || nibble == 6) return found(p);
  // A pseudowire: control word (first nibble 0), then an Ethernet frame.
  if (nibble == 0) return walkEthernet(p + 4, end);
  return NOT_IP;
}

/** 802.2 LLC: SNAP, or the IP SAP of RFC 948. */
function walkLlc(p: usize, end: usize): i32 {
  if (p + 3 > end) return CUT_LINK;
  if (load<u8>(p + 2) != 0x03) return NOT_IP;
  if (load<u16>(p) == 0x0606) return found(p + 3);
  if (load<u16>(p) != 0xaaaa) return NOT_IP;
  if (p + 8 > end) return CUT_LINK;
  return walkSnap(p + 3, end);
}

/** SNAP: organisation code (3 bytes) and protocol. */
function walkSnap(p: usize, end: usize): i32 {
  if (p + 5 > end) return CUT_LINK;
  const organisation = (<u32>load<u8>(p) << 16) | be16(p + 1);
  const type = be16(p + 3);
  // 0 and f8 (bridge tunnel): an EtherType. 0080c2: a bridged frame, with or without its FCS (RFC 2684: two bytes of padding on ATM).
  if (organisation == 0 || organisation == 0xf8) return walkEtherType(type, p + 5, end);
  if (organisation == 0x80c2 && (type == 1 || type == 7)) return walkEthernet(p + 7, end);
  return NOT_IP;
}

/** PPP: optional address/control (ff 03), protocol of one or two bytes. */
function walkPpp(p: usize, end: usize): i32 {
  if (++nesting > MAX_NESTING) return TOO_DEEP;
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
  if (proto == 0x21 || proto == 0x57) return found(p);
  if (proto == 0x281 || proto == 0x283) return walkMpls(p, end);
  return NOT_IP;
}

/** Cisco HDLC: address, control, EtherType; PPP where the address says so. */
function walkHdlc(p: usize, end: usize): i32 {
  if (p + 4 > end) return CUT_LINK;
  if (load<u8>(p) == 0xff) return walkPpp(p, end);
  return walkEtherType(be16(p + 2), p + 4, end);
}

/** Frame Relay: Q.922 address of 2-4 bytes; then UI and NLPID (RFC 2427), or an EtherType (Cisco). */
function walkFrameRelay(p: usize, end: usize): i32 {
  let length = 0;
  do {
    if (p >= end) return CUT_LINK;
    if (++length > 4) return NOT_IP;
    p++;
  } while ((load<u8>(p - 1) & 1) == 0);
  if (length < 2) return NOT_IP;
  if (p + 2 > end) return CUT_LINK;
  if (load<u8>(p) != 0x03) return walkEtherType(be16(p), p + 2, end);
  p++;
  if (load<u8>(p) == 0) p++;
  if (p >= end) return CUT_LINK;
  const nlpid = load<u8>(p);
  if (nlpid == 0xcc || nlpid == 0x8e) return found(p + 1);
  if (nlpid != 0x80) return NOT_IP;
  if (p + 6 > end) return CUT_LINK;
  // Bridged Ethernet has no padding here.
  if (load<u8>(p + 1) == 0 && be16(p + 2) == 0x80c2 && (be16(p + 4) == 1 || be16(p + 4) == 7)) return walkEthernet(p + 6, end);
  return walkSnap(p + 1, end);
}

/** Netfilter log: attributes of which one is the packet. */
function walkNflog(p: usize, end: usize): i32 {
  if (p + 4 > end) return CUT_LINK;
  const family = load<u8>(p);
  p += 4;
  while (p + 4 <= end) {
    const length: u32 = load<u16>(p);
    if (length < 4) return NOT_IP;
    if (load<u16>(p + 2) == 9) return family == 2 || family == 10 ? found(p + 4) : NOT_IP;
    p += (length + 3) & ~3;
  }
  return p > end ? CUT_LINK : NOT_IP;
}

/** AF_INET is 2 on every system; AF_INET6 differs. */
function walkFamily(family: u32, p: usize): i32 {
  if (family == 2 || family == 10 || family == 23 || family == 24 || family == 26 || family == 28 || family == 30) return found(p);
  return NOT_IP;
}

/** An address family in the byte order of the capturing host: take the order that makes it small. */
// @ts-ignore: decorator
@inline
function hostFamily(p: usize): u32 {
  const family = load<u32>(p);
  return (family & 0xffff0000) != 0 ? bswap<u32>(family) : family;
}

/** Walks a frame of a link type. Returns OK, with the IP header in foundIp(), or the reason. */
export function walkLink(link: u32, p: usize, end: usize): i32 {
  vlan = 0;
  nesting = 0;
  switch (link) {
    case 1: // Ethernet
      return walkEthernet(p, end);
    case 12:
    case 14:
    case 101: // raw IP
    case 228:
    case 229:
      return found(p);
    case 0: // null
      if (p + 4 > end) return CUT_LINK;
      return walkFamily(hostFamily(p), p + 4);
    case 108: // loop: address family in network order
      if (p + 4 > end) return CUT_LINK;
      return walkFamily(be32(p), p + 4);
    case 113: {
      // Linux cooked v1: protocol at 14; 4 is no EtherType but 802.2
      if (p + 16 > end) return CUT_LINK;
      const type = be16(p + 14);
      return type == 4 ? walkLlc(p + 16, end) : walkEtherType(type, p + 16, end);
    }
    case 276: {
      // Linux cooked v2: protocol first, header of 20 bytes
      if (p + 20 > end) return CUT_LINK;
      const type = be16(p);
      return type == 4 ? walkLlc(p + 20, end) : walkEtherType(type, p + 20, end);
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
      return walkEtherType(0x8864, p, end);
    case 104: // Cisco HDLC
      return walkHdlc(p, end);
    case 107:
      return walkFrameRelay(p, end);
    case 100: // LLC/SNAP (RFC 1483)
      return walkLlc(p, end);
    case 106: // classical IP over ATM: LLC/SNAP, or IP at once
      if (p >= end) return CUT_LINK;
      return load<u8>(p) == 0xaa ? walkLlc(p, end) : found(p);
    case 10: // FDDI
      if (p + 13 > end) return CUT_LINK;
      return walkLlc(p + 13, end);
    case 8: // SLIP: 16 bytes of direction and compressed header, as captured
      if (p + 16 > end) return CUT_LINK;
      return found(p + 16);
    case 109: // BSD IPsec: family, SPI, flags
      if (p + 12 > end) return CUT_LINK;
      return walkFamily(hostFamily(p), p + 12);
    case 117: // BSD packet filter log: header length, family, ...
      if (p + 4 > end) return CUT_LINK;
      return walkFamily(load<u8>(p + 1), p + ((<usize>load<u8>(p) + 3) & ~3));
    case 192: {
      // PPI: length and link type of what follows, little-endian
      if (p + 8 > end) return CUT_LINK;
      const length: usize = load<u16>(p, 2);
      const inside = load<u32>(p, 4);
      if (length < 8 || inside == 192) return NOT_IP;
      return p + length > end ? CUT_LINK : walkLink(inside, p + length, end);
    }
    case 226: // Solaris ipnet
      if (p + 24 > end) return CUT_LINK;
      return walkFamily(load<u8>(p + 1), p + 24);
    case 239:
      return walkNflog(p, end);
    case 242: // IP over InfiniBand: 40 bytes of routing header, EtherType, 2 reserved
      if (p + 44 > end) return CUT_LINK;
      return walkEtherType(be16(p + 40), p + 44, end);
    case 274: {
      // Ethernet with its preamble: whole frames, or the first piece of a preempted one
      if (p + 8 > end) return CUT_LINK;
      const start = load<u8>(p + 7);
      if (start != 0xd5 && start != 0xe6 && start != 0x4c && start != 0x7f && start != 0xb3) return NOT_IP;
      return walkEthernet(p + 8, end);
    }
    default:
      return UNKNOWN_LINK;
  }
}

function walkGre(l4: usize, end: usize): i32 {
  if (l4 + 4 > end) return NOT_IP;
  const bits = be16(l4);
  const type = be16(l4 + 2);
  let p = l4 + 4;
  if ((bits & 7) == 1) {
    // PPTP: enhanced GRE with PPP inside.
    if (type != 0x880b) return NOT_IP;
    p += 4;
    if ((bits & 0x1000) != 0) p += 4;
    if ((bits & 0x0080) != 0) p += 4;
    return walkPpp(p, end);
  }
  if ((bits & 7) != 0) return NOT_IP;
  if ((bits & 0xc000) != 0) p += 4;
  if ((bits & 0x2000) != 0) p += 4;
  if ((bits & 0x1000) != 0) p += 4;
  if ((bits & 0x4000) != 0) {
    // RFC 1701 source routing: entries up to an empty one.
    while (true) {
      if (p + 4 > end) return NOT_IP;
      const family = be16(p);
      const length: u32 = load<u8>(p + 3);
      p += 4 + length;
      if (length == 0 && family == 0) break;
    }
  }
  if (type == 0x88be) return walkEthernet((bits & 0x1000) != 0 ? p + 8 : p, end); // ERSPAN type II has a header, type I has none
  if (type == 0x22eb) {
    // ERSPAN type III: 12 bytes, and 8 more if the last bit is set.
    if (p + 12 > end) return NOT_IP;
    return walkEthernet(p + ((load<u8>(p + 11) & 1) != 0 ? 20 : 12), end);
  }
  // WCCP: version 2 has a redirect header of four bytes, which does not begin as IP does.
  if (type == 0x883e) return p >= end ? NOT_IP : found((load<u8>(p) & 0xf0) == 0x40 ? p : p + 4);
  return walkEtherType(type, p, end);
}

function walkGtp(p: usize, end: usize): i32 {
  // G-PDU of version 1
  if (p + 8 > end || load<u8>(p + 1) != 0xff) return NOT_IP;
  const bits = load<u8>(p);
  if (bits >> 5 != 1) return NOT_IP;
  p += 8;
  if ((bits & 7) != 0) {
    if (p + 4 > end) return NOT_IP;
    let next: u32 = (bits & 4) != 0 ? load<u8>(p + 3) : 0;
    p += 4;
    while (next != 0) {
      if (p >= end) return NOT_IP;
      const length: u32 = (<u32>load<u8>(p)) << 2;
      if (length == 0) return NOT_IP;
      p += length;
      if (p > end) return NOT_IP;
      next = load<u8>(p - 1);
    }
  }
  if (p >= end) return NOT_IP;
  const nibble = load<u8>(p) >> 4;
  return nibble == 4 || nibble == 6 ? found(p) : NOT_IP;
}

/** Walks the payload of an IP packet that may be a tunnel. Returns OK, with the inner header in foundIp(); otherwise it is not a tunnel. */
export function walkTunnel(proto: u32, l4: usize, end: usize): i32 {
  nesting = 0;
  if (proto == 4 || proto == 41) return found(l4);
  if (proto == 47) return walkGre(l4, end);
  if (proto == 143) return walkEthernet(l4, end);
  if (proto == 97) return walkEthernet(l4 + 2, end);
  if (proto != 17 || l4 + 8 > end) return NOT_IP;
  const from = be16(l4);
  const port = be16(l4 + 2);
  const p = l4 + 8;
  // VXLAN (and the port that Linux used first), with a valid network id.
  if (port == 4789 || port == 8472) return p >= end || (load<u8>(p) & 0x08) == 0 ? NOT_IP : walkEthernet(p + 8, end);
  // Geneve: the length of its options is in words.
  if (port == 6081) return p + 8 > end ? NOT_IP : walkEtherType(be16(p + 2), p + 8 + ((load<u8>(p) & 0x3f) << 2), end);
  // GTP-U: a tunnel end may reply from its well-known port.
  if (port == 2152 || from == 2152) return walkGtp(p, end);
  if (port == 6635) return walkMpls(p, end);
  return NOT_IP;
}
