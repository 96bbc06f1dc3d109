/**
 * Compares the filter with tcpdump: the same expressions on the same captures must select the same packets. Where the two differ by intent (docs/filters.md),
 * tcpdump gets an expression with the meaning of ours. Past 400 lines because it is mostly the list of expressions.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Kernels } from "../../base/kernels.ts";
import { formatIpv4, formatIpv6 } from "../address.ts";
import { CaptureReader } from "../reader.ts";
import { rowFields } from "./expression.ts";
import { compileFilter } from "./filter.ts";

const shared = process.env["HOPTIME_SHARED"] ?? fileURLToPath(new URL("../../../../shared", import.meta.url));
const tcpdumpMissing = (() => {
  try {
    execFileSync("tcpdump", ["--version"], { stdio: "ignore" });
    return false;
  } catch {
    console.log("skipped: tcpdump is not installed, so the filter is not compared with it");
    return true;
  }
})();

// --- packets ---

const u16 = (n: number) => [(n >>> 8) & 255, n & 255];
const u32 = (n: number) => [...u16(n >>> 16), ...u16(n)];
const SECOND = 1_000_000;

/** A pcap file of Ethernet frames; the second of its timestamp is a frame's number. */
function pcap(frames: number[][]): Buffer {
  const parts = [
    Buffer.from([...u32(0xa1b2c3d4), ...u16(2), ...u16(4), ...u32(0), ...u32(0), ...u32(65535), ...u32(1)]),
  ];
  for (const [i, frame] of frames.entries()) {
    const length = u32(frame.length);
    parts.push(Buffer.from([...u32(SECOND + i), ...u32(0), ...length, ...length, ...frame]));
  }
  return Buffer.concat(parts);
}

function ethernet(type: number, payload: number[], tags: number[] = [], tagType = 0x8100): number[] {
  const macs = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
  return [...macs, ...tags.flatMap((tag) => [...u16(tagType), ...u16(tag)]), ...u16(type), ...payload];
}

interface Ip {
  proto: number;
  payload: number[];
  src: number[];
  dst: number[];
  dscp?: number;
  ttl?: number;
  id?: number;
  /** Flags and offset of IPv4. */
  offset?: number;
  options?: number[];
}

function ip(p: Ip): number[] {
  const tos = ((p.dscp ?? 0) << 2) | 1;
  const ttl = p.ttl ?? 64;
  if (p.src.length === 4) {
    const words = [...p.src, ...p.dst].flatMap(u32);
    return [...u32(0x60000000 | (tos << 20)), ...u16(p.payload.length), p.proto, ttl, ...words, ...p.payload];
  }
  const options = p.options ?? [];
  const total = u16(20 + options.length + p.payload.length);
  const head = [
    0x45 + options.length / 4,
    tos,
    ...total,
    ...u16(p.id ?? 0),
    ...u16(p.offset ?? 0),
    ttl,
    p.proto,
  ];
  return [...head, 0, 0, ...u32(p.src[0]!), ...u32(p.dst[0]!), ...options, ...p.payload];
}

function transport(proto: number, sport: number, dport: number, flags: number, size: number): number[] {
  const data = new Array<number>(size).fill(0x61);
  const ports = [...u16(sport), ...u16(dport)];
  if (proto === 6) return [...ports, ...u32(1), ...u32(2), 0x50, flags, ...u16(1000), 0, 0, 0, 0, ...data];
  if (proto === 17) return [...ports, ...u16(8 + size), 0, 0, ...data];
  if (proto === 132) return [...ports, ...u32(3), ...u32(4), ...data];
  return [8, 0, 0, 0, 0, 1, 0, 1, ...data];
}

/** xorshift32: the same packets in every run. */
function random(seed: number): (below: number) => number {
  let x = seed;
  return (below) => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return (x >>> 0) % below;
  };
}

const V4 = [
  0x0a000000, 0x0a000001, 0x0a000002, 0x0a010203, 0xc0a80101, 0xe0000005, 0xffffffff, 0x08080808,
].map((w) => [w]);
const V6 = [
  [0x20010db8, 0, 0, 1],
  [0x20010db8, 0x80000000, 0, 2],
  [0xff020000, 0, 0, 0xfb],
  [0xfe800000, 0, 0, 7],
];

function generated(): number[][] {
  const r = random(20_240_601);
  const pick = <T>(list: readonly T[]): T => list[r(list.length)]!;
  const frames: number[][] = [];
  for (let i = 0; i < 3000; i++) {
    if (r(40) === 0) {
      const arp = [...u16(1), ...u16(0x0800), 6, 4, ...u16(1), 2, 0, 0, 0, 0, 1, ...u32(V4[1]![0]!)];
      frames.push(ethernet(0x0806, [...arp, 0, 0, 0, 0, 0, 0, ...u32(V4[2]![0]!), ...new Array(18).fill(0)]));
      continue;
    }
    const v6 = r(4) === 0;
    const proto = pick([6, 6, 6, 17, 17, 132, v6 ? 58 : 1, 2, 33, 47, 50, 89, 103, 112]);
    const flags = pick([0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0xc2]);
    const ports = [20, 22, 53, 80, 443, 8080, 40000, 65535];
    const offset = !v6 && r(8) === 0 ? pick([0x2000, 0x2001, 0x00b9]) : r(2) * 0x4000;
    const packet = ip({
      proto,
      payload: transport(proto, pick(ports), pick(ports), flags, pick([0, 20, 100, 900])),
      src: pick<number[]>(v6 ? V6 : V4),
      dst: pick<number[]>(v6 ? V6 : V4),
      dscp: pick([0, 0, 8, 46]),
      ttl: pick([1, 5, 64, 255]),
      id: r(4),
      offset,
      options: r(10) === 0 ? [1, 1, 1, 0] : [],
    });
    const tagged = r(5) === 0;
    const tag = 0x2000 | pick([10, 20, 4095]);
    frames.push(ethernet(v6 ? 0x86dd : 0x0800, packet, tagged ? [tag] : [], pick([0x8100, 0x88a8])));
  }
  return frames;
}

// --- the two sides ---

/** Covers tagged and untagged frames, IP only: pcap-filter's terms match only untagged frames unless `vlan` comes first. */
const anyTag = (expression: string) =>
  `((ip or ip6) and (${expression})) or (vlan and (ip or ip6) and (${expression}))`;

function tcpdump(file: string, expression: string): Buffer {
  return execFileSync("tcpdump", ["-r", file, "-w", "-", expression], {
    maxBuffer: 1 << 28,
    stdio: ["ignore", "pipe", "ignore"],
  });
}

/** Returns the seconds of the records of a pcap file in this machine's byte order. */
function seconds(bytes: Buffer): number[] {
  const out: number[] = [];
  for (let at = 24; at < bytes.length; at += 16 + bytes.readUInt32LE(at + 8))
    out.push(bytes.readUInt32LE(at));
  return out;
}

const kernels = new Kernels();

async function ours(
  file: string,
  expression: string,
  inner = false,
): Promise<{ count: number; seconds: number[] }> {
  const reader = await CaptureReader.open(kernels, file, {
    filter: compileFilter(expression, kernels),
    inner,
  });
  const found: number[] = [];
  let count = 0;
  while (await reader.next()) {
    count += reader.batch.count;
    const origin = Number(reader.originNs! / 1_000_000_000n);
    for (let i = 0; i < reader.batch.count; i++)
      found.push(origin + Math.floor(reader.batch.timeNs[i]! / 1e9));
  }
  reader.close();
  reader.free();
  return { count, seconds: found };
}

// --- expressions ---

/** The same words for both programs. */
const SAME = [
  "host 10.0.0.1",
  "src host 10.0.0.1",
  "dst 10.0.0.2",
  "src or dst host 10.0.0.1",
  "src and dst net 10.0.0.0/8",
  "not host 10.0.0.1",
  "host 10.0.0.1 or 10.0.0.2",
  "host 10.0.0.1 and 10.0.0.2",
  "host 10.0.0.1 and not 8.8.8.8",
  "host (10.0.0.1 or 8.8.8.8) and port (80 or 443)",
  "net 10.0.0.0/8",
  "net 10",
  "net 10.1",
  "net 192.168.1",
  "net 10.0.0.0",
  "src net 10.0.0.0 mask 255.255.0.0",
  "dst net 10.0.0.0/30 or 192.168.0.0/16",
  "net 0.0.0.0/0",
  "ip host 10.0.0.1",
  "host 2001:db8::1",
  "src net 2001:db8::/32",
  "net 2001:db8::/33",
  "ip6 net fe80::/10",
  "ip6 dst host ff02::fb",
  "net ::/0",
  "host 10.0.0.1 or 2001:db8::1",
  "port 80",
  "src port 80",
  "dst port 80 or 443",
  "src and dst port 53",
  "tcp port 80",
  "udp dst port 53",
  "sctp port 80",
  "not port 80",
  "portrange 1-100",
  "tcp src portrange 400-8080",
  "udp portrange 53-53",
  "tcp",
  "udp",
  "sctp",
  "icmp",
  "icmp6",
  "igmp",
  "pim",
  "esp",
  "vrrp",
  "ip",
  "ip6",
  "ip proto 47",
  "ip proto ospf",
  "ip proto \\udp",
  "ip6 proto 58",
  "ip6 proto 6",
  "proto 47",
  "proto 17 or 132",
  "ip multicast",
  "ip6 multicast",
  "less 100",
  "greater 200",
  "len >= 74 and len < 154",
  "len != 74",
  "ip[8] < 64",
  "ip[8] & 1 = 1",
  "ip6[7] = 255",
  "ip[9] = 6",
  "ip[4:2] = 3",
  "ip[1] & 0xfc = 0xb8",
  "(ip[1] & 0xfc) >> 2 = 46",
  "ip[6:2] & 0x1fff != 0",
  "ip[6:2] & 0x3fff = 0",
  "ip and tcp[tcpflags] & (tcp-syn|tcp-ack) != 0",
  "ip and tcp[tcpflags] == tcp-syn",
  "ip and tcp[tcpflags] & (tcp-syn|tcp-ack) == tcp-syn",
  "ip and tcp[13] & 7 != 0",
  "ip and tcp[13] != 2",
  "ip and not tcp[13] = 2",
  "tcp or udp and port 80",
  "tcp and port 80 or udp and port 53",
  "not tcp and not udp",
  "!(tcp || udp) && ip",
  "not (src net 10.0.0.0/8 and dst net 10.0.0.0/8)",
  "src host 10.0.0.1 and tcp dst port 443 and greater 100",
];

/** Our expression, and the one that asks tcpdump for the same. */
const TAG = "(ether[12:2] = 0x8100 or ether[12:2] = 0x88a8)";
const id = (n: number) => `(${TAG} and ether[14:2] & 0xfff = ${n})`;
const DIFFERENT: [string, string][] = [
  ["", anyTag("ip or ip6")],
  ["vlan", "vlan and (ip or ip6)"],
  ["vlan 10", "vlan 10 and (ip or ip6)"],
  ["not vlan", "ip or ip6"],
  ["vlan 10 or vlan 20", `${id(10)} or ${id(20)}`],
  ["not vlan 10", `(ip or ip6) or (${TAG} and not ${id(10)})`],
  ["vlan 10 and tcp port 80", "vlan 10 and tcp port 80"],
  ["udp port 53 and vlan", "vlan and udp port 53"],
  ["port http or domain", anyTag("port 80 or 53")],
  ["src 10.0.0.0/8", anyTag("src net 10.0.0.0/8")],
  ["net 10/8", anyTag("net 10.0.0.0/8")],
  ["dscp 46", anyTag("ip[1] & 0xfc = 0xb8 or ip6[0:2] & 0x0fc0 = 0x0b80")],
  ["dscp < 8", anyTag("ip[1] & 0xfc < 32 or ip6[0:2] & 0x0fc0 < 0x0200")],
  ["ttl > 5", anyTag("ip[8] > 5 or ip6[7] > 5")],
  ["fragment", anyTag("ip[6:2] & 0x3fff != 0")],
  ["fragment later", anyTag("ip[6:2] & 0x1fff != 0")],
  ["tcp[tcpflags] & tcp-syn != 0", anyTag("tcp[13] & 2 != 0 or (ip6 proto 6 and ip6[53] & 2 != 0)")],
  ["TCP AND PORT 80", anyTag("tcp and port 80")],
];

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "hoptime-filter-"));
  writeFileSync(join(folder, "generated.pcap"), pcap(generated()));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.skipIf(tcpdumpMissing)("on generated packets the same ones as tcpdump", () => {
  it.each([...SAME.map((e): [string, string] => [e, anyTag(e)]), ...DIFFERENT])(
    "'%s'",
    async (mine, theirs) => {
      const file = join(folder, "generated.pcap");
      const wanted = seconds(tcpdump(file, theirs));
      expect((await ours(file, mine)).seconds).toEqual(wanted);
      // An expression that selects nothing would prove nothing.
      expect(wanted.length).toBeGreaterThan(0);
    },
  );
});

const CAPTURES = [
  "twopoint/linux-router/router-busy-in.pcap.gz",
  "twopoint/linux-router/router-busy-out.pcap.gz",
  "replay/mawi-20060105-10k.pcap.gz",
  "replay/pcapplusplus-tls2-7.4k.snap96.pcap.gz",
  "replay/pcapplusplus-ipfrag-3k.snap96.pcap.gz",
  "replay/auckland-2000-31k.ns.rawip.pcap.gz",
  "replay/pktvisor-dns-16k.pcap.gz",
  "replay/waikato-isp-2010-10k.ns.multiif.pcapng.gz",
];

/** Expressions for tcpdump on packets with a hop-by-hop header (multicast listener reports), which our decoder skips. */
const BEHIND_HOP_BY_HOP: Record<string, string> = {
  icmp6: "icmp6 or (ip6[6] = 0 and ip6[40] = 58)",
  "ip6 proto 58": "ip6 proto 58 or (ip6[6] = 0 and ip6[40] = 58)",
};

/** Some frames of this capture end within their headers: they are no packets here, and tcpdump's answer depends on the question. */
const GUARDS: Record<string, string> = { "replay/mawi-20060105-10k.pcap.gz": "greater 60 and " };

/** Returns questions about hosts and ports that occur in the capture. */
async function local(file: string): Promise<string[]> {
  const reader = await CaptureReader.open(kernels, file);
  const out: string[] = [];
  const r = random(7);
  while ((await reader.next()) && out.length < 12) {
    const p = rowFields(reader.batch, r(reader.batch.count));
    const format = (a: readonly number[]) => (a.length === 4 ? formatIpv6(a) : formatIpv4(a[0]!));
    const [s, d] = [format(p.src!), format(p.dst!)];
    out.push(`host ${s}`, `src ${s} and not dst host ${d}`, `not host ${d} or tcp`);
    if (p.sport != null) out.push(`port ${p.sport} or ${p.dport}`, `src host ${s} and src port ${p.sport}`);
  }
  reader.close();
  reader.free();
  return out;
}

describe.skipIf(tcpdumpMissing)("on recorded traffic as many as tcpdump", () => {
  for (const name of CAPTURES) {
    const path = join(shared, "traces", name);
    const missing = !existsSync(path);
    if (missing)
      console.log(`skipped: ${name} is not there (HOPTIME_SHARED names the folder of shared captures)`);
    it.skipIf(missing)(name, async () => {
      const file = join(folder, basename(name, ".gz"));
      writeFileSync(file, gunzipSync(readFileSync(path)));
      // Raw IP has no tags, and libpcap refuses `vlan` there.
      const wrap = name.includes("rawip") ? (e: string) => `(ip or ip6) and (${e})` : anyTag;
      const different: string[] = [];
      const guard = GUARDS[name] ?? "";
      const all = (await ours(file, `${guard}(ip or ip6)`)).count;
      // Count questions that some packets match and some do not.
      let telling = 0;
      for (const expression of [...SAME, ...(await local(file))]) {
        const question = wrap(`${guard}(${BEHIND_HOP_BY_HOP[expression] ?? expression})`);
        const output = execFileSync("tcpdump", ["-r", file, "--count", question], {
          stdio: ["ignore", "pipe", "ignore"],
        });
        const theirs = Number(/(\d+) packets?/.exec(output.toString())![1]);
        const { count } = await ours(file, `${guard}(${expression})`);
        if (count > 0 && count < all) telling++;
        if (count !== theirs) different.push(`${expression}: ${count}, tcpdump ${theirs}`);
      }
      expect(different).toEqual([]);
      expect(telling).toBeGreaterThan(20);
    });
  }
});

describe("where ours differs from pcap-filter by intent", () => {
  const tcp = (dport: number) => transport(6, 1234, dport, 2, 10);
  const [a, b] = [V6[0]!, V6[1]!];
  const hop = ip({ proto: 0, src: a, dst: b, payload: [6, 0, 1, 4, 0, 0, 0, 0, ...tcp(80)] });
  const first = ip({
    proto: 44,
    src: a,
    dst: b,
    payload: [17, 0, 0, 1, 0, 0, 0, 9, ...transport(17, 53, 80, 0, 16)],
  });
  const later = ip({
    proto: 44,
    src: a,
    dst: b,
    payload: [17, 0, 0, 80, 0, 0, 0, 9, ...transport(17, 53, 80, 0, 16)],
  });
  const inside = ip({ proto: 6, src: [0x0a000001], dst: [0x0a000002], payload: tcp(80) });
  const gre = ip({ proto: 47, src: [0xc0a80101], dst: [0xc0a80102], payload: [0, 0, 8, 0, ...inside] });
  const mpls = ethernet(0x8847, [0, 0, 0x11, 64, ...inside]);
  const double = ethernet(0x0800, inside, [10, 20], 0x88a8);

  const frames = [
    ethernet(0x86dd, hop),
    ethernet(0x86dd, first),
    ethernet(0x86dd, later),
    ethernet(0x0800, gre),
    mpls,
    double,
  ];
  const chosen = async (expression: string, inner = false) => {
    const file = join(folder, "different.pcap");
    writeFileSync(file, pcap(frames));
    return (await ours(file, expression, inner)).seconds.map((s) => s - SECOND);
  };

  it("IPv6 extension headers are passed over; ports are those of the first fragment only", async () => {
    expect(await chosen("ip6 and tcp port 80")).toEqual([0]);
    expect(await chosen("ip6 and tcp[tcpflags] = tcp-syn")).toEqual([0]);
    expect(await chosen("udp port 53")).toEqual([1]);
    expect(await chosen("udp")).toEqual([1, 2]);
    expect(await chosen("fragment")).toEqual([1, 2]);
    expect(await chosen("fragment later")).toEqual([2]);
  });

  it("tags and labels do not hide the packet behind them, and the outermost tag is the one", async () => {
    expect(await chosen("ip and tcp port 80")).toEqual([4, 5]);
    expect(await chosen("vlan 10")).toEqual([5]);
    expect(await chosen("vlan 20")).toEqual([]);
  });

  it("with inner packets, the filter sees those", async () => {
    expect(await chosen("proto gre")).toEqual([3]);
    expect(await chosen("proto gre", true)).toEqual([]);
    expect(await chosen("host 10.0.0.1", true)).toEqual([3, 4, 5]);
    expect(await chosen("net 192.168.0.0/16", true)).toEqual([]);
    // The length is still that of the whole frame.
    expect(await chosen(`len = ${frames[3]!.length}`, true)).toEqual([3]);
  });
});
