/** Random frames for property tests: valid stacks of every link type and encapsulation, and damaged variants of them. */
import fc from "fast-check";
import * as p from "./packets.ts";

export interface LinkFrame {
  link: number;
  frame: Uint8Array;
}

const port = fc.integer({ min: 0, max: 65_535 });
const payload = fc.uint8Array({ maxLength: 200 });

/** An L4 header with a payload, and its protocol number. */
const l4 = fc
  .tuple(
    fc.constantFrom(6, 17, 1, 58, 2, 132, 33, 136, 50, 59, 253),
    fc.record({ sport: port, dport: port }),
    payload,
    fc.integer({ min: 0, max: 255 }),
  )
  .map(([proto, ports, data, flags]) => {
    const options = flags % 3 === 0 ? Uint8Array.of(1, 1, 8, 10, 0, 0, 0, flags, 0, 0, 0, 1) : undefined;
    const sum = flags * 257;
    if (proto === 6)
      return {
        proto,
        data: p.stack(
          [p.tcp({ ...ports, seq: flags * 77_777, flags, sum, ...(options ? { options } : {}) })],
          data,
        ),
      };
    if (proto === 17 || proto === 136) return { proto, data: p.stack([p.udp({ ...ports, sum })], data) };
    if (proto === 132) return { proto, data: p.stack([p.sctp({ ...ports, sum })], data) };
    if (proto === 33) return { proto, data: p.stack([p.dccp({ ...ports, sum })], data) };
    if (proto === 1 || proto === 58 || proto === 2)
      return { proto, data: p.stack([p.icmp(flags, 0, ports.sport, 1, sum)], data) };
    return { proto, data };
  });

const v4 = fc
  .record({
    inside: l4,
    id: port,
    fragment: fc.constantFrom(0, 0, 0, 0x4000, 0x2000, 0x20b9, 0x00b9),
    ttl: fc.integer({ min: 0, max: 255 }),
    tos: fc.integer({ min: 0, max: 255 }),
    optionWords: fc.constantFrom(0, 0, 0, 1, 5, 10),
    src: fc.uint8Array({ minLength: 4, maxLength: 4 }),
    dst: fc.uint8Array({ minLength: 4, maxLength: 4 }),
  })
  .map(({ inside, optionWords, ...f }) => ({
    type: 0x0800,
    data: p.stack(
      [p.ipv4({ ...f, proto: inside.proto, options: new Uint8Array(4 * optionWords).fill(1) })],
      inside.data,
    ),
  }));

const extensions = fc.array(
  fc.constantFrom("hop", "routing", "options", "fragment", "more", "later", "ah", "mobility"),
  { maxLength: 4 },
);

const v6 = fc
  .record({
    inside: l4,
    chain: fc.oneof(fc.constant([]), extensions),
    hopLimit: fc.integer({ min: 0, max: 255 }),
    trafficClass: fc.integer({ min: 0, max: 255 }),
    flowLabel: fc.integer({ min: 0, max: 0xfffff }),
    units: fc.integer({ min: 0, max: 3 }),
    src: fc.uint8Array({ minLength: 16, maxLength: 16 }),
    dst: fc.uint8Array({ minLength: 16, maxLength: 16 }),
  })
  .map(({ inside, chain, units, ...f }) => {
    let next: number = inside.proto;
    let { data } = inside;
    for (const kind of [...chain].reverse()) {
      if (kind === "hop") [data, next] = [p.stack([p.extension(next, units)], data), 0];
      else if (kind === "options") [data, next] = [p.stack([p.extension(next, units)], data), 60];
      else if (kind === "mobility") [data, next] = [p.stack([p.extension(next, units)], data), 135];
      else if (kind === "routing") [data, next] = [p.stack([p.routing(next)], data), 43];
      else if (kind === "ah") [data, next] = [p.stack([p.authentication(next)], data), 51];
      else {
        const field = kind === "fragment" ? 0 : kind === "more" ? 1 : 0x00b8;
        [data, next] = [p.stack([p.fragment6(next, field, 0x01020304)], data), 44];
      }
    }
    return { type: 0x86dd, data: p.stack([p.ipv6({ ...f, next })], data) };
  });

export interface IpPacket {
  type: number;
  data: Uint8Array;
}
export const plainIp: fc.Arbitrary<IpPacket> = fc.oneof(v4, v6);

/** A packet inside a tunnel inside a packet. */
const tunnelled: fc.Arbitrary<IpPacket> = fc
  .tuple(
    plainIp,
    fc.constantFrom(
      "ipip",
      "gre",
      "greKey",
      "nvgre",
      "erspan",
      "erspan3",
      "vxlan",
      "geneve",
      "gtp",
      "mplsUdp",
      "etherIp",
    ),
    fc.boolean(),
  )
  .map(([inside, kind, over6]) => {
    const isV4 = inside.type === 0x0800;
    const eth = p.ethernet(inside.type);
    const tagged = p.ethernet(0x8100);
    const options = Uint8Array.of(1, 2, 3, 1, 9, 9, 9, 9);
    const layers: Record<string, [number, p.Layer[]]> = {
      ipip: [isV4 ? 4 : 41, []],
      gre: [47, [p.gre(inside.type)]],
      greKey: [47, [p.gre(inside.type, { key: 5, sequence: 1, sum: true })]],
      nvgre: [47, [p.gre(0x6558, { key: 5 }), eth]],
      erspan: [47, [p.gre(0x88be, { sequence: 3 }), p.prefix(0x10, 1, 0, 0, 0, 0, 0, 0), eth]],
      erspan3: [47, [p.gre(0x22eb, { sequence: 3 }), p.erspan3(inside.data.length % 2 === 0), eth]],
      vxlan: [17, [p.udp({ sport: 40_000, dport: 4789 }), p.vxlan(7), tagged, p.vlan(55, inside.type)]],
      geneve: [17, [p.udp({ sport: 40_000, dport: 6081 }), p.geneve(0x6558, options), eth]],
      gtp: [17, [p.udp({ sport: 2152, dport: 2152 }), p.gtp({ sequence: 4, extension: true })]],
      mplsUdp: [17, [p.udp({ sport: 40_000, dport: 6635 }), p.mpls(17)]],
      etherIp: [97, [p.prefix(0x30, 0), eth]],
    };
    const [proto, inner] = layers[kind]!;
    const outer = over6 ? p.ipv6({ next: proto }) : p.ipv4({ proto });
    return { type: over6 ? 0x86dd : 0x0800, data: p.stack([outer, ...inner], inside.data) };
  });

export const anyIp: fc.Arbitrary<IpPacket> = fc.oneof(
  { arbitrary: plainIp, weight: 3 },
  { arbitrary: tunnelled, weight: 1 },
);

/** Tags, labels, PPPoE or LLC between a link with EtherType and the packet. */
const carried = fc
  .tuple(
    anyIp,
    fc.array(fc.constantFrom("vlan", "qinq", "mpls", "pppoe", "snap", "pbb"), { maxLength: 4 }),
    fc.integer({ min: 0, max: 4095 }),
  )
  .map(([ip, chain, id]) => {
    let { type, data } = ip;
    for (const kind of [...chain].reverse()) {
      if (kind === "vlan") [data, type] = [p.stack([p.vlan(id, type)], data), 0x8100];
      else if (kind === "qinq") [data, type] = [p.stack([p.vlan(id, type)], data), 0x88a8];
      else if (kind === "mpls") {
        // Labels have no type: behind them is IP, or a frame with a control word.
        const inside =
          type === ip.type && data === ip.data
            ? data
            : p.stack([p.prefix(0, 0, 0, 0), p.ethernet(type)], data);
        [data, type] = [p.stack([p.mpls(id, 99)], inside), 0x8847];
      } else if (kind === "pppoe" && data === ip.data) {
        [data, type] = [
          p.stack([p.pppoe(id), p.ppp(type === 0x0800 ? 0x21 : 0x57, id % 2 === 0)], data),
          0x8864,
        ];
      } else if (kind === "snap")
        [data, type] = [p.stack([p.llcSnap(type)], data), Math.min(1500, data.length + 8)];
      else if (kind === "pbb")
        [data, type] = [p.stack([p.prefix(0, 0, 0, 1), p.ethernet(type)], data), 0x88e7];
    }
    return { ip, type, data };
  });

const LINKS = [
  1, 1, 1, 113, 276, 0, 108, 12, 101, 228, 9, 50, 51, 104, 100, 10, 107, 8, 109, 117, 192, 204, 166, 226, 239,
  242, 274,
] as const;

/** A valid frame of any link type. */
export const validFrame: fc.Arbitrary<LinkFrame> = fc
  .tuple(carried, fc.constantFrom(...LINKS), fc.boolean(), fc.uint8Array({ maxLength: 8 }))
  .map(([c, link, flag, behind]) => {
    const family6 = flag ? 30 : 24;
    const family = c.ip.type === 0x0800 ? 2 : family6;
    const protocol = c.ip.type === 0x0800 ? 0x21 : 0x57;
    const snapped = p.stack(
      [p.llcSnap(c.type > 1500 ? c.type : c.ip.type)],
      c.type > 1500 ? c.data : c.ip.data,
    );
    // Serial links carry IP and labels, but no lengths and tags.
    const typed = c.type === 0x8847 ? c : c.ip;
    const make = (...layers: p.Layer[]) => p.stack([...layers, p.trailer(behind)], c.data);
    const bare = (...layers: p.Layer[]) => p.stack([...layers, p.trailer(behind)], c.ip.data);
    const frames: Record<number, () => Uint8Array> = {
      1: () => make(p.ethernet(c.type)),
      113: () => (c.type > 1500 ? make(p.sll(c.type)) : p.stack([p.sll(4)], snapped)),
      276: () => (c.type > 1500 ? make(p.sll2(c.type)) : p.stack([p.sll2(4)], snapped)),
      0: () => bare(p.prefix(flag ? p.be32(family) : p.le32(family))),
      108: () => bare(p.prefix(p.be32(family))),
      9: () => (flag ? p.stack([p.prefix(0x0f, 0, p.be16(typed.type))], typed.data) : bare(p.ppp(protocol))),
      50: () => bare(p.prefix(0xff, 3), p.ppp(protocol, flag)),
      51: () => bare(p.pppoe(9), p.ppp(protocol, flag)),
      104: () => p.stack([p.prefix(0x0f, 0, p.be16(typed.type)), p.trailer(behind)], typed.data),
      100: () => snapped,
      10: () => p.stack([p.prefix(0x50, new Uint8Array(12))], snapped),
      107: () =>
        flag
          ? p.stack([p.prefix(0x18, 0x41, p.be16(typed.type))], typed.data)
          : bare(p.prefix(0x18, 0x41, 3, family === 2 ? 0xcc : 0x8e)),
      8: () => bare(p.prefix(new Uint8Array(16))),
      109: () => bare(p.prefix(p.le32(family === 2 ? 2 : 24), new Uint8Array(8))),
      117: () => bare(p.prefix(61, family, new Uint8Array(62))),
      192: () => make(p.prefix(0, 0, 8, 0, 1, 0, 0, 0), p.ethernet(c.type)),
      204: () => bare(p.prefix(1, 0xff, 3), p.ppp(protocol)),
      166: () => bare(p.prefix(1, 3), p.ppp(protocol)),
      226: () => bare(p.ipnet(family === 2 ? 2 : 26)),
      239: () => bare(p.nflog(family === 2 ? 2 : 10)),
      242: () => bare(p.ipoib(c.ip.type)),
      274: () => make(p.preamble(), p.frameCheck(), p.ethernet(c.type)),
    };
    const version = c.ip.type === 0x0800 ? 228 : 229;
    return { link: link === 228 ? version : link, frame: (frames[link] ?? (() => bare()))() };
  });

/** A frame with some bytes overwritten, cut off or appended; most of it stays valid. */
export const hostileFrame: fc.Arbitrary<LinkFrame> = fc
  .tuple(
    validFrame,
    fc.array(
      fc.tuple(
        fc.nat(),
        fc.oneof(fc.integer({ min: 0, max: 255 }), fc.constantFrom(0, 255, 0x45, 0x60, 0x81, 0x88)),
      ),
      { maxLength: 6 },
    ),
    fc.option(fc.double({ min: 0, max: 1, noNaN: true }), { nil: undefined }),
  )
  .map(([{ link, frame }, changes, keep]) => {
    const out = Uint8Array.from(frame);
    // Headers are at the front, so two of three changes hit the first 80 bytes.
    changes.forEach(([at, value], i) => {
      if (out.length > 0) out[at % (i % 3 === 2 ? out.length : Math.min(out.length, 80))] = value;
    });
    return { link, frame: keep === undefined ? out : out.subarray(0, Math.floor(keep * out.length)) };
  });
