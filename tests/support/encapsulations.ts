/** One frame of every encapsulation that hoptime claims to decode, by name; in a fresh clone, the decoder is compared with tshark on them. */
import type { LinkFrame } from "./arbitrary-frames.ts";
import * as p from "./packets.ts";

export interface NamedFrame extends LinkFrame {
  name: string;
}

const DATA = Uint8Array.from({ length: 90 }, (_, i) => i);
const v4 = (f: Partial<p.Ipv4Fields> & { proto: number }) => p.ipv4(f);
const udp4 = p.stack([v4({ proto: 17 }), p.udp({ sport: 5000, dport: 5001 })], DATA);
const udp6 = p.stack([p.ipv6({ next: 17 }), p.udp({ sport: 5000, dport: 5001 })], DATA);
const both: [string, number, number, Uint8Array][] = [
  ["IPv4", 0x0800, 0x21, udp4],
  ["IPv6", 0x86dd, 0x57, udp6],
];

const l4: [string, number, p.Layer][] = [
  ["TCP", 6, p.tcp({ sport: 40_000, dport: 40_001 })],
  [
    "TCP with options",
    6,
    p.tcp({ sport: 40_000, dport: 40_001, options: Uint8Array.of(1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2) }),
  ],
  ["UDP", 17, p.udp({ sport: 40_000, dport: 40_001 })],
  ["UDP-Lite", 136, p.udp({ sport: 40_000, dport: 40_001 })],
  ["SCTP", 132, p.sctp({ sport: 40_000, dport: 40_001 })],
  ["DCCP", 33, p.dccp({ sport: 40_000, dport: 40_001 })],
  ["ESP", 50, p.prefix(p.be32(1), p.be32(2))],
  ["experimental", 253, p.prefix()],
];

function links(): NamedFrame[] {
  return both.flatMap(([ip, type, ppp, data]) => {
    const family = type === 0x0800 ? 2 : 30;
    const make = (name: string, link: number, ...layers: p.Layer[]) => ({
      name: `${ip} in ${name}`,
      link,
      frame: p.stack(layers, data),
    });
    return [
      make("Ethernet", 1, p.ethernet(type)),
      make("Ethernet with padding", 1, p.ethernet(type), p.trailer(new Uint8Array(9).fill(0xee))),
      make("one VLAN", 1, p.ethernet(0x8100), p.vlan(7, type)),
      make("QinQ", 1, p.ethernet(0x88a8), p.vlan(7, 0x8100), p.vlan(8, type)),
      make("three tags", 1, p.ethernet(0x8100), p.vlan(7, 0x8100), p.vlan(8, 0x8100), p.vlan(9, type)),
      make("old QinQ", 1, p.ethernet(0x9100), p.vlan(7, 0x8100), p.vlan(8, type)),
      make("MPLS", 1, p.ethernet(0x8847), p.mpls(16)),
      make("three labels", 1, p.ethernet(0x8847), p.mpls(16, 17, 18)),
      make("MPLS pseudowire", 1, p.ethernet(0x8847), p.mpls(16), p.prefix(0, 0, 0, 0), p.ethernet(type)),
      make("VLAN and MPLS", 1, p.ethernet(0x8100), p.vlan(7, 0x8847), p.mpls(16)),
      make("PPPoE", 1, p.ethernet(0x8864), p.pppoe(3), p.ppp(ppp)),
      make("PPPoE in a VLAN", 1, p.ethernet(0x8100), p.vlan(7, 0x8864), p.pppoe(3), p.ppp(ppp)),
      make("802.3 SNAP", 1, p.ethernet8023(), p.llcSnap(type)),
      make("backbone bridge", 1, p.ethernet(0x88e7), p.prefix(0, 0, 0, 9), p.ethernet(type)),
      make("cooked v1", 113, p.sll(type)),
      make("cooked v1 with VLAN", 113, p.sll(0x8100), p.vlan(5, type)),
      make("cooked v2", 276, p.sll2(type)),
      make("raw IP", 101),
      make("raw IP (12)", 12),
      make("raw IP of one version", type === 0x0800 ? 228 : 229),
      make("null, little-endian", 0, p.prefix(p.le32(family))),
      make("null, big-endian", 0, p.prefix(p.be32(family))),
      make("loop", 108, p.prefix(p.be32(family === 2 ? 2 : 24))),
      make("PPP", 9, p.ppp(ppp)),
      make("PPP with address and control", 9, p.prefix(0xff, 3), p.ppp(ppp)),
      make("PPP in HDLC framing", 50, p.prefix(0xff, 3), p.ppp(ppp)),
      make("PPP with a direction", 204, p.prefix(1, 0xff, 3), p.ppp(ppp)),
      make("PPP of pppd", 166, p.prefix(1, 3), p.ppp(ppp)),
      make("PPP MPLS", 9, p.prefix(0xff, 3), p.ppp(0x281), p.mpls(99)),
      make("PPPoE link", 51, p.pppoe(1), p.ppp(ppp)),
      make("Cisco HDLC", 104, p.prefix(0x0f, 0, p.be16(type))),
      make("Frame Relay", 107, p.prefix(0x18, 0x41, 3, type === 0x0800 ? 0xcc : 0x8e)),
      make("Frame Relay SNAP", 107, p.prefix(0x18, 0x41, 3, 0, 0x80, 0, 0, 0, p.be16(type))),
      make("Frame Relay of Cisco", 107, p.prefix(0x18, 0x41, p.be16(type))),
      make("LLC/SNAP on ATM", 100, p.llcSnap(type)),
      make("FDDI", 10, p.prefix(0x50, new Uint8Array(12)), p.llcSnap(type)),
      make("BSD IPsec", 109, p.prefix(p.le32(family === 2 ? 2 : 24), new Uint8Array(8))),
      make("PPI", 192, p.prefix(0, 0, 8, 0, 1, 0, 0, 0), p.ethernet(type)),
      make("NFLOG", 239, p.nflog(family === 2 ? 2 : 10)),
      make("frame with preamble", 274, p.preamble(), p.frameCheck(), p.ethernet(type)),
      make("Solaris ipnet", 226, p.ipnet(family === 2 ? 2 : 26)),
      make("IP over InfiniBand", 242, p.ipoib(type)),
    ];
  });
}

function transports(): NamedFrame[] {
  const frames = l4.flatMap(([name, proto, layer]) => [
    { name: `${name} on IPv4`, layers: [p.ethernet(0x0800), v4({ proto }), layer] },
    {
      name: `${name} on IPv4 with options`,
      layers: [p.ethernet(0x0800), v4({ proto, options: new Uint8Array(24).fill(1) }), layer],
    },
    { name: `${name}, first fragment`, layers: [p.ethernet(0x0800), v4({ proto, fragment: 0x2000 }), layer] },
    { name: `${name}, later fragment`, layers: [p.ethernet(0x0800), v4({ proto, fragment: 0x2010 }), layer] },
    { name: `${name} on IPv6`, layers: [p.ethernet(0x86dd), p.ipv6({ next: proto }), layer] },
    {
      name: `${name} behind hop-by-hop`,
      layers: [p.ethernet(0x86dd), p.ipv6({ next: 0 }), p.extension(proto, 1), layer],
    },
    {
      name: `${name} behind four extension headers`,
      layers: [
        p.ethernet(0x86dd),
        p.ipv6({ next: 0 }),
        p.extension(60),
        p.extension(43, 2),
        p.routing(44),
        p.fragment6(proto, 0, 9),
        layer,
      ],
    },
    {
      name: `${name}, IPv6 first fragment`,
      layers: [p.ethernet(0x86dd), p.ipv6({ next: 44 }), p.fragment6(proto, 1, 5), layer],
    },
    {
      name: `${name}, IPv6 later fragment`,
      layers: [p.ethernet(0x86dd), p.ipv6({ next: 44 }), p.fragment6(proto, 0x80, 5), layer],
    },
    {
      name: `${name} behind AH`,
      layers: [p.ethernet(0x86dd), p.ipv6({ next: 51 }), p.authentication(proto), layer],
    },
  ]);
  const icmp = [
    { name: "ICMP echo", layers: [p.ethernet(0x0800), v4({ proto: 1 }), p.icmp(8)] },
    {
      name: "ICMP error that quotes a packet",
      layers: [
        p.ethernet(0x0800),
        v4({ proto: 1 }),
        p.icmp(3, 3, 0, 0),
        v4({ proto: 17, src: p.V4_DST, dst: p.V4_SRC }),
        p.udp(),
      ],
    },
    { name: "ICMPv6 echo", layers: [p.ethernet(0x86dd), p.ipv6({ next: 58 }), p.icmp(128)] },
    {
      name: "ICMPv6 error that quotes a packet",
      layers: [
        p.ethernet(0x86dd),
        p.ipv6({ next: 58 }),
        p.icmp(1, 4, 0, 0),
        p.ipv6({ next: 17, src: p.V6_DST, dst: p.V6_SRC }),
        p.udp(),
      ],
    },
  ];
  return [...frames, ...icmp].map(({ name, layers }) => ({ name, link: 1, frame: p.stack(layers, DATA) }));
}

function tunnels(): NamedFrame[] {
  return both.flatMap(([ip, type, ppp, data]) => {
    const eth = p.ethernet(type);
    const inside: [string, number, p.Layer[]][] = [
      ["IP-in-IP", type === 0x0800 ? 4 : 41, []],
      ["GRE", 47, [p.gre(type)]],
      ["GRE with key, sequence and check sum", 47, [p.gre(type, { key: 1, sequence: 2, sum: true })]],
      ["NVGRE", 47, [p.gre(0x6558, { key: 1 }), eth]],
      ["ERSPAN II", 47, [p.gre(0x88be, { sequence: 1 }), p.prefix(0x10, 0x01, 0, 0, 0, 0, 0, 0), eth]],
      ["ERSPAN III", 47, [p.gre(0x22eb, { sequence: 1 }), p.erspan3(false), eth]],
      ["ERSPAN III with a platform header", 47, [p.gre(0x22eb, { sequence: 1 }), p.erspan3(true), eth]],
      [
        "PPTP",
        47,
        [p.prefix(0x30, 0x01, 0x88, 0x0b, p.be16(data.length + 4), 0, 7, p.be32(1), 0xff, 3), p.ppp(ppp)],
      ],
      ["VXLAN", 17, [p.udp({ sport: 50_000, dport: 4789 }), p.vxlan(9), eth]],
      [
        "VXLAN with a VLAN inside",
        17,
        [p.udp({ sport: 50_000, dport: 4789 }), p.vxlan(9), p.ethernet(0x8100), p.vlan(5, type)],
      ],
      ["VXLAN on the port of old", 17, [p.udp({ sport: 50_000, dport: 8472 }), p.vxlan(9), eth]],
      ["Geneve", 17, [p.udp({ sport: 50_000, dport: 6081 }), p.geneve(0x6558), eth]],
      [
        "Geneve with options",
        17,
        [p.udp({ sport: 50_000, dport: 6081 }), p.geneve(0x6558, Uint8Array.of(1, 2, 3, 1, 9, 9, 9, 9)), eth],
      ],
      ["GTP-U", 17, [p.udp({ sport: 50_000, dport: 2152 }), p.gtp()]],
      [
        "GTP-U with sequence number and extension",
        17,
        [p.udp({ sport: 2152, dport: 2152 }), p.gtp({ sequence: 3, extension: true })],
      ],
      ["MPLS in UDP", 17, [p.udp({ sport: 50_000, dport: 6635 }), p.mpls(17)]],
      [
        "IP-in-IP in VXLAN",
        17,
        [
          p.udp({ sport: 50_000, dport: 4789 }),
          p.vxlan(9),
          p.ethernet(0x0800),
          v4({ proto: type === 0x0800 ? 4 : 41 }),
        ],
      ],
    ];
    return inside.flatMap(([name, proto, layers]) => [
      {
        name: `${ip} in ${name} in IPv4`,
        link: 1,
        frame: p.stack([p.ethernet(0x0800), v4({ proto, src: Uint8Array.of(1, 2, 3, 4) }), ...layers], data),
      },
      {
        name: `${ip} in ${name} in IPv6`,
        link: 1,
        frame: p.stack([p.ethernet(0x86dd), p.ipv6({ next: proto, hopLimit: 9 }), ...layers], data),
      },
    ]);
  });
}

export function encapsulations(): NamedFrame[] {
  return [...links(), ...transports(), ...tunnels()];
}
