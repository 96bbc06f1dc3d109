/** Tests the filter language: how it is parsed, what each expression selects, what is refused. Past 400 lines because it is mostly one table of expressions. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { rounds } from "../../../tests/support/rounds.ts";
import { UsageError } from "../../base/errors.ts";
import { Kernels } from "../../base/kernels.ts";
import { FLAG, PacketBatch } from "../batch.ts";
import { type FilterExpression, matches, type PacketFields, rowFields } from "./expression.ts";
import { compileFilter, parseFilter } from "./filter.ts";

const ALL = 0xffff_ffff;
const host = (word: number, end = "either") => ({ kind: "net", end, version: 4, words: [word], mask: [ALL] });
const port = (number: number, end = "either", proto: number | null = null) => ({
  kind: "port",
  end,
  proto,
  low: number,
  high: number,
});
const A = 0x0a000001;
const B = 0x0a000002;

function refusal(text: string): UsageError {
  try {
    parseFilter(text);
  } catch (error) {
    if (error instanceof UsageError) return error;
  }
  throw new Error("it was taken");
}

describe("what an expression means", () => {
  it.each<[string, unknown]>([
    ["", { kind: "all" }],
    ["host 10.0.0.1", host(A)],
    ["src host 10.0.0.1", host(A, "src")],
    ["dst 10.0.0.1", host(A, "dst")],
    ["src or dst 10.0.0.1", host(A)],
    ["dst and src host 10.0.0.1", host(A, "both")],
    ["ip host 10.0.0.1", host(A)],
    ["net 10", { ...host(0x0a000000), mask: [0xff000000] }],
    ["net 10.1", { ...host(0x0a010000), mask: [0xffff0000] }],
    ["net 10/8", { ...host(0x0a000000), mask: [0xff000000] }],
    ["net 10.0.0.0", host(0x0a000000)],
    ["src net 10.0.0.0/8", { ...host(0x0a000000, "src"), mask: [0xff000000] }],
    ["dst 10.0.0.0/8", { ...host(0x0a000000, "dst"), mask: [0xff000000] }],
    ["net 0.0.0.0/0", { ...host(0), mask: [0] }],
    ["net 10.0.0.0 mask 255.0.0.0", { ...host(0x0a000000), mask: [0xff000000] }],
    [
      "dst net 2001:db8::/33",
      { kind: "net", end: "dst", version: 6, words: [0x20010db8, 0, 0, 0], mask: [ALL, 0x80000000, 0, 0] },
    ],
    ["host ::1", { kind: "net", end: "either", version: 6, words: [0, 0, 0, 1], mask: [ALL, ALL, ALL, ALL] }],
    ["port 80", port(80)],
    ["tcp port https", port(443, "either", 6)],
    ["udp dst port 53", port(53, "dst", 17)],
    ["sctp src port 9", port(9, "src", 132)],
    ["portrange 1-100", { ...port(1), high: 100 }],
    ["portrange 100-1", { ...port(1), high: 100 }],
    ["tcp", { kind: "proto", version: null, proto: 6 }],
    ["icmp", { kind: "proto", version: 4, proto: 1 }],
    ["icmp6", { kind: "proto", version: 6, proto: 58 }],
    ["ip proto gre", { kind: "proto", version: 4, proto: 47 }],
    ["ip proto ah", { kind: "proto", version: 4, proto: 51 }],
    ["ip proto \\tcp", { kind: "proto", version: 4, proto: 6 }],
    ["ip6 proto 0x3a", { kind: "proto", version: 6, proto: 58 }],
    ["proto 47", { kind: "proto", version: null, proto: 47 }],
    ["ip6", { kind: "version", version: 6 }],
    ["vlan", { kind: "vlan", id: null }],
    ["vlan 10", { kind: "vlan", id: 10 }],
    ["fragment", { kind: "fragment", version: null, later: false }],
    ["outbound", { kind: "direction", way: "outbound" }],
    ["ip[6:2] & 0x1fff != 0", { kind: "fragment", version: 4, later: true }],
    ["TCP Port 80", port(80, "either", 6)],
  ])("%s", (text, tree) => expect(parseFilter(text)).toEqual(tree));

  it.each([
    ["less 100", "len <= 100"],
    ["greater 100", "length >= 100"],
    ["100 < len", "len > 100"],
    ["dscp ef", "dscp == 46"],
    ["dscp af31", "dscp 26"],
    ["dscp cs6", "dscp 0x30"],
    ["ttl 64", "ttl = 64"],
    ["tcp[13] & 18 != 0", "tcp[tcpflags] & (tcp-syn|tcp-ack) != 0"],
    ["(tcp[tcpflags:1] & (tcp-syn + tcp-ack)) != 0", "tcp[13] & 0x12 != 0"],
    ["0 != 18 & tcp[13]", "tcp[13] & 18 != 0"],
    ["host 10.0.0.1 or 10.0.0.2", "host 10.0.0.1 or host 10.0.0.2"],
    ["tcp dst port 80 or 443", "tcp dst port 80 || tcp dst port 443"],
    ["host 10.0.0.1 and not 10.0.0.2", "host 10.0.0.1 && !host 10.0.0.2"],
    ["not host 10.0.0.1 and 10.0.0.2", "(not host 10.0.0.1) and host 10.0.0.2"],
    ["src host 10.0.0.1 and port 80", "(src host 10.0.0.1) and (src or dst port 80)"],
    ["port (80 or 443)", "(port 80 or port 443)"],
    ["tcp and port (80 or not (443 and 22))", "tcp and (port 80 or not (port 443 and port 22))"],
    ["port 80 or (443 or 22)", "port 80 or (port 443 or port 22)"],
    ["(host 10.0.0.1 or port 80) or 443", "(host 10.0.0.1 or port 80) or port 443"],
    ["tcp or udp and icmp", "(tcp or udp) and icmp"],
    ["tcp and udp or icmp and ip6", "((tcp and udp) or icmp) and ip6"],
    ["not tcp and udp", "(not tcp) and udp"],
    ["!tcp&&udp", "not tcp and udp"],
    ["not not tcp", "tcp"],
    ["ip multicast", "dst net 224.0.0.0/3"],
    ["ip6 multicast", "dst net ff00::/8"],
    ["ip[6:2] & 0x3fff = 0", "ip and not ip[6:2] & 0x3fff != 0"],
    ["\ttcp\nand udp ", "tcp and udp"],
  ])("'%s' is '%s'", (one, other) => expect(parseFilter(one)).toEqual(parseFilter(other)));
});

describe("what is not understood is named with its character", () => {
  it.each<[string, number, string]>([
    ["tcp and host foo", 14, "expected an address after 'host', found 'foo' (names are not looked up)"],
    ["host 10.0.0.1 or foo", 18, "expected an address ('host' is carried on), found 'foo'"],
    ["host", 5, "expected an address after 'host', found the end"],
    ["host 256.0.0.1", 6, "expected an address after 'host', found '256.0.0.1'"],
    ["host 10.1", 6, "the address is incomplete"],
    ["host 010.0.0.1", 6, "expected an address"],
    ["host 10.0.0.0/8", 14, "'host' takes one address; write 'net'"],
    ["net 10.0.0.1/8", 5, "bits set outside the mask; the network is 10.0.0.0"],
    ["net 2001:db8::1/32", 5, "the network is 2001:db8::"],
    ["net 10.0.0.0/33", 14, "expected a prefix length (0 to 32)"],
    ["net ::/129", 8, "expected a prefix length (0 to 128)"],
    ["net 10.0.0.0 mask 8", 19, "expected a netmask"],
    ["net foo", 5, "expected a network after 'net', found 'foo'"],
    ["ip host ::1", 9, "'::1' is IPv6, but 'ip' stands before it"],
    ["ip6 net 10.0.0.0/8", 9, "is IPv4, but 'ip6' stands before it"],
    ["port 65536", 6, "expected a port (0 to 65535) after 'port', found '65536'"],
    ["port 080", 6, "expected a port"],
    ["port constructor", 6, "expected a port"],
    ["portrange 5-x", 11, "expected a range of ports"],
    ["tcp port http or htpt", 18, "expected a port (0 to 65535) ('port' is carried on), found 'htpt'"],
    ["tcp host 10.0.0.1", 5, "'host' does not go with 'tcp'"],
    ["icmp src 10.0.0.1", 6, "'src' does not go with 'icmp'"],
    ["ip port 80", 4, "'port' goes with tcp, udp or sctp"],
    ["tcp src 80", 9, "expected 'port' or 'portrange' after 'tcp src'"],
    ["src proto 6", 5, "'proto' has no direction"],
    ["proto 256", 7, "expected a protocol"],
    ["tcp or 80", 8, "found '80'"],
    ["10.0.0.1", 1, "write 'host' or 'net' before an address"],
    ["gre", 1, "write 'proto gre'"],
    ["constructor", 1, "expected a term"],
    ["port 80 host 10.0.0.1", 9, "expected 'and', 'or' or the end, found 'host'"],
    ["(tcp", 5, "expected 'and', 'or' or ')', found the end"],
    ["tcp)", 4, "found ')'"],
    ["tcp and", 8, "found the end"],
    ["host (tcp)", 7, "expected an address after 'host', found 'tcp'"],
    ["tcp and ☃ or udp", 9, "'☃' has no meaning"],
    ["tcp 😀", 5, "'😀' has no meaning"],
    ["vlan 4096", 6, "expected a VLAN id"],
    ["vlan 1 and tcp and vlan 2", 20, "only the outermost tag is kept"],
    ["dscp 64", 6, "expected a DSCP"],
    ["less tcp", 6, "expected a length in bytes after 'less'"],
    ["len", 4, "expected a comparison"],
    ["len > 4294967296", 7, "expected a number"],
    ["1 = 1", 1, "two constants cannot be compared"],
    ["len = ttl", 1, "two numbers of the packet cannot be compared"],
    ["len + 1 > 3", 5, "can only be masked"],
    ["tcp[13] & tcp-sin != 0", 11, "expected a number"],
    ["udp[8:2] = 1", 1, "'udp[8:2]' is not kept"],
    ["tcp and icmp[icmptype] = 8", 9, "'icmp[icmptype]' is not kept"],
    ["ip[1] = 0xb8", 1, "the ECN bits are not kept"],
    ["ip[6:2] & 0x4000 != 0", 1, "it is only known whether"],
    ["tcp and mpls 3", 9, "'mpls' cannot be answered: MPLS labels are not kept"],
    ["ether host 0:1:2:3:4:5", 1, "'ether' cannot be answered"],
    ["not arp", 5, "'arp' cannot be answered"],
    ["ip broadcast", 4, "'broadcast' cannot be answered"],
    ["multicast", 1, "write 'ip multicast'"],
    ["ip6 protochain 6", 5, "'protochain' cannot be answered"],
    ["ip6 proto 44", 11, "cannot be answered for IPv6"],
    ["ah", 1, "for IPv4 write 'ip proto 51'"],
  ])("%s", (text, character, what) => {
    let error: unknown;
    try {
      parseFilter(text);
    } catch (e) {
      error = e;
    }
    expect(error).toBeInstanceOf(UsageError);
    const { code, message, hint } = error as UsageError;
    expect(code).toBe("bad-filter");
    expect(message).toContain(`filter: at character ${character}: `);
    expect(message).toContain(what);
    expect(hint).toBe(`${text}\n${" ".repeat(character - 1)}^`);
  });

  it("refuses expressions that would take the stack, and takes long flat ones", () => {
    const deep = [
      `${"(".repeat(5000)}tcp${")".repeat(5000)}`,
      `len > ${"(".repeat(5000)}1${")".repeat(5000)}`,
      `port ${"(".repeat(5000)}1${")".repeat(5000)}`,
      "tcp and udp or ".repeat(5000) + "tcp",
    ];
    for (const text of deep) expect(() => parseFilter(text)).toThrow(/nested more than 200 deep/);
    expect(parseFilter(`${"not ".repeat(50_001)}tcp`).kind).toBe("not");
    expect(parseFilter(`port 1${" or 2".repeat(20_000)}`)).toMatchObject({ kind: "or" });
  });

  it("shows of a long expression what is around the place", () => {
    const text = `${"tcp or ".repeat(10_000)}nonsense${" or udp".repeat(10_000)}`;
    const { message, hint = "" } = refusal(text);
    expect(message).toContain("at character 70001: ");
    expect(message.length).toBeLessThan(1000);
    const [shown = "", mark = ""] = hint.split("\n");
    expect(shown.length).toBe(400);
    expect(shown.slice(mark.indexOf("^"))).toMatch(/^nonsense or udp/);
    expect(refusal("x".repeat(100_000)).message.length).toBeLessThan(1000);
  });

  it("any text is either understood or a UsageError", () => {
    const word = fc.constantFrom(
      ..."( ) not and or ! && tcp udp ip ip6 src dst host net port portrange proto 80 10.0.0.1 10/8 ::1 vlan 5 len > = & [ ] 13 tcp[13] mask / less : \\ -".split(
        " ",
      ),
    );
    const text = fc.oneof(
      fc.array(word, { maxLength: 12 }).map((words) => words.join(" ")),
      fc.string({ unit: "binary" }),
    );
    fc.assert(
      fc.property(text, (t) => {
        try {
          parseFilter(t);
        } catch (error) {
          expect(error).toBeInstanceOf(UsageError);
          expect((error as UsageError).message).toMatch(/^filter: at character \d+: /);
        }
      }),
      { numRuns: rounds(1500, 3000), seed: 11 },
    );
  });
});

// Random packets and questions from small pools, so that some of the answers are yes.
const V4 = [A, B, 0x0a010203, 0xc0a80101, 0xe0000001, ALL];
const V6 = [
  [0x20010db8, 0, 0, 1],
  [0x20010db8, 0x80000000, 0, 1],
  [0xff020000, 0, 0, 0xfb],
  [0, 0, 0, 1],
  // Halves equal to those of an IPv4 pair: catches a filter that forgets the IP version.
  [A, B, A, B],
];
const PORTS = [0, 53, 80, 443, 8080, 65535];
const PROTOS = [1, 6, 17, 33, 47, 58, 132];

const packet: fc.Arbitrary<PacketFields> = fc
  .record({
    version: fc.constantFrom<4 | 6>(4, 6),
    s: fc.nat(4),
    d: fc.nat(4),
    proto: fc.constantFrom(...PROTOS),
    sport: fc.constantFrom(...PORTS),
    dport: fc.constantFrom(...PORTS),
    dscp: fc.constantFrom(0, 8, 46, 63),
    vlan: fc.constantFrom(null, null, 0, 10, 4095),
    ttl: fc.constantFrom(0, 1, 64, 255),
    tcpFlags: fc.constantFrom(0, 2, 0x12, 0x10, 0xff),
    wireLength: fc.constantFrom(0, 40, 64, 1514, ALL),
    ipid: fc.constantFrom(0, 7, 0xffff),
    part: fc.constantFrom("whole", "whole", "first", "later"),
    direction: fc.constantFrom(null, "inbound" as const, "outbound" as const),
  })
  .map(({ s, d, part, ...p }) => {
    const ports = part !== "later" && [6, 17, 33, 132].includes(p.proto);
    return {
      ...p,
      src: p.version === 4 ? [V4[s]!] : V6[s]!,
      dst: p.version === 4 ? [V4[d]!] : V6[d]!,
      sport: ports ? p.sport : null,
      dport: ports ? p.dport : null,
      tcpFlags: ports && p.proto === 6 ? p.tcpFlags : 0,
      fragment: part !== "whole",
      laterFragment: part === "later",
    };
  });

function fill(batch: PacketBatch, packets: PacketFields[]): void {
  batch.count = packets.length;
  for (const [i, p] of packets.entries()) {
    const high =
      p.proto! |
      (p.dscp! << 8) |
      ((p.vlan ?? 0) << 14) |
      (p.vlan !== null ? 1 << 26 : 0) |
      (p.version === 6 ? 1 << 27 : 0) |
      (p.sport !== null ? 1 << 28 : 0);
    batch.meta.set([((p.sport ?? 0) << 16) | (p.dport ?? 0), high], 2 * i);
    const [s, d] = [p.src!, p.dst!];
    // IPv4 rows leave arbitrary values in the IPv6 columns: here, an address that the filter asks for.
    const words = p.version === 6 ? [...s, ...d] : [s[0]!, d[0]!, ...V6[0]!.slice(2), ...V6[0]!];
    for (const [k, column] of [batch.addrA, batch.addrB, batch.addrC, batch.addrD].entries()) {
      column.set([words[2 * k + 1]!, words[2 * k]!], 2 * i);
    }
    batch.wireLength[i] = p.wireLength!;
    batch.ipid[i] = p.ipid!;
    batch.flags[i] =
      p.ttl! |
      (p.tcpFlags! << 8) |
      (p.fragment ? 1 << 16 : 0) |
      (p.laterFragment ? 1 << 17 : 0) |
      (p.direction ? FLAG[p.direction] : 0);
  }
}

function selected(batch: PacketBatch): boolean[] {
  const start = batch.column("select");
  return Array.from(batch.kernels.u8.subarray(start, start + batch.count), (byte) => {
    expect(byte).toBeLessThanOrEqual(1);
    return byte === 1;
  });
}

const end = fc.constantFrom("src", "dst", "either", "both") as fc.Arbitrary<
  "src" | "dst" | "either" | "both"
>;
const version = fc.constantFrom<4 | 6 | null>(4, 6, null);
const maskWord = fc.constantFrom(ALL, 0, 0xffff0000, 0x80000000, 0x00ff00ff);
const primitive: fc.Arbitrary<FilterExpression> = fc.oneof(
  fc.constant<FilterExpression>({ kind: "all" }),
  fc.record({ kind: fc.constant("version" as const), version: fc.constantFrom<4 | 6>(4, 6) }),
  fc.record({
    kind: fc.constant("net" as const),
    end,
    version: fc.constant(4 as const),
    words: fc.constantFrom(...V4).map((w) => [w]),
    mask: maskWord.map((m) => [m]),
  }),
  fc.record({
    kind: fc.constant("net" as const),
    end,
    version: fc.constant(6 as const),
    words: fc.constantFrom(...V6),
    mask: fc.array(maskWord, { minLength: 4, maxLength: 4 }),
  }),
  fc
    .record({
      kind: fc.constant("port" as const),
      end,
      proto: fc.constantFrom<6 | 17 | 132 | null>(6, 17, 132, null),
      a: fc.constantFrom(...PORTS),
      b: fc.constantFrom(...PORTS),
    })
    .map(({ a, b, ...rest }) => ({ ...rest, low: Math.min(a, b), high: Math.max(a, b) })),
  fc.record({ kind: fc.constant("proto" as const), version, proto: fc.constantFrom(...PROTOS) }),
  fc.record({ kind: fc.constant("vlan" as const), id: fc.constantFrom(null, 0, 10, 4095) }),
  fc.record({
    kind: fc.constant("fragment" as const),
    version: fc.constantFrom<4 | null>(4, null),
    later: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant("compare" as const),
    number: fc.constantFrom("len", "ttl", "dscp", "tos", "proto", "ipid", "tcpflags"),
    version,
    shift: fc.constantFrom(0, 0, 1, 2, 8, 25, 31),
    mask: fc.constantFrom(ALL, 0xff, 0x12, 0xfc, 0),
    comparison: fc.constantFrom("=", "!=", "<", "<=", ">", ">="),
    value: fc.constantFrom(0, 1, 2, 8, 46, 64, 184, 1514, ALL),
  }) as fc.Arbitrary<FilterExpression>,
);
const tree: fc.Arbitrary<FilterExpression> = fc.letrec<{ tree: FilterExpression }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 12, depthIdentifier: "filter" },
    primitive,
    fc.record({ kind: fc.constant("not" as const), term: tie("tree") }, { noNullPrototype: true }),
    fc.record({
      kind: fc.constantFrom("and" as const, "or" as const),
      terms: fc.array(tie("tree"), { maxLength: 4, depthIdentifier: "filter" }),
    }),
  ),
})).tree;

describe("a compiled filter", () => {
  const kernels = new Kernels();
  // Not a multiple of 8, so that planes border on one another at any byte.
  const batch = new PacketBatch(kernels, 37);
  const packets = fc.array(packet, { maxLength: 37, size: "max" });

  it("reads back the packets that the test writes", () => {
    fc.assert(
      fc.property(packets, (rows) => {
        fill(batch, rows);
        for (const [i, row] of rows.entries()) expect(rowFields(batch, i)).toEqual(row);
      }),
      { numRuns: 50, seed: 1 },
    );
  });

  it("selects what matches() says, for every primitive", () => {
    let yes = 0;
    let no = 0;
    fc.assert(
      fc.property(primitive, packets, (expression, rows) => {
        fill(batch, rows);
        compileFilter(expression, kernels).select(batch);
        const wanted = rows.map((row) => matches(expression, row));
        for (const w of wanted) w ? yes++ : no++;
        expect(selected(batch)).toEqual(wanted);
      }),
      { numRuns: rounds(2000, 4000), seed: 2 },
    );
    expect(Math.min(yes, no) / (yes + no)).toBeGreaterThan(0.1);
  });

  it("selects what matches() says, for trees", () => {
    fc.assert(
      fc.property(tree, packets, (expression, rows) => {
        fill(batch, rows);
        const filter = compileFilter(expression, kernels);
        filter.select(batch);
        filter.free();
        expect(selected(batch)).toEqual(rows.map((row) => matches(expression, row)));
      }),
      { numRuns: rounds(1000, 2000), seed: 3 },
    );
  });

  it("goes deeper than the batch has planes, on batches of any size", () => {
    const depth = 30;
    let text = "port 80";
    for (let i = 0; i < depth; i++)
      text = i % 2 ? `tcp or (${text})` : `not vlan 10 and (ttl 64 or (${text}))`;
    const expression = parseFilter(text);
    const filter = compileFilter(expression, kernels);
    const rows = fc.sample(packet, { numRuns: 200, seed: 4 });
    for (const capacity of [8, 200, 37, 64]) {
      const other = new PacketBatch(kernels, capacity);
      const some = rows.slice(0, capacity);
      fill(other, some);
      filter.select(other);
      expect(selected(other)).toEqual(some.map((row) => matches(expression, row)));
      other.free();
    }
    filter.free();
  });

  it.each(["filterConstant", "filterAnd", "filterOr", "filterNot"] as const)(
    "%s keeps to the rows",
    (name) => {
      const plane = kernels.alloc(96);
      const other = kernels.alloc(96);
      for (let rows = 0; rows <= 37; rows++) {
        fill(batch, fc.sample(packet, { numRuns: rows, seed: rows }).slice(0, rows));
        kernels.u8.fill(0, plane, plane + 96).fill(1, plane + rows, plane + 96);
        kernels.u8.fill(1, other, other + rows).fill(0, other + rows, other + 96);
        kernels.call[name](batch.address, plane, name === "filterConstant" ? 1 : other);
        const after = Array.from(kernels.u8.subarray(plane, plane + 96));
        // Bytes beyond the plane must not change. `and` with 0 would set them to 0; with all others a byte that stays 1 shows that it was left alone.
        const wanted = name === "filterAnd" ? 0 : 1;
        expect(after).toEqual([...new Array(rows).fill(wanted), ...new Array(96 - rows).fill(1)]);
        // `or` must leave a 0 beyond the plane as it is.
        kernels.u8.fill(0, plane, plane + 96);
        kernels.u8.fill(1, other, other + 96);
        kernels.call[name](batch.address, plane, name === "filterConstant" ? 1 : other);
        expect(Array.from(kernels.u8.subarray(plane + rows, plane + 96))).toEqual(
          new Array(96 - rows).fill(0),
        );
      }
      kernels.free(plane);
      kernels.free(other);
    },
  );

  it("takes text, and leaves an empty batch alone", () => {
    fill(batch, []);
    compileFilter("tcp or not udp", kernels).select(batch);
    expect(batch.compact()).toBe(0);
  });
});

/** Terms as text, each with its meaning written beside it, without any code of the parser. */
const isPort = (p: PacketFields) => p.sport !== null && [6, 17, 132].includes(p.proto!);
const TERMS: [string, (p: PacketFields) => boolean][] = [
  ["tcp", (p) => p.proto === 6],
  ["icmp", (p) => p.proto === 1 && p.version === 4],
  ["ip6", (p) => p.version === 6],
  ["host 10.0.0.1", (p) => p.version === 4 && (p.src![0] === A || p.dst![0] === A)],
  ["dst 10.0.0.2", (p) => p.version === 4 && p.dst![0] === B],
  ["src net 10.0", (p) => p.version === 4 && p.src![0]! >>> 16 === 0x0a00],
  ["net 2001:db8::/33", (p) => [p.src!, p.dst!].some((a) => a[0] === 0x20010db8 && a[1]! < 0x80000000)],
  ["port 80", (p) => isPort(p) && (p.sport === 80 || p.dport === 80)],
  ["tcp port (80 or 443)", (p) => p.proto === 6 && [p.sport, p.dport].some((x) => x === 80 || x === 443)],
  ["src portrange 1-500", (p) => isPort(p) && p.sport! >= 1 && p.sport! <= 500],
  ["vlan 10", (p) => p.vlan === 10],
  ["greater 64", (p) => p.wireLength! >= 64],
  ["ttl > 1", (p) => p.ttl! > 1],
  ["tcp[13] & 2 != 0", (p) => p.proto === 6 && p.sport !== null && (p.tcpFlags! & 2) !== 0],
  ["dscp ef", (p) => p.dscp === 46],
  ["fragment later", (p) => p.laterFragment!],
  ["inbound", (p) => p.direction === "inbound"],
  ["outbound", (p) => p.direction === "outbound"],
];
interface Spoken {
  text: string;
  says: (p: PacketFields) => boolean;
  /** Whether it mentions a VLAN anywhere: two in one `and` may be refused. */
  vlan: boolean;
}
const spoken = fc.letrec<{ term: Spoken; chain: Spoken }>((tie) => ({
  term: fc.oneof(
    { maxDepth: 4, depthIdentifier: "spoken", withCrossShrink: true },
    fc.constantFrom(...TERMS).map(([text, says]) => ({ text, says, vlan: text.startsWith("vlan") })),
    tie("term").map((t) => ({ ...t, text: `not ${t.text}`, says: (p: PacketFields) => !t.says(p) })),
    tie("term").map((t) => ({ ...t, text: `! ( ${t.text} )`, says: (p: PacketFields) => !t.says(p) })),
    tie("chain").map((c) => ({ ...c, text: `(${c.text})` })),
  ),
  chain: fc
    .tuple(
      tie("term"),
      fc.array(fc.tuple(fc.constantFrom("and", "or", "&&", "||"), tie("term")), { maxLength: 5 }),
    )
    .map(([first, rest]) =>
      rest.reduce((left: Spoken, [sign, right]) => {
        const and = sign === "and" || sign === "&&";
        if (and && left.vlan && right.vlan) return left;
        return {
          text: `${left.text} ${sign} ${right.text}`,
          says: and
            ? (p: PacketFields) => left.says(p) && right.says(p)
            : (p: PacketFields) => left.says(p) || right.says(p),
          vlan: left.vlan || right.vlan,
        };
      }, first),
    ),
})).chain;

describe("matches", () => {
  it("agrees with the meaning of its terms, joined from the left", () => {
    fc.assert(
      fc.property(spoken, fc.array(packet, { minLength: 1, maxLength: 20 }), ({ text, says }, rows) => {
        const expression = parseFilter(text);
        expect(rows.map((row) => matches(expression, row))).toEqual(rows.map(says));
      }),
      { numRuns: rounds(1000, 2000), seed: 5 },
    );
  });

  it("answers from addresses alone, and says what else it would need", () => {
    const fields: PacketFields = { version: 4, src: [A], dst: [B] };
    expect(matches(parseFilter("src net 10.0.0.0/24 and not host 10.9.9.9"), fields)).toBe(true);
    expect(matches(parseFilter("ip6 or dst 10.0.0.1"), fields)).toBe(false);
    expect(() => matches(parseFilter("src 10.0.0.1 and port 80"), fields)).toThrow(/asks for 'proto'/);
    expect(() => matches(parseFilter("less 100"), fields)).toThrow(UsageError);
  });
});
