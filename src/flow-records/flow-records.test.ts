/** Flow records as collectors write them: CSV of several dialects, and IPFIX files built here byte by byte. */
import { describe, expect, it } from "vitest";
import { FormatError, UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { RecordedFlows } from "../collect/recorded-flows.ts";
import { parseFlowRecordFile, readFlowRecords } from "./flow-records.ts";

const text = (lines: string[]) => new TextEncoder().encode(lines.join("\n"));
const parseFlowRecords = async (bytes: Uint8Array, file: string) =>
  (await parseFlowRecordFile(bytes, file)).records;
const parse = (lines: string[]) => parseFlowRecords(text(lines), "flows.csv");

describe("comma-separated records", () => {
  it("are read by the names of their columns, in any order", async () => {
    const records = await parse([
      "src,dst,proto,sport,dport,packets,bytes",
      "10.0.0.1,10.0.0.2,tcp,443,51000,1200,900000",
      "2001:db8::1,2001:db8::2,17,53,4444,7,700",
    ]);
    expect(records).toEqual([
      {
        key: { src: "10.0.0.1", dst: "10.0.0.2", proto: 6, sport: 443, dport: 51_000 },
        ...{ packets: 1200, bytes: 900_000, startNs: null, endNs: null },
      },
      {
        key: { src: "2001:db8::1", dst: "2001:db8::2", proto: 17, sport: 53, dport: 4444 },
        ...{ packets: 7, bytes: 700, startNs: null, endNs: null },
      },
    ]);
    const turned = await parse(["bytes,dport,packets,dst,src", "5,80,2,10.0.0.2,10.0.0.1"]);
    expect(turned[0]).toMatchObject({ key: { proto: null, sport: null, dport: 80 }, packets: 2, bytes: 5 });
  });

  it("of nfdump are read, old and new, without their summary", async () => {
    const old = await parse([
      "ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt,opkt,obyt,in,out,sas,das",
      "2024-05-01 12:00:00,2024-05-01 12:00:10,10.000,192.168.1.5,8.8.8.8,5353,53,UDP,........,0,184,10,840,0,0,1,2,0,0",
      "2024-05-01 12:00:00,2024-05-01 12:00:00,0.000,192.168.1.5,8.8.8.8,0,8.0,ICMP,........,0,0,3,252,0,0,1,2,0,0",
      "",
      "Summary",
      "flows,bytes,packets,avg_bps,avg_pps,avg_bpp",
      "2,1092,13,0,0,0",
    ]);
    expect(old).toHaveLength(2);
    expect(old[0]).toMatchObject({
      key: { src: "192.168.1.5", dst: "8.8.8.8", proto: 17, sport: 5353, dport: 53, dscp: 46 },
      ...{ packets: 10, bytes: 840, startNs: 1_714_564_800e9, endNs: 1_714_564_810e9 },
    });
    // Type and code are not ports.
    expect(old[1]!.key).toMatchObject({ proto: 1, sport: null, dport: null });
    const fresh = await parse([
      "firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,bps,bpp,flows",
      "2024-05-01 12:00:00.250,1.5,TCP,10.1.1.1,443,10.2.2.2,50000,99,12345,1,1,1",
    ]);
    expect(fresh[0]).toMatchObject({
      key: { proto: 6, sport: 443, dport: 50_000 },
      packets: 99,
      endNs: null,
    });
    expect(fresh[0]!.startNs).toBe(1_714_564_800.25e9);
  });

  it("that are wrong are refused with the byte where it shows", async () => {
    for (const [lines, message] of [
      [["a,b,c", "1,2,3"], "lacks src, dst or packets"],
      [["src,dst,packets", "10.0.0.1,nowhere,3"], "dst is not an address"],
      [["src,dst,packets", "10.0.0.1,10.0.0.2,many"], "packets is not a number"],
      [["src,dst,packets", "10.0.0.1,10.0.0.2,"], "no packets"],
      [["src,dst,proto,packets", "10.0.0.1,10.0.0.2,nonsense,1"], "not a protocol"],
      [["just a text"], "header line is missing"],
    ] as const) {
      await expect(parse([...lines]), message).rejects.toThrow(message);
      await expect(parse([...lines]), message).rejects.toThrow(FormatError);
    }
    await expect(parse(["src,dst,packets", "10.0.0.1,10.0.0.2,-1"])).rejects.toThrow("at byte 16");
    await expect(parseFlowRecords(new Uint8Array(0), "x")).rejects.toThrow("empty");
    await expect(parseFlowRecords(Uint8Array.of(0xff, 0xfe, 0x80), "x")).rejects.toThrow("neither");
    await expect(readFlowRecords("/no/such/file")).rejects.toThrow(UsageError);
  });
});

/** Big-endian bytes: [value, bytes] pairs. */
const be = (...parts: (readonly [number | bigint, number])[]): number[] =>
  parts.flatMap(([value, size]) =>
    Array.from({ length: size }, (_, i) => Number((BigInt(value) >> BigInt(8 * (size - 1 - i))) & 0xffn)),
  );
const set = (id: number, body: number[]) => [...be([id, 2], [body.length + 4, 2]), ...body];
const message = (sets: number[][], domain = 1) => {
  const body = sets.flat();
  return [...be([10, 2], [body.length + 16, 2], [1_700_000_000, 4], [0, 4], [domain, 4]), ...body];
};
const template = (id: number, fields: readonly (readonly [number, number, number?])[]) => [
  ...be([id, 2], [fields.length, 2]),
  ...fields.flatMap(([element, length, enterprise]) =>
    enterprise === undefined
      ? be([element, 2], [length, 2])
      : be([element | 0x8000, 2], [length, 2], [enterprise, 4]),
  ),
];
const FIVE = [
  [8, 4],
  [12, 4],
  [4, 1],
  [7, 2],
  [11, 2],
  [2, 8],
  [1, 8],
  [152, 8],
  [153, 8],
] as const;
const five = (src: number, packets: number) =>
  be(
    [0x0a000000 + src, 4],
    [0x0a000002, 4],
    [6, 1],
    [443, 2],
    [5000, 2],
    [packets, 8],
    [packets * 100, 8],
    [1_700_000_000_000, 8],
    [1_700_000_001_500, 8],
  );

describe("IPFIX files", () => {
  it("are read by their templates, over several messages, with padding and sets that are not flows", async () => {
    const bytes = Uint8Array.from([
      ...message([set(2, template(256, FIVE)), set(256, [...five(1, 10), ...five(3, 20), 0, 0])]),
      ...message([
        // Options: a template of scope fields and its data are left out.
        set(3, [...be([300, 2], [2, 2], [1, 2]), ...be([149, 2], [4, 2], [41, 2], [8, 2])]),
        set(300, be([1, 4], [99, 8])),
        set(999, be([1, 4])),
        set(256, five(5, 30)),
      ]),
    ]);
    const records = await parseFlowRecords(bytes, "a.ipfix");
    expect(records.map((r) => [r.key.src, r.packets])).toEqual([
      ["10.0.0.1", 10],
      ["10.0.0.3", 20],
      ["10.0.0.5", 30],
    ]);
    expect(records[0]).toEqual({
      key: { src: "10.0.0.1", dst: "10.0.0.2", proto: 6, sport: 443, dport: 5000 },
      ...{ packets: 10, bytes: 1000, startNs: 1_700_000_000e9, endNs: 1_700_000_001.5e9 },
    });
  });

  it("may have templates per domain, IPv6, shortened integers, fields of vendors and of any length", async () => {
    const six = [
      [27, 16],
      [28, 16],
      [4, 1],
      [86, 2],
      [33_000 & 0x7fff, 4, 9],
      [82, 65_535],
    ] as const;
    const address = (last: number) => be([0x20010db8, 4], [0, 4], [0, 4], [last, 4]);
    const long = [255, ...be([300, 2]), ...new Array<number>(300).fill(65)];
    const bytes = Uint8Array.from([
      ...message([set(2, template(256, six))], 7),
      ...message([set(2, template(256, FIVE))], 8),
      ...message(
        [
          set(256, [
            ...address(1),
            ...address(2),
            58,
            ...be([77, 2]),
            1,
            2,
            3,
            4,
            2,
            65,
            66,
            ...address(3),
            ...address(4),
            17,
            ...be([5, 2]),
            1,
            2,
            3,
            4,
            ...long,
          ]),
        ],
        7,
      ),
      ...message([set(256, five(9, 1))], 8),
    ]);
    expect(
      (await parseFlowRecords(bytes, "a.ipfix")).map((r) => [r.key.src, r.key.proto, r.packets]),
    ).toEqual([
      ["2001:db8::1", 58, 77],
      ["2001:db8::3", 17, 5],
      ["10.0.0.9", 6, 1],
    ]);
  });

  it("of both directions in one record are two flows", async () => {
    const both = [
      [8, 4],
      [12, 4],
      [4, 1],
      [7, 2],
      [11, 2],
      [2, 4],
      [2, 4, 29_305],
      [1, 4, 29_305],
    ] as const;
    const data = be([0x0a000001, 4], [0x0a000002, 4], [17, 1], [1000, 2], [53, 2], [3, 4], [4, 4], [400, 4]);
    const records = await parseFlowRecords(
      Uint8Array.from(message([set(2, template(256, both)), set(256, data)])),
      "b",
    );
    expect(records.map(({ key, packets, bytes }) => [key.src, key.sport, key.dport, packets, bytes])).toEqual(
      [
        ["10.0.0.1", 1000, 53, 3, null],
        ["10.0.0.2", 53, 1000, 4, 400],
      ],
    );
  });

  it("that are cut or damaged are refused by name, never otherwise", async () => {
    const good = Uint8Array.from(message([set(2, template(256, FIVE)), set(256, five(1, 10))]));
    for (let length = 16; length < good.length; length++) {
      await expect(parseFlowRecords(good.slice(0, length), "cut"), `${length}`).rejects.toThrow(FormatError);
    }
    for (let i = 0; i < 8 * good.length; i++) {
      const damaged = good.slice();
      damaged[i >> 3]! ^= 1 << (i & 7);
      try {
        await parseFlowRecords(damaged, "damaged");
      } catch (error) {
        expect(error).toBeInstanceOf(FormatError);
      }
    }
  });
});

describe("records as a list of flows", () => {
  const kernels = new Kernels();

  it("add up what the key puts together, and take of each record the part that lies in the epoch", async () => {
    const records = await parse([
      "src,dst,proto,sport,dport,packets,bytes,start,end",
      "10.0.0.1,10.0.0.2,tcp,443,51000,100,1000,100,110",
      "10.0.0.1,10.0.0.2,tcp,443,51000,50,500,110,120",
      "10.0.0.1,10.0.0.2,udp,53,4444,7,70,105,105",
    ]);
    const five = new RecordedFlows(kernels, records, FlowKeySpec.parse(), 1n);
    expect([...five.of(null).packets]).toEqual([150, 7]);
    const epoch = five.of({ startNs: 105e9, endNs: 115e9 });
    expect([...epoch.packets]).toEqual([75, 7]);
    expect([...epoch.bytes]).toEqual([750, 70]);
    expect(five.of({ startNs: 0, endNs: 1e9 }).count).toBe(0);
    const hosts = new RecordedFlows(kernels, records, FlowKeySpec.parse("hosts"), 1n).of(null);
    expect([...hosts.packets]).toEqual([157]);
    expect(FlowKeySpec.parse("hosts").describe(hosts.keyWords)).toMatchObject({
      src: "10.0.0.1",
      dst: "10.0.0.2",
    });
    expect(hosts.complete).toBe(false);
  });
});
