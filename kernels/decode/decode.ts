// Decodes one captured frame to one row of a batch, or to the reason why not. The fast path is "Ethernet, IPv4 without options"; everything else takes the slow
// path. Bounds: `end` is the end of the captured bytes; words may be loaded a few bytes past it (the chunk is padded) but are masked before use.
//
// The digest covers what survives a hop. It is a wire format: golden values in src/capture/digest.test.ts must never change.
//   IPv4  h = mix(mix(seed, addresses), total length | identification | fragment field | protocol), 8 bytes each as they lie in the packet
//   IPv6  h = mix over the four address words, then mix(payload length << 32 | protocol), then mix(fragment field << 32 | identification)
//   then  the L4 header without its checksum and the payload, in words of 8 bytes from the L4 header on, the last one padded with zeros,
//         up to `cover` bytes from the IP header on and never past the IP length (Ethernet padding and FCS are not payload);
//   then  avalanche(h).
// IP options and IPv6 extension headers are not covered (routers rewrite some of them), but their length counts towards `cover`. Nothing beyond `cover` changes
// the digest: two captures that both contain `cover` bytes agree whatever their snap lengths.

import {
  Batch, FLAG_CUT_L4, FLAG_FRAGMENT, FLAG_INNER, FLAG_IPID, FLAG_LATER_FRAGMENT, FLAG_LINK_LOCAL, FLAG_SHORT, META_IPV6, META_PORTS,
} from "./batch";
import { Cursor, SPECIAL_INNER, SPECIAL_NAT } from "./cursor";
import { avalanche, mixWord } from "./digest";
import { digestLater, digestList, mayWait } from "./late-digest";
import { BAD_IP, be16, be32, CUT_IP, foundIp, foundVlan, MAX_NESTING, OK, setVlan, walkLink, walkTunnel } from "./link";
import { isWhole, plainKey } from "./row-plain";

// @ts-ignore: decorator
@inline
function hasPorts(proto: u32): bool {
  return proto == 6 || proto == 17 || proto == 132 || proto == 33 || proto == 136;
}

/** Extends the digest by the L4 header and payload in [l4, lim), with the L4 checksum masked out. */
// @ts-ignore: decorator
@inline
function digestL4(h: u64, proto: u32, l4: usize, lim: usize): u64 {
  let p = l4;
  // The words up to the one with the checksum; a plain loop does the rest. Short headers take the careful path below.
  if (proto == 6 && l4 + 24 <= lim) {
    h = mixWord(mixWord(mixWord(h, load<u64>(l4)), load<u64>(l4, 8)), load<u64>(l4, 16) & 0xffffffffffff0000);
    p = l4 + 24;
  } else if (proto == 17 && l4 + 8 <= lim) {
    h = mixWord(h, load<u64>(l4) & 0x0000ffffffffffff);
    p = l4 + 8;
  } else return digestCareful(h, proto, l4, lim);
  while (p + 8 <= lim) {
    h = mixWord(h, load<u64>(p));
    p += 8;
  }
  return p < lim ? mixWord(h, load<u64>(p) & (((<u64>1) << (<u64>(lim - p) << 3)) - 1)) : h;
}

function digestCareful(h: u64, proto: u32, l4: usize, lim: usize): u64 {
  let p = l4;
  // Position of the checksum: the word (8-byte steps from l4), and the mask of the bits to keep.
  let at: usize = 0;
  let keep: u64 = 0;
  if (proto == 6) {
    at = l4 + 16;
    keep = 0xffffffffffff0000;
  } else if (proto == 17 || proto == 136 || proto == 33) {
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

/** Passed to rowV4 among the flags: NAT changes addresses and ports on the way. */
const TRANSLATED: u32 = 1 << 31;

/** The same without what NAT rewrites: ports, the identifier of echo requests and replies, and checksums. */
function digestTranslated(h: u64, proto: u32, l4: usize, lim: usize): u64 {
  if (l4 + 8 > lim) return h;
  const first = load<u64>(l4);
  const echo = (proto == 1 && ((first & 0xff) == 8 || (first & 0xff) == 0)) || (proto == 58 && ((first & 0xff) == 128 || (first & 0xff) == 129));
  if (echo) return digestCareful(mixWord(h, first & 0xffff00000000ffff), 255, l4 + 8, lim);
  if (proto == 17) return digestCareful(mixWord(h, first & 0x0000ffff00000000), 255, l4 + 8, lim);
  if (proto != 6) return digestCareful(h, proto, l4, lim);
  h = mixWord(h, first & 0xffffffff00000000);
  if (l4 + 24 > lim) return digestCareful(h, 255, l4 + 8, min<usize>(lim, l4 + 16));
  h = mixWord(mixWord(h, load<u64>(l4, 8)), load<u64>(l4, 16) & 0xffffffffffff0000);
  return digestCareful(h, 255, l4 + 24, lim);
}

/**
 * Decodes the frame [p, end), with `wire` bytes on the wire, into the next row of the batch. Returns OK or the reason. `late`: the digest may be computed later
 * (late-digest.ts).
 */
// @ts-ignore: decorator
@inline
export function decodeFrame(cursor: Cursor, batch: Batch, link: u32, p: usize, end: usize, wire: u32, late: bool): i32 {
  // Some captures state a wire length shorter than the captured bytes.
  const length = max<u32>(wire, <u32>(end - p));
  if (link == 1 && (load<u32>(p + 12) & 0xffffff) == 0x450008 && p + 34 <= end && cursor.special == 0) {
    if (late && isWhole(p)) {
      const visible = <u32>(end - p) - 14;
      const total = be16(p + 16);
      const covered = min<u32>(min<u32>(visible, total), cursor.cover) - 20;
      if (mayWait(covered)) return rowLate(cursor, batch, p + 14, visible, min<u32>(total, length - 14), covered);
    }
    return rowV4(cursor, batch, p + 14, end, length - 14, 20, 0, 0);
  }
  return decodeSlow(cursor, batch, link, p, end, length);
}

/** Makes the row of a packet that `isWhole`; its digest covers `covered` bytes behind the IP header. */
// @ts-ignore: decorator
@inline
function rowLate(cursor: Cursor, batch: Batch, ip: usize, visible: u32, total: u32, covered: u32): i32 {
  const full = digestLater(batch.count, ip, covered);
  if (full != 0) digestList(batch.digest, cursor.seed, full);
  endRow(batch, ip, visible, be16(ip + 4), flagShort(cursor, batch, plainKey(batch, ip), visible, total));
  return OK;
}

function decodeSlow(cursor: Cursor, batch: Batch, link: u32, p: usize, end: usize, length: u32): i32 {
  const reason = walkLink(link, p, end);
  if (reason != OK) return reason;
  const ip = foundIp();
  return ip >= end ? CUT_IP : rowIp(cursor, batch, ip, end, length - <u32>(ip - p), 0);
}

/** Decodes the IP packet at `ip`, with `left` bytes on the wire, inside `depth` tunnels. */
function rowIp(cursor: Cursor, batch: Batch, ip: usize, end: usize, left: u32, depth: i32): i32 {
  if (ip >= end) return CUT_IP;
  const version = load<u8>(ip) >> 4;
  if (version == 6) return ip + 40 > end ? CUT_IP : rowV6(cursor, batch, ip, end, left, depth);
  if (version != 4) return BAD_IP;
  const ihl: u32 = (<u32>(load<u8>(ip) & 15)) << 2;
  if (ihl < 20) return BAD_IP;
  if (ip + 20 > end) return CUT_IP;
  if ((cursor.special & SPECIAL_INNER) != 0 && ip + ihl <= end && (be16(ip + 6) & 0x1fff) == 0) {
    const total = be16(ip + 2);
    const bounded = total >= ihl && total < left ? total : left;
    if (rowTunnel(cursor, batch, load<u8>(ip + 9), ip, ip + ihl, ip + min<u32>(<u32>(end - ip), bounded), bounded, depth)) return OK;
  }
  const nat: u32 = (cursor.special & SPECIAL_NAT) != 0 ? TRANSLATED : 0;
  return rowV4(cursor, batch, ip, end, left, ihl, foundVlan(), nat | (depth > 0 ? FLAG_INNER : 0));
}

/** Decodes the inner packet if `l4` is a readable tunnel; returns whether it was. */
function rowTunnel(
  cursor: Cursor, batch: Batch, proto: u32, ip: usize, l4: usize, end: usize, left: u32, depth: i32,
): bool {
  if (depth >= MAX_NESTING) return false;
  const vlan = foundVlan();
  if (walkTunnel(proto, l4, end) == OK) {
    const inside = foundIp();
    if (inside < end && rowIp(cursor, batch, inside, end, left - <u32>(inside - ip), depth + 1) == OK) return true;
  }
  // The row is the outer packet's: restore its own tag.
  setVlan(vlan);
  return false;
}

/** Adds flags if the digest lacks bytes: `visible` bytes from the IP header on are captured, `total` belong to the packet. */
// @ts-ignore: decorator
@inline
function flagShort(cursor: Cursor, batch: Batch, flags: u32, visible: u32, total: u32): u32 {
  if (visible >= min<u32>(total, cursor.cover)) return flags;
  batch.shorts++;
  return flags | FLAG_SHORT;
}

// @ts-ignore: decorator
@inline
function linkLocal(is: bool): u32 {
  return (<u32>is) * FLAG_LINK_LOCAL;
}

/** Fills the columns that describe the packet's bytes, and counts the row. */
// @ts-ignore: decorator
@inline
function endRow(batch: Batch, ip: usize, visible: u32, ipid: u32, flags: u32): void {
  const q = batch.count++ << 2;
  store<u32>(batch.flags + q, flags);
  if (batch.lean == 0) {
    store<u32>(batch.ipid + q, ipid);
    store<u32>(batch.header + q, <u32>ip);
    store<u32>(batch.captured + q, visible);
  } else if ((flags & FLAG_SHORT) != 0) store<u32>(batch.captured + q, visible);
}

// @ts-ignore: decorator
@inline
function rowV4(cursor: Cursor, batch: Batch, ip: usize, end: usize, left: u32, ihl: u32, vlan: u64, flagsIn: u32): i32 {
  let total = be16(ip + 2);
  // Segmentation offload leaves a total length of 0 in captures on the sending host.
  if (total == 0) total = left;
  if (total < ihl) return BAD_IP;
  const frag = be16(ip + 6);
  const proto: u32 = load<u8>(ip + 9);
  const l4 = ip + ihl;
  const visible = <u32>(end - ip);
  const seen: usize = ip + min<u32>(visible, total);
  const covered: usize = min<usize>(seen, ip + cursor.cover);
  const destination = be32(ip + 16);
  const nat = (flagsIn & TRANSLATED) != 0;
  let flags: u32 = load<u8>(ip + 8) | (flagsIn & ~TRANSLATED) | FLAG_IPID | linkLocal(destination >> 8 == 0xe00000 || destination == 0xffffffff);
  let h = mixWord(mixWord(cursor.seed, nat ? 0 : load<u64>(ip + 12)), load<u64>(ip + 2) & 0xff00ffffffffffff);
  let meta: u64 = (<u64>proto << 32) | (<u64>(load<u8>(ip + 1) >> 2) << 40) | vlan;
  if ((frag & 0x1fff) == 0) {
    if ((frag & 0x2000) != 0) flags |= FLAG_FRAGMENT;
    if (hasPorts(proto)) {
      if (l4 + 4 <= seen) meta |= META_PORTS | <u64>be32(l4);
      else flags |= FLAG_CUT_L4;
      if (proto == 6 && l4 + 14 <= seen) flags |= (<u32>load<u8>(l4 + 13)) << 8;
    }
    h = nat ? digestTranslated(h, proto, l4, covered) : digestL4(h, proto, l4, covered);
  } else {
    flags |= FLAG_FRAGMENT | FLAG_LATER_FRAGMENT;
    h = digestL4(h, 255, l4, covered);
  }
  const o = batch.count << 3;
  store<u64>(batch.digest + o, avalanche(h));
  store<u64>(batch.meta + o, meta);
  store<u64>(batch.addrA + o, (<u64>be32(ip + 12) << 32) | <u64>destination);
  endRow(batch, ip, visible, be16(ip + 4), flagShort(cursor, batch, flags, visible, min<u32>(total, left)));
  return OK;
}

// Results of walking IPv6 extension headers.
let extProto: u32 = 0;
let extL4: usize = 0;
let extFlags: u32 = 0;
let extFragment: u64 = 0; // fragment field << 32 | identification
let extCut: bool = false; // the chain goes on past the limit: extProto is the header that could not be read

/** Walks the extension headers of the packet at `ip`, reading nothing at or beyond `limit`. */
function walkExtensions(ip: usize, limit: usize): void {
  let proto: u32 = load<u8>(ip + 6);
  let l4 = ip + 40;
  extFlags = 0;
  extFragment = 0;
  extCut = false;
  while (true) {
    const fragment = proto == 44;
    if (!fragment && proto != 0 && proto != 43 && proto != 60 && proto != 51 && proto != 135 && proto != 139 && proto != 140) break;
    if (l4 + (fragment ? 8 : 2) > limit) {
      extCut = true;
      break;
    }
    const next: u32 = load<u8>(l4);
    // Mobility, HIP and shim6 may be last: then their next header is 59 (none), and they are the protocol themselves.
    if (next == 59 && (proto == 135 || proto == 139 || proto == 140)) break;
    if (fragment) {
      const field = be16(l4 + 2);
      extFragment = (<u64>field << 32) | <u64>be32(l4 + 4);
      extFlags |= FLAG_IPID;
      // An atomic fragment (offset 0, no more fragments) is a whole packet.
      if ((field & 0xfff9) != 0) extFlags |= FLAG_FRAGMENT;
      proto = next;
      l4 += 8;
      if ((field & 0xfff8) != 0) {
        extFlags |= FLAG_LATER_FRAGMENT;
        break;
      }
      continue;
    }
    const length: u32 = load<u8>(l4 + 1);
    l4 += proto == 51 ? (length + 2) << 2 : (length + 1) << 3;
    proto = next;
  }
  extProto = proto;
  extL4 = l4;
}

function rowV6(cursor: Cursor, batch: Batch, ip: usize, end: usize, left: u32, depth: i32): i32 {
  const payload = be16(ip + 4);
  // A payload length of 0 in a packet longer than any padding (the minimum MTU) is a jumbogram or segmentation offload.
  const total: u32 = payload == 0 && left > 1280 ? left : payload + 40;
  const visible = <u32>(end - ip);
  const seen: usize = ip + min<u32>(visible, total);
  const covered: usize = min<usize>(seen, ip + max<u32>(cursor.cover, 40));
  // First only as far as the digest may reach, so that the same cover gives the same digest; then as far as bytes are captured.
  walkExtensions(ip, covered);
  const sa = load<u64>(ip + 8);
  const sb = load<u64>(ip + 16);
  const da = load<u64>(ip + 24);
  const db = load<u64>(ip + 32);
  const nat = (cursor.special & SPECIAL_NAT) != 0;
  let h = nat ? cursor.seed : mixWord(mixWord(mixWord(mixWord(cursor.seed, sa), sb), da), db);
  h = mixWord(mixWord(h, (<u64>payload << 32) | <u64>extProto), extFragment);
  const plain = extCut || (extFlags & FLAG_LATER_FRAGMENT) != 0;
  if (extL4 < covered) {
    h = nat && !plain ? digestTranslated(h, extProto, extL4, covered) : digestL4(h, plain ? 255 : extProto, extL4, covered);
  }
  // Ports beyond the digest's reach are not part of a key either: another capture may not contain them.
  const reached = !extCut && extL4 + 4 <= covered;
  if (extCut) walkExtensions(ip, seen);
  const proto = extProto;
  const l4 = extL4;
  const cut = extCut;
  const ipid = <u32>extFragment;
  const scoped = (sa & 0xc0ff) == 0x80fe || (da & 0xc0ff) == 0x80fe || (da & 0xffff) == 0x02ff;
  let flags: u32 = load<u8>(ip + 7) | extFlags | (depth > 0 ? FLAG_INNER : 0) | linkLocal(scoped);
  if ((cursor.special & SPECIAL_INNER) != 0 && !cut && (flags & FLAG_LATER_FRAGMENT) == 0) {
    if (rowTunnel(cursor, batch, proto, ip, l4, seen, min<u32>(left, total), depth)) return OK;
  }
  const dscp: u64 = <u64>((be16(ip) >> 6) & 0x3f);
  let meta: u64 = META_IPV6 | (<u64>proto << 32) | (dscp << 40) | foundVlan();
  if (cut) flags |= FLAG_CUT_L4;
  else if ((flags & FLAG_LATER_FRAGMENT) == 0 && hasPorts(proto)) {
    if (reached) meta |= META_PORTS | <u64>be32(l4);
    else flags |= FLAG_CUT_L4;
    if (proto == 6 && l4 + 14 <= seen) flags |= (<u32>load<u8>(l4 + 13)) << 8;
  }
  const o = batch.count << 3;
  store<u64>(batch.digest + o, avalanche(h));
  store<u64>(batch.meta + o, meta);
  store<u64>(batch.addrA + o, bswap<u64>(sa));
  store<u64>(batch.addrB + o, bswap<u64>(sb));
  store<u64>(batch.addrC + o, bswap<u64>(da));
  store<u64>(batch.addrD + o, bswap<u64>(db));
  endRow(batch, ip, visible, ipid, flagShort(cursor, batch, flags, visible, min<u32>(total, left)));
  return OK;
}
