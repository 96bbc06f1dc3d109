/**
 * The plain, slow reference implementation of kernels/decode/link.ts, decode.ts and digest.ts: the decoded frame and its digest, computed as simply as possible.
 * Reads go through `Bytes`, which throws at the end of the captured bytes; digests are computed with BigInt. The property tests use it as their oracle.
 */
import { formatIpv4, formatIpv6 } from "../../src/capture/address.ts";
import { FLAG } from "../../src/capture/batch.ts";
import { DEFAULT_COVER, DEFAULT_SEED } from "../../src/capture/reader.ts";
import type { PlainRow } from "./capture-rows.ts";

export interface TwinOptions {
  cover?: number;
  inner?: boolean;
  seed?: bigint;
}
export type TwinRow = Omit<PlainRow, "iface" | "timeNs" | "wireLength">;
export type TwinResult = { reason: string; row?: undefined } | { reason: null; row: TwinRow };

class Ended extends Error {}
class Verdict extends Error {
  readonly reason: string;
  constructor(reason: string) {
    super(reason);
    this.reason = reason;
  }
}

class Bytes {
  readonly data: Uint8Array;
  constructor(data: Uint8Array) {
    this.data = data;
  }
  u8(at: number): number {
    const v = this.data[at];
    if (v === undefined) throw new Ended();
    return v;
  }
  u16(at: number): number {
    // Reads the last byte first, so that a truncated number is not read at all.
    const low = this.u8(at + 1);
    return (this.u8(at) << 8) | low;
  }
  u32(at: number): number {
    const low = this.u16(at + 2);
    return this.u16(at) * 65_536 + low;
  }
  need(length: number): void {
    if (length > this.data.length) throw new Ended();
  }
}

interface Found {
  ip: number;
  vlan: number | null;
}

/** One search for an IP header. */
class Search {
  readonly b: Bytes;
  vlan: number | null;
  nested = 0;
  constructor(data: Uint8Array, vlan: number | null) {
    this.b = new Bytes(data);
    this.vlan = vlan;
  }

  nest(): void {
    if (++this.nested > 16) throw new Verdict("tooDeep");
  }
  ethernet(p: number): number {
    this.b.need(p + 14);
    return this.etherType(this.b.u16(p + 12), p + 14, true);
  }
  /** `framed`: behind MAC addresses or a tag, where a small number is a length. */
  etherType(type: number, p: number, framed = false): number {
    this.nest();
    if ([0x8100, 0x88a8, 0x9100, 0x9200].includes(type)) {
      this.b.need(p + 4);
      this.vlan ??= this.b.u16(p) & 0xfff;
      this.nested--;
      return this.etherType(this.b.u16(p + 2), p + 4, true);
    }
    if (type === 0x0800 || type === 0x86dd) return p;
    if (type === 0x8847 || type === 0x8848) return this.mpls(p);
    if (type === 0x8864) {
      this.b.need(p + 6);
      return this.ppp(p + 6);
    }
    if (type === 0x880b) return this.ppp(p);
    if (type === 0x6558) return this.ethernet(p);
    if (type === 0x88e7) return this.ethernet(p + 4);
    if (type <= 1500 && framed) return this.llc(p);
    throw new Verdict("notIp");
  }
  mpls(p: number): number {
    const bottom = (this.b.u32(p) & 0x100) !== 0;
    if (!bottom) return this.mpls(p + 4);
    const nibble = this.b.u8(p + 4) >> 4;
    if (nibble === 4 || nibble === 6) return p + 4;
    if (nibble === 0) return this.ethernet(p + 8);
    throw new Verdict("notIp");
  }
  llc(p: number): number {
    this.b.need(p + 3);
    const sap = this.b.u16(p);
    if (this.b.u8(p + 2) !== 3) throw new Verdict("notIp");
    if (sap === 0x0606) return p + 3;
    if (sap === 0xaaaa) return this.snap(p + 3, 2);
    throw new Verdict("notIp");
  }
  snap(p: number, bridgePadding: number): number {
    this.b.need(p + 5);
    const organisation = this.b.u8(p) * 65_536 + this.b.u16(p + 1);
    const type = this.b.u16(p + 3);
    if (organisation === 0 || organisation === 0xf8) return this.etherType(type, p + 5);
    if (organisation === 0x80c2 && (type === 1 || type === 7)) return this.ethernet(p + 5 + bridgePadding);
    throw new Verdict("notIp");
  }
  ppp(p: number): number {
    this.nest();
    this.b.need(p + 2);
    if (this.b.u16(p) === 0xff03) return this.pppProtocol(p + 2);
    return this.pppProtocol(p);
  }
  pppProtocol(p: number): number {
    const short = this.b.u8(p) % 2 === 1;
    const protocol = short ? this.b.u8(p) : this.b.u16(p);
    const after = p + (short ? 1 : 2);
    if (protocol === 0x21 || protocol === 0x57) return after;
    if (protocol === 0x281 || protocol === 0x283) return this.mpls(after);
    throw new Verdict("notIp");
  }
  hdlc(p: number): number {
    this.b.need(p + 4);
    return this.b.u8(p) === 0xff ? this.ppp(p) : this.etherType(this.b.u16(p + 2), p + 4);
  }
  frameRelay(): number {
    let p = 0;
    while (this.b.u8(p) % 2 === 0) if (++p === 4) throw new Verdict("notIp");
    p++;
    if (p < 2) throw new Verdict("notIp");
    this.b.need(p + 2);
    if (this.b.u8(p) !== 3) return this.etherType(this.b.u16(p), p + 2);
    p += this.b.u8(p + 1) === 0 ? 2 : 1;
    const nlpid = this.b.u8(p);
    if (nlpid === 0xcc || nlpid === 0x8e) return p + 1;
    if (nlpid === 0x80) return this.snap(p + 1, 0);
    throw new Verdict("notIp");
  }
  family(family: number, p: number): number {
    if ([2, 10, 23, 24, 26, 28, 30].includes(family)) return p;
    throw new Verdict("notIp");
  }
  /** Reads the family in the byte order in which it is small. */
  hostFamily(): number {
    const little = this.b.u8(0) + this.b.u8(1) * 256 + this.b.u16(2) * 0; // bytes 2 and 3 must be there
    return this.b.u8(2) === 0 && this.b.u8(3) === 0 ? little : this.b.u32(0);
  }
  cooked(type: number, p: number): number {
    return type === 4 ? this.llc(p) : this.etherType(type, p);
  }
  nflog(): number {
    this.b.need(4);
    let p = 4;
    while (p + 4 <= this.b.data.length) {
      const length = this.b.u8(p) + 256 * this.b.u8(p + 1);
      const type = this.b.u8(p + 2) + 256 * this.b.u8(p + 3);
      if (length < 4) throw new Verdict("notIp");
      if (type === 9) return this.family(this.b.u8(0) === 2 || this.b.u8(0) === 10 ? 2 : 0, p + 4);
      p += Math.ceil(length / 4) * 4;
    }
    if (p > this.b.data.length) throw new Ended();
    throw new Verdict("notIp");
  }

  link(link: number): number {
    const { b } = this;
    switch (link) {
      case 1:
        return this.ethernet(0);
      case 12:
      case 14:
      case 101:
      case 228:
      case 229:
        return 0;
      case 0:
        return this.family(this.hostFamily(), 4);
      case 108:
        return this.family(b.u32(0), 4);
      case 113:
        b.need(16);
        return this.cooked(b.u16(14), 16);
      case 276:
        b.need(20);
        return this.cooked(b.u16(0), 20);
      case 9:
      case 50:
        return b.data.length >= 4 && (b.u8(0) === 0x0f || b.u8(0) === 0x8f) ? this.hdlc(0) : this.ppp(0);
      case 166:
        b.need(2);
        return this.ppp(b.u8(0) <= 1 && b.u8(1) === 3 ? 2 : 0);
      case 204:
        b.need(1);
        return this.ppp(1);
      case 51:
        return this.etherType(0x8864, 0);
      case 104:
        return this.hdlc(0);
      case 107:
        return this.frameRelay();
      case 100:
        return this.llc(0);
      case 106:
        return b.u8(0) === 0xaa ? this.llc(0) : 0;
      case 10:
        b.need(13);
        return this.llc(13);
      case 8:
        b.need(16);
        return 16;
      case 109:
        b.need(12);
        return this.family(this.hostFamily(), 12);
      case 117:
        b.need(4);
        return this.family(b.u8(1), Math.ceil(b.u8(0) / 4) * 4);
      case 192: {
        b.need(8);
        const length = b.u8(2) + 256 * b.u8(3);
        const inside = b.u8(4) + 256 * (b.u8(5) + 256 * (b.u8(6) + 256 * b.u8(7)));
        if (length < 8 || inside === 192) throw new Verdict("notIp");
        b.need(length);
        const search = new Search(b.data.subarray(length), null);
        const ip = search.link(inside);
        this.vlan = search.vlan;
        return length + ip;
      }
      case 226:
        b.need(24);
        return this.family(b.u8(1), 24);
      case 239:
        return this.nflog();
      case 242:
        b.need(44);
        return this.etherType(b.u16(40), 44);
      case 274:
        b.need(8);
        if (![0xd5, 0xe6, 0x4c, 0x7f, 0xb3].includes(b.u8(7))) throw new Verdict("notIp");
        return this.ethernet(8);
      default:
        throw new Verdict("unknownLink");
    }
  }

  /** Returns the inner header of the tunnel with protocol `proto` at `p`. */
  tunnel(proto: number, p: number): number {
    const { b } = this;
    if (proto === 4 || proto === 41) return p;
    if (proto === 143) return this.ethernet(p);
    if (proto === 97) return this.ethernet(p + 2);
    if (proto === 47) return this.gre(p);
    if (proto !== 17) throw new Verdict("notIp");
    b.need(p + 8);
    const from = b.u16(p);
    const to = b.u16(p + 2);
    if (to === 4789 || to === 8472) {
      if ((b.u8(p + 8) & 8) === 0) throw new Verdict("notIp");
      return this.ethernet(p + 16);
    }
    if (to === 6081) {
      b.need(p + 16);
      return this.etherType(b.u16(p + 10), p + 16 + 4 * (b.u8(p + 8) & 0x3f));
    }
    if (to === 2152 || from === 2152) return this.gtp(p + 8);
    if (to === 6635) return this.mpls(p + 8);
    throw new Verdict("notIp");
  }
  gre(start: number): number {
    const { b } = this;
    const bits = b.u16(start);
    const type = b.u16(start + 2);
    const has = (bit: number) => (bits & bit) !== 0;
    let p = start + 4;
    if ((bits & 7) === 1) {
      if (type !== 0x880b) throw new Verdict("notIp");
      return this.ppp(p + 4 + (has(0x1000) ? 4 : 0) + (has(0x0080) ? 4 : 0));
    }
    if ((bits & 7) !== 0) throw new Verdict("notIp");
    p += (has(0x8000) || has(0x4000) ? 4 : 0) + (has(0x2000) ? 4 : 0) + (has(0x1000) ? 4 : 0);
    if (has(0x4000)) {
      for (;;) {
        b.need(p + 4);
        const last = b.u16(p) === 0 && b.u8(p + 3) === 0;
        p += 4 + b.u8(p + 3);
        if (last) break;
      }
    }
    if (type === 0x88be) return this.ethernet(has(0x1000) ? p + 8 : p);
    if (type === 0x22eb) {
      b.need(p + 12);
      return this.ethernet(p + (b.u8(p + 11) % 2 === 1 ? 20 : 12));
    }
    if (type === 0x883e) return b.u8(p) >> 4 === 4 ? p : p + 4;
    return this.etherType(type, p);
  }
  gtp(start: number): number {
    const { b } = this;
    b.need(start + 8);
    const bits = b.u8(start);
    if (b.u8(start + 1) !== 0xff || bits >> 5 !== 1) throw new Verdict("notIp");
    let p = start + 8;
    if ((bits & 7) !== 0) {
      b.need(p + 4);
      let next = (bits & 4) !== 0 ? b.u8(p + 3) : 0;
      p += 4;
      while (next !== 0) {
        const length = 4 * b.u8(p);
        if (length === 0) throw new Verdict("notIp");
        next = b.u8(p + length - 1);
        p += length;
      }
    }
    const nibble = b.u8(p) >> 4;
    if (nibble !== 4 && nibble !== 6) throw new Verdict("notIp");
    return p;
  }
}

/** Runs a search and returns a reason if it fails; `whenEnded` if the bytes end. */
function attempt(whenEnded: string, search: () => Found): Found | string {
  try {
    return search();
  } catch (error) {
    if (error instanceof Verdict) return error.reason;
    if (error instanceof Ended) return whenEnded;
    throw error;
  }
}

export function decodeTwin(
  link: number,
  frame: Uint8Array,
  wire: number,
  { cover = DEFAULT_COVER, inner = false, seed = DEFAULT_SEED }: TwinOptions = {},
): TwinResult {
  const found = attempt("truncatedLink", () => {
    const search = new Search(frame, null);
    const ip = search.link(link);
    return { ip, vlan: search.vlan };
  });
  if (typeof found === "string") return { reason: found };
  const onWire = Math.max(wire, frame.length) - found.ip;
  const result = packet(frame.subarray(found.ip), onWire, found.vlan, { cover, inner, seed }, 0);
  if (result.reason !== null) return result;
  return { reason: null, row: { ...result.row, flags: result.row.flags | cookedDirection(link, frame) } };
}

/** Linux cooked headers contain the packet type: 4 is sent by this host, 3 is between other hosts. */
function cookedDirection(link: number, frame: Uint8Array): number {
  if (link !== 113 && link !== 276) return 0;
  const type = link === 113 ? (frame[0] ?? 0) * 256 + (frame[1] ?? 0) : (frame[10] ?? 0);
  return type === 4 ? FLAG.outbound : type < 3 ? FLAG.inbound : 0;
}

/** Decodes the IP packet at the start of `data`; `onWire` bytes of it were on the wire. */
function packet(
  data: Uint8Array,
  onWire: number,
  vlan: number | null,
  options: Required<TwinOptions>,
  depth: number,
): TwinResult {
  if (data.length === 0) return { reason: "truncatedIp" };
  const version = data[0]! >> 4;
  if (version === 4) return packet4(data, onWire, vlan, options, depth);
  if (version === 6) return packet6(data, onWire, vlan, options, depth);
  return { reason: "badIp" };
}

/** Returns the row of the packet inside a tunnel, if there is one that can be read. */
function within(
  proto: number,
  l4: number,
  data: Uint8Array,
  onWire: number,
  vlan: number | null,
  options: Required<TwinOptions>,
  depth: number,
): TwinResult | null {
  if (!options.inner || depth === 16) return null;
  const found = attempt("notIp", () => {
    const search = new Search(data, vlan);
    const ip = search.tunnel(proto, l4);
    return { ip, vlan: search.vlan };
  });
  if (typeof found === "string") return null;
  const result = packet(data.subarray(found.ip), onWire - found.ip, found.vlan, options, depth + 1);
  return result.row ? result : null;
}

const HAS_PORTS = [6, 17, 132, 33, 136];

/** Reads ports and TCP flags as far as they are visible. */
function ports(
  proto: number,
  l4: Uint8Array,
): Pick<TwinRow, "sport" | "dport" | "tcpFlags"> & { cut: boolean } {
  if (!HAS_PORTS.includes(proto)) return { sport: null, dport: null, tcpFlags: 0, cut: false };
  const b = new Bytes(l4);
  const tcpFlags = proto === 6 && l4.length >= 14 ? b.u8(13) : 0;
  if (l4.length < 4) return { sport: null, dport: null, tcpFlags, cut: true };
  return { sport: b.u16(0), dport: b.u16(2), tcpFlags, cut: false };
}

function packet4(
  data: Uint8Array,
  onWire: number,
  vlan: number | null,
  options: Required<TwinOptions>,
  depth: number,
): TwinResult {
  const header = 4 * (data[0]! & 15);
  if (header < 20) return { reason: "badIp" };
  if (data.length < 20) return { reason: "truncatedIp" };
  const b = new Bytes(data);
  const claimed = b.u16(2);
  const field = b.u16(6);
  const later = (field & 0x1fff) !== 0;
  if (!later && header <= data.length) {
    const length = claimed >= header ? Math.min(claimed, onWire) : onWire;
    const inside = within(b.u8(9), header, data.subarray(0, length), length, vlan, options, depth);
    if (inside) return inside;
  }
  const total = claimed === 0 ? onWire : claimed;
  if (total < header) return { reason: "badIp" };
  const proto = b.u8(9);
  const seen = data.subarray(0, total);
  const covered = data.subarray(0, Math.min(total, options.cover));
  const l4 = later
    ? { sport: null, dport: null, tcpFlags: 0, cut: false }
    : ports(proto, seen.subarray(header));
  const identity = Uint8Array.from(data.subarray(2, 10));
  identity[6] = 0; // TTL
  let h = mix(options.seed, word(data.subarray(12, 20)));
  h = mix(h, word(identity));
  h = digestPayload(h, later ? null : proto, covered.subarray(header));
  const short = data.length < Math.min(total, onWire, options.cover);
  return {
    reason: null,
    row: {
      version: 4,
      src: formatIpv4(b.u32(12)),
      dst: formatIpv4(b.u32(16)),
      proto,
      sport: l4.sport,
      dport: l4.dport,
      dscp: b.u8(1) >> 2,
      vlan,
      ttl: b.u8(8),
      tcpFlags: l4.tcpFlags,
      flags:
        FLAG.ipid |
        (linkLocal4(b.u32(16)) ? FLAG.linkLocal : 0) |
        (later || (field & 0x2000) !== 0 ? FLAG.fragment : 0) |
        (later ? FLAG.laterFragment : 0) |
        (short ? FLAG.short : 0) |
        (depth > 0 ? FLAG.inner : 0) |
        (l4.cut ? FLAG.cutL4 : 0) |
        (/^224\.0\.0\.|^255\.255\.255\.255$/.test(formatIpv4(b.u32(16))) ? FLAG.linkLocal : 0),
      ipid: b.u16(4),
      captured: data.length,
      digest: finish(h),
    },
  };
}

interface Chain {
  proto: number;
  l4: number;
  fragment: { field: number; id: number } | null;
  /** A fragment header says that this is not the whole packet. */
  fragmented: boolean;
  later: boolean;
  cut: boolean;
}

/** Walks the extension headers as far as `data` contains them. */
function extensionChain(data: Uint8Array): Chain {
  const chain: Chain = {
    proto: data[6]!,
    l4: 40,
    fragment: null,
    fragmented: false,
    later: false,
    cut: false,
  };
  const b = new Bytes(data);
  while ([0, 43, 44, 51, 60, 135, 139, 140].includes(chain.proto)) {
    const { proto, l4 } = chain;
    if (l4 + (proto === 44 ? 8 : 2) > data.length) {
      chain.cut = true;
      break;
    }
    const next = b.u8(l4);
    if (next === 59 && [135, 139, 140].includes(proto)) break;
    chain.proto = next;
    if (proto === 44) {
      chain.fragment = { field: b.u16(l4 + 2), id: b.u32(l4 + 4) };
      chain.l4 += 8;
      chain.fragmented ||= (chain.fragment.field & 0xfff9) !== 0;
      chain.later = chain.fragment.field >> 3 !== 0;
      if (chain.later) break;
    } else chain.l4 += proto === 51 ? 4 * (b.u8(l4 + 1) + 2) : 8 * (b.u8(l4 + 1) + 1);
  }
  return chain;
}

function packet6(
  data: Uint8Array,
  onWire: number,
  vlan: number | null,
  options: Required<TwinOptions>,
  depth: number,
): TwinResult {
  if (data.length < 40) return { reason: "truncatedIp" };
  const b = new Bytes(data);
  const payload = b.u16(4);
  const total = payload === 0 && onWire > 1280 ? onWire : 40 + payload;
  const seen = data.subarray(0, total);
  const covered = data.subarray(0, Math.min(total, Math.max(40, options.cover)));
  const digested = extensionChain(covered);
  const chain = extensionChain(seen);
  if (!chain.cut && !chain.later) {
    const inside = within(chain.proto, chain.l4, seen, Math.min(onWire, total), vlan, options, depth);
    if (inside) return inside;
  }
  let h = options.seed;
  for (let i = 8; i < 40; i += 8) h = mix(h, word(data.subarray(i, i + 8)));
  h = mix(h, (BigInt(payload) << 32n) | BigInt(digested.proto));
  h = mix(
    h,
    digested.fragment ? (BigInt(digested.fragment.field) << 32n) | BigInt(digested.fragment.id) : 0n,
  );
  h = digestPayload(h, digested.cut || digested.later ? null : digested.proto, covered.subarray(digested.l4));
  const reached = !digested.cut && digested.l4 + 4 <= covered.length;
  const l4 =
    chain.cut || chain.later
      ? { sport: null, dport: null, tcpFlags: 0, cut: chain.cut }
      : ports(chain.proto, seen.subarray(chain.l4));
  // Ports beyond the digest's cover are not part of a key.
  if (!reached && l4.sport !== null) Object.assign(l4, { sport: null, dport: null, cut: true });
  const address = (at: number) => formatIpv6([b.u32(at), b.u32(at + 4), b.u32(at + 8), b.u32(at + 12)]);
  const short = data.length < Math.min(total, onWire, options.cover);
  return {
    reason: null,
    row: {
      version: 6,
      src: address(8),
      dst: address(24),
      proto: chain.proto,
      sport: l4.sport,
      dport: l4.dport,
      dscp: (b.u16(0) >> 6) & 0x3f,
      vlan,
      ttl: b.u8(7),
      tcpFlags: l4.tcpFlags,
      flags:
        (linkLocal6(b.u16(8), b.u16(24)) ? FLAG.linkLocal : 0) |
        (chain.fragment ? FLAG.ipid : 0) |
        (chain.fragmented ? FLAG.fragment : 0) |
        (chain.later ? FLAG.laterFragment : 0) |
        (short ? FLAG.short : 0) |
        (depth > 0 ? FLAG.inner : 0) |
        (l4.cut ? FLAG.cutL4 : 0) |
        ([address(8), address(24)].some((a) => /^fe[89ab][0-9a-f]:/.test(a)) || b.u16(24) === 0xff02
          ? FLAG.linkLocal
          : 0),
      ipid: chain.fragment?.id ?? 0,
      captured: data.length,
      digest: finish(h),
    },
  };
}

/** 224.0.0.0/24 and the limited broadcast address. */
function linkLocal4(to: number): boolean {
  return to >>> 8 === 0xe00000 || to >>> 0 === 0xffffffff;
}

/** fe80::/10 as source or destination, ff02::/16 as destination; the arguments are the first two bytes of each. */
function linkLocal6(from: number, to: number): boolean {
  return (from & 0xffc0) === 0xfe80 || (to & 0xffc0) === 0xfe80 || to === 0xff02;
}

// The digest, with BigInt.
const P1 = 0x9e3779b185ebca87n;
const P2 = 0xc2b2ae3d27d4eb4fn;
const P3 = 0x165667b19e3779f9n;
const P4 = 0x85ebca77c2b2ae63n;
const u64 = (v: bigint) => BigInt.asUintN(64, v);
const rotate = (v: bigint, bits: bigint) => u64(v << bits) | (v >> (64n - bits));

function mix(h: bigint, w: bigint): bigint {
  const mixed = u64(rotate(u64(w * P2), 31n) * P1);
  return u64(rotate(h ^ mixed, 27n) * P1 + P4);
}
function finish(h: bigint): bigint {
  const a = u64((h ^ (h >> 33n)) * P2);
  const b = u64((a ^ (a >> 29n)) * P3);
  return b ^ (b >> 32n);
}
/** Up to eight bytes, little-endian. */
function word(bytes: Uint8Array): bigint {
  return bytes.reduceRight((w, byte) => (w << 8n) | BigInt(byte), 0n);
}

const CHECKSUM_AT: Record<number, [number, number]> = {
  6: [16, 18],
  17: [6, 8],
  136: [6, 8],
  33: [6, 8],
  1: [2, 4],
  58: [2, 4],
  2: [2, 4],
  132: [8, 12],
};

/** Hashes L4 header and payload without the checksum of `proto` (null: unknown position). */
function digestPayload(h: bigint, proto: number | null, l4: Uint8Array): bigint {
  const plain = Uint8Array.from(l4);
  const at = proto === null ? undefined : CHECKSUM_AT[proto];
  if (at) plain.fill(0, at[0], at[1]);
  for (let i = 0; i < plain.length; i += 8) h = mix(h, word(plain.subarray(i, i + 8)));
  return h;
}
