/** Exports built here byte by byte: NetFlow v5 and v9, in files and in captures; and what remains of them after damage. */
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FormatError } from "../base/errors.ts";
import { parseFlowRecordFile } from "./flow-records.ts";

/** Big-endian bytes: [value, bytes] pairs. */
const be = (...parts: (readonly [number, number])[]): number[] =>
  parts.flatMap(([value, size]) =>
    Array.from({ length: size }, (_, i) => Math.floor(value / 2 ** (8 * (size - 1 - i))) % 256),
  );
const parse = (bytes: readonly number[], file = "flows.nf") =>
  parseFlowRecordFile(Uint8Array.from(bytes), file);

const SECONDS = 1_700_000_000;
const UPTIME = 5_000_000;

const record5 = (src: number, packets: number, first = UPTIME - 3000, last = UPTIME - 1000) =>
  be(
    ...([
      [0x0a000000 + src, 4],
      [0x0a000002, 4],
      [0, 8],
      [packets, 4],
      [packets * 100, 4],
      [first, 4],
      [last, 4],
      [443, 2],
      [51_000, 2],
      [0, 2],
      [6, 1],
      [184, 1],
      [0, 8],
    ] as const),
  );
const message5 = (records: number[][], sampling = 0) => [
  ...be([5, 2], [records.length, 2], [UPTIME, 4], [SECONDS, 4], [250_000_000, 4], [7, 4], [0, 2]),
  ...be([sampling, 2]),
  ...records.flat(),
];

const set = (id: number, body: number[]) => {
  const padding = new Array<number>((4 - (body.length % 4)) % 4).fill(0);
  return [...be([id, 2], [body.length + padding.length + 4, 2]), ...body, ...padding];
};
const message9 = (sets: number[][], source = 1) => [
  ...be([9, 2], [sets.length, 2], [UPTIME, 4], [SECONDS, 4], [1, 4], [source, 4]),
  ...sets.flat(),
];
const template9 = (id: number, fields: readonly (readonly [number, number])[]) => [
  ...be([id, 2], [fields.length, 2]),
  ...fields.flatMap(([type, length]) => be([type, 2], [length, 2])),
];
const FOUR = [
  [8, 4],
  [12, 4],
  [2, 4],
  [1, 4],
  [22, 4],
  [21, 4],
  [7, 2],
  [11, 2],
  [4, 1],
  [5, 1],
] as const;
const four = (src: number, packets: number) =>
  be(
    ...([
      [0x0a000000 + src, 4],
      [0x0a000002, 4],
      [packets, 4],
      [packets * 100, 4],
      [UPTIME - 3000, 4],
      [UPTIME - 1000, 4],
      [443, 2],
      [51_000, 2],
      [6, 1],
      [184, 1],
    ] as const),
  );
const SIX = [
  [27, 16],
  [28, 16],
  [2, 2],
  [40_001, 3],
  [4, 1],
] as const;
const address = (last: number) => be([0x20010db8, 4], [0, 4], [0, 4], [last, 4]);
const six = (packets: number) => [...address(1), ...address(2), ...be([packets, 2], [0, 3], [58, 1])];
/** A scope of four bytes, then sampling interval and algorithm. */
const options9 = [...be([300, 2], [4, 2], [8, 2]), ...be([1, 2], [4, 2], [34, 2], [4, 2], [35, 2], [1, 2])];

const FLOW = {
  key: { src: "10.0.0.1", dst: "10.0.0.2", proto: 6, sport: 443, dport: 51_000, dscp: 46 },
  ...{ packets: 10, bytes: 1000 },
};

describe("NetFlow v5", () => {
  it("is read, message after message, its times by the exporter's clock", async () => {
    const { records, notes } = await parse([
      ...message5([record5(1, 10), record5(3, 20), record5(4, 0)]),
      ...message5([record5(5, 30)]),
    ]);
    expect(records[0]).toEqual({
      ...FLOW,
      ...{ startNs: (SECONDS - 3 + 0.25) * 1e9, endNs: (SECONDS - 1 + 0.25) * 1e9 },
    });
    expect(records.map((r) => [r.key.src, r.packets])).toEqual([
      ["10.0.0.1", 10],
      ["10.0.0.3", 20],
      ["10.0.0.5", 30],
    ]);
    expect(notes).toEqual([]);
  });

  it("whose clock has wrapped since the flow began has flows of the past", async () => {
    const { records } = await parse(message5([record5(1, 10, 2 ** 32 - 2000, 1000)]));
    expect(records[0]!.startNs).toBe((SECONDS + 0.25 - UPTIME / 1000 - 2) * 1e9);
    expect(records[0]!.endNs! - records[0]!.startNs!).toBe(3e9);
  });

  it("that was sampled has a note", async () => {
    // Mode 1 in the upper two bits.
    const { notes } = await parse(message5([record5(1, 10)], 0x4000 + 100));
    expect(notes).toEqual([expect.stringContaining("one in 100 packets")]);
  });

  it("of too many records, or cut, is refused with file and offset", async () => {
    const good = message5([record5(1, 10)]);
    await expect(parse([...good, ...be([5, 2], [31, 2]), ...new Array<number>(100).fill(0)])).rejects.toThrow(
      "at byte 74",
    );
    await expect(parse(good.slice(0, -1), "cut.nf")).rejects.toThrow(
      /cut\.nf.*byte 0.*72 bytes, 71 are left/,
    );
    await expect(parse([...good, 0])).rejects.toThrow("at byte 72");
  });
});

describe("NetFlow v9", () => {
  it("is read by its templates: IPv4 and IPv6, vendors' fields, padding, several sources", async () => {
    const { records, notes } = await parse([
      ...message9([set(0, [...template9(256, FOUR), ...template9(257, SIX)])]),
      ...message9([set(0, template9(256, SIX))], 2),
      ...message9([set(256, [...four(1, 10), ...four(3, 20)]), set(257, six(7))]),
      ...message9([set(256, six(9))], 2),
    ]);
    expect(records[0]).toEqual({ ...FLOW, startNs: (SECONDS - 3) * 1e9, endNs: (SECONDS - 1) * 1e9 });
    expect(records.map((r) => [r.key.src, r.key.proto, r.packets])).toEqual([
      ["10.0.0.1", 6, 10],
      ["10.0.0.3", 6, 20],
      ["2001:db8::1", 58, 7],
      ["2001:db8::1", 58, 9],
    ]);
    expect(notes).toEqual([]);
  });

  it("has options, whose data is no flow but the sampling rate", async () => {
    const { records, notes } = await parse(
      message9([
        set(1, options9),
        set(300, be([5, 4], [1000, 4], [2, 1])),
        set(0, template9(256, FOUR)),
        set(256, four(1, 10)),
      ]),
    );
    expect(records).toHaveLength(1);
    expect(notes).toEqual([expect.stringContaining("one in 1000 packets")]);
  });

  it("whose templates come late or name no packets is counted, not guessed", async () => {
    const { records, notes } = await parse([
      ...message9([set(256, four(1, 10)), set(999, [1, 2, 3, 4]), set(256, four(1, 10))]),
      ...message9([
        set(0, template9(256, FOUR)),
        set(256, four(3, 20)),
        set(0, template9(258, [[8, 4]])),
        set(258, be([1, 4], [2, 4])),
      ]),
    ]);
    expect(records.map((r) => r.packets)).toEqual([20]);
    expect(notes).toEqual([
      "3 data sets of 2 templates left out: received before their template",
      "2 records without addresses or packets left out",
    ]);
  });

  it("that is damaged is refused with the offset", async () => {
    const head = message9([]);
    await expect(parse([...head, ...be([3, 2], [8, 2], [0, 4])])).rejects.toThrow(/byte 20.*number 3/);
    await expect(parse([...head, ...be([256, 2], [3, 2])])).rejects.toThrow(/byte 20.*of 3 bytes/);
    await expect(parse([...head, ...be([256, 2], [80, 2])])).rejects.toThrow(/byte 20.*4 are left/);
    await expect(parse([...head, ...set(0, be([256, 2], [9, 2]))])).rejects.toThrow(
      /byte 24.*36 bytes is cut/,
    );
    await expect(parse([...head, ...set(0, be([7, 2], [0, 2]))])).rejects.toThrow("template of number 7");
  });
});

/** Little-endian pcap of frames. */
function pcap(frames: readonly number[][], snap = 65_535, link = 1): number[] {
  const le = (value: number, size: number) => be([value, size]).reverse();
  const head = [...le(0xa1b2c3d4, 4), ...le(2, 2), ...le(4, 2), ...le(0, 8), ...le(snap, 4), ...le(link, 4)];
  const packets = frames.flatMap((f) => {
    const kept = f.slice(0, snap);
    return [...le(SECONDS, 4), ...le(0, 4), ...le(kept.length, 4), ...le(f.length, 4), ...kept];
  });
  return [...head, ...packets];
}
/** The same as pcapng: a section in either byte order, two interfaces that see alternate packets, and an unknown block in between. */
function pcapng(frames: readonly number[][], little = true): number[] {
  const word = (value: number, size: number) => (little ? be([value, size]).reverse() : be([value, size]));
  const block = (type: number, body: number[]) => {
    const padded = [...body, ...new Array<number>((4 - (body.length % 4)) % 4).fill(0)];
    const length = word(padded.length + 12, 4);
    return [...word(type, 4), ...length, ...padded, ...length];
  };
  const head = [...word(0x1a2b3c4d, 4), ...word(1, 2), ...word(0, 2), ...new Array<number>(8).fill(255)];
  const iface = block(1, [...word(1, 2), ...word(0, 2), ...word(0, 4)]);
  const packets = frames.flatMap((f, i) => {
    const size = [...word(f.length, 4), ...word(f.length, 4)];
    return block(6, [...word(i % 2, 4), ...word(0, 4), ...word(i, 4), ...size, ...f]);
  });
  return [...block(0x0a0d0d0a, head), ...iface, ...iface, ...block(0x0bad, [1, 2, 3]), ...packets];
}
const udp = (payload: number[], port = 5000) => [
  ...be([port, 2], [2055, 2], [payload.length + 8, 2], [0, 2]),
  ...payload,
];
const ip4 = (body: number[], proto = 17, source = 0xc0a80001) => [
  ...be([0x45, 1], [0, 1], [body.length + 20, 2], [0, 4], [64, 1], [proto, 1], [0, 2], [source, 4]),
  ...be([0xc0a80002, 4]),
  ...body,
];
const ip6 = (body: number[]) => [
  ...be([0x60000000, 4], [body.length, 2], [17, 1], [64, 1]),
  ...address(8),
  ...address(9),
  ...body,
];
const ethernet = (body: number[], type = 0x0800) => [
  ...new Array<number>(12).fill(2),
  ...be([type, 2]),
  ...body,
];
const vlan = (body: number[]) => ethernet([...be([5, 2], [0x0800, 2]), ...body], 0x8100);

describe("exports in a capture", () => {
  const first = message9([set(0, template9(256, FOUR)), set(256, four(1, 10))]);

  it("are found among other packets, and each exporter has its own templates", async () => {
    const frames = [
      ethernet(ip4(udp(first))),
      vlan(ip4(udp(message5([record5(3, 20)])))),
      ethernet(ip6(udp(message5([record5(5, 30)]))), 0x86dd),
      ethernet(ip4(udp([1, 2, 3, 4, 5, 6, 7, 8]))),
      ethernet(ip4(new Array<number>(40).fill(0), 6)),
      ethernet(new Array<number>(40).fill(0), 0x0806),
      // Another exporter, which has not sent template 256.
      ethernet(ip4(udp(message9([set(256, four(9, 90))])), 17, 0xc0a80077)),
    ];
    const { records, notes } = await parse(pcap(frames), "exports.pcap");
    expect(records.map((r) => [r.key.src, r.packets])).toEqual([
      ["10.0.0.1", 10],
      ["10.0.0.3", 20],
      ["10.0.0.5", 30],
    ]);
    expect(notes).toEqual([
      "1 data set of 1 template left out: received before their template",
      "3 packets of the capture without flow exports",
    ]);
    const raw = await parse(
      pcap(
        frames.slice(0, 1).map((f) => f.slice(14)),
        65_535,
        101,
      ),
    );
    expect(raw.records).toHaveLength(1);
  });

  it("are read alike from pcapng, packed or not", async () => {
    const other = message9([set(256, four(9, 90))]);
    const frames = [ethernet(ip4(udp(first))), ethernet(ip4(udp(other))), ethernet(ip4([], 6))];
    const parsed = await parse(pcap(frames));
    expect(parsed.records.map((r) => r.packets)).toEqual([10, 90]);
    expect(parsed.notes).toEqual(["1 packet of the capture without flow exports"]);
    expect(await parse(pcapng(frames))).toEqual(parsed);
    expect(await parse(pcapng(frames, false))).toEqual(parsed);
    expect(await parseFlowRecordFile(gzipSync(Uint8Array.from(pcapng(frames))), "x.gz")).toEqual(parsed);
    await expect(parse(pcapng(frames).slice(0, -5), "cut.pcapng")).rejects.toThrow(
      /cut\.pcapng: at byte \d+/,
    );
    const message = Uint8Array.from(
      pcapng([ethernet(ip4(udp([...be([9, 2], [1, 2]), ...first.slice(4, 20), 9, 9])))]),
    );
    const at = message.length - 4 - 2;
    await expect(parse([...message], "bad.pcapng")).rejects.toThrow(`bad.pcapng: at byte ${at}`);
  });

  it("that the capture cut are refused, and so is a capture that is cut", async () => {
    const frame = ethernet(ip4(udp(first)));
    await expect(parse(pcap([frame], 96), "short.pcap")).rejects.toThrow(/short\.pcap.*byte 82.*-s 0/);
    await expect(parse(pcap([frame]).slice(0, -5))).rejects.toThrow(/byte 24/);
    const { records, notes } = await parse(pcap([]));
    expect({ records, notes }).toEqual({ records: [], notes: ["there is no flow export in it"] });
  });
});

describe("whatever happens to a file", () => {
  const files = [
    [...message5([record5(1, 10), record5(3, 20)], 0x4064), ...message5([record5(5, 30)])],
    [
      ...message9([set(0, [...template9(256, FOUR), ...template9(257, SIX)]), set(1, options9)]),
      ...message9([set(256, four(1, 10)), set(257, six(7)), set(300, be([5, 4], [10, 4], [2, 1]))]),
    ],
    pcap([
      ethernet(ip4(udp(message9([set(0, template9(256, FOUR)), set(256, four(1, 10))])))),
      vlan(ip4(udp(message5([record5(3, 20)])))),
      ethernet(ip6(udp(message5([record5(5, 30)]))), 0x86dd),
    ]),
    pcapng([ethernet(ip4(udp(message5([record5(3, 20)]))))]),
  ];
  /** Records with packets and addresses, or an error that names file and offset; nothing else. */
  const survives = async (bytes: Uint8Array) => {
    const wrong: string[] = [];
    try {
      for (const { key, packets } of (await parseFlowRecordFile(bytes, "x.nf")).records) {
        if (!(packets > 0 && /[.:]/.test(key.src ?? ""))) wrong.push(`${packets} packets of ${key.src}`);
      }
    } catch (error) {
      expect(error).toBeInstanceOf(FormatError);
      expect((error as FormatError).message).toContain("x.nf");
    }
    if (wrong.length > 0) throw new Error(wrong[0]);
  };

  it("any cut of it is read as far as whole messages go, or refused by name", async () => {
    for (const file of files) {
      for (let length = 0; length <= file.length; length++)
        await survives(Uint8Array.from(file.slice(0, length)));
      const packed = gzipSync(Uint8Array.from(file));
      expect(await parseFlowRecordFile(packed, "x.nf")).toEqual(await parse(file, "x.nf"));
      for (let length = 0; length < packed.length; length += 7) await survives(packed.subarray(0, length));
    }
  });

  it("any damage to it, and any bytes behind its first, are survived", async () => {
    for (const file of files) {
      for (let bit = 0; bit < 8 * file.length; bit += file.length > 300 ? 3 : 1) {
        const damaged = Uint8Array.from(file);
        damaged[bit >> 3]! ^= 1 << (bit & 7);
        await survives(damaged);
      }
    }
    const noise = fc.tuple(fc.constantFrom(5, 9, 10), fc.uint8Array({ maxLength: 300 }));
    await fc.assert(
      fc.asyncProperty(
        noise,
        async ([version, bytes]) => await survives(Uint8Array.from([0, version, ...bytes])),
      ),
      { numRuns: 500, seed: 4 },
    );
    const patch = fc.record({
      file: fc.nat(3),
      at: fc.nat(400),
      bytes: fc.uint8Array({ minLength: 1, maxLength: 8 }),
    });
    await fc.assert(
      fc.asyncProperty(patch, async ({ file, at, bytes }) => {
        const damaged = Uint8Array.from(files[file]!);
        damaged.set(bytes.subarray(0, Math.max(0, damaged.length - at)), Math.min(at, damaged.length));
        await survives(damaged);
      }),
      { numRuns: 1000, seed: 5 },
    );
  });
});
