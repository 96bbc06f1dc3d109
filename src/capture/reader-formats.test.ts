import { describe, expect, test } from "vitest";
import { readFrames, readRows } from "../../tests/support/capture-rows.ts";
import { file, ids, packets, range, START, times, udpFrame } from "../../tests/support/numbered-captures.ts";
import * as p from "../../tests/support/packets.ts";
import {
  ByteWriter,
  erfFile,
  type NgOption,
  PcapngWriter,
  type PcapOptions,
  pcapFile,
} from "../../tests/support/pcap-writer.ts";

describe("classic pcap", () => {
  const kinds: [string, PcapOptions][] = [
    ["microseconds, little-endian", {}],
    ["microseconds, big-endian", { bigEndian: true }],
    ["nanoseconds, little-endian", { nano: true }],
    ["nanoseconds, big-endian", { nano: true, bigEndian: true }],
    ["modified, little-endian", { modified: true }],
    ["modified, big-endian", { modified: true, bigEndian: true }],
  ];
  test.each(kinds)("%s", async (_, options) => {
    const { rows, statistics } = await readRows(file(pcapFile(packets, options)));
    const unit = options.nano ? 1n : 1000n;
    expect(times(rows)).toEqual(packets.map(({ timeNs }) => timeNs - (timeNs % unit)));
    expect(ids(rows)).toEqual(range(10));
    expect(statistics).toMatchObject({
      format: "pcap",
      packets: 10,
      ipPackets: 10,
      skipped: {},
      partial: null,
      dropped: null,
    });
    expect(statistics.bytes).toBe(10 * packets[0]!.frame.length);
    expect(statistics.interfaces).toMatchObject([
      { link: 1, resolution: options.nano ? "1e-9 s" : "1e-6 s" },
    ]);
  });

  test("a link type with frame-check bits in its upper half is still Ethernet", async () => {
    const { rows } = await readRows(file(pcapFile(packets, { link: 0x0400_0001 })));
    expect(rows.length).toBe(10);
  });

  test("no packets: an empty capture, not an error", async () => {
    const { rows, statistics } = await readRows(file(pcapFile([])));
    expect(rows).toEqual([]);
    expect(statistics).toMatchObject({
      packets: 0,
      originNs: null,
      firstNs: null,
      lastNs: null,
      partial: null,
    });
  });

  test("packets cut by the snap length keep their length on the wire", async () => {
    const { rows, statistics } = await readRows(
      file(pcapFile([{ timeNs: START, frame: udpFrame(1, 500) }], { snapLength: 60 })),
    );
    expect(rows[0]).toMatchObject({ wireLength: 542, captured: 46, dport: 53 });
    expect(statistics.shorts).toEqual([[46, 1]]);
  });

  test("times that go backwards stay as they are; the last time is the latest", async () => {
    const list = [5n, 3n, 9n, 1n].map((t) => ({ timeNs: START + t, frame: udpFrame(1) }));
    const { rows, statistics } = await readRows(file(pcapFile(list, { nano: true })));
    expect(times(rows)).toEqual(list.map((x) => x.timeNs));
    expect(statistics).toMatchObject({ firstNs: START + 5n, lastNs: START + 9n });
  });

  test("an impossible record length ends the capture, and says where", async () => {
    const good = pcapFile(packets);
    const bad = Buffer.concat([
      good,
      new ByteWriter().u32(1).u32(2).u32(262_145).u32(60).done(),
      Buffer.alloc(100),
    ]);
    const path = file(bad);
    const { rows, statistics } = await readRows(path);
    expect(rows.length).toBe(10);
    expect(statistics.partial).toBe(
      `${path}: at byte ${good.length}: impossible record length; the file is damaged from here on`,
    );
  });

  test("an unknown version is read all the same, with a warning", async () => {
    const bytes = pcapFile(packets);
    bytes.writeUInt16LE(3, 4);
    const { rows, statistics } = await readRows(file(bytes));
    expect(rows.length).toBe(10);
    expect(statistics.warnings).toEqual(["pcap version 3.4, read as 2.4"]);
  });
});

describe("pcapng", () => {
  test.each([
    ["little-endian", false],
    ["big-endian", true],
  ] as const)("a %s section", async (_, big) => {
    const w = new PcapngWriter().section(big).interface({ resolution: 9, name: "eth0" });
    for (const { timeNs, frame } of packets) w.enhanced({ ticks: timeNs, frame });
    const { rows, statistics } = await readRows(file(w.done()));
    expect(times(rows)).toEqual(packets.map((x) => x.timeNs));
    expect(statistics).toMatchObject({ format: "pcapng", packets: 10, partial: null });
    expect(statistics.interfaces).toMatchObject([
      { index: 0, name: "eth0", link: 1, resolution: "1e-9 s", dropped: null },
    ]);
  });

  test("sections of both byte orders, each with interfaces of its own", async () => {
    const w = new PcapngWriter();
    for (const [i, big] of [false, true, false].entries()) {
      w.section(big)
        .interface({ resolution: 6, name: `a${i}` })
        .interface({ link: 101, resolution: 9, name: `b${i}` });
      w.enhanced({ interfaceId: 0, ticks: START / 1000n, frame: udpFrame(2 * i) });
      w.enhanced({ interfaceId: 1, ticks: START, frame: udpFrame(2 * i + 1).subarray(14) });
    }
    const { rows, statistics } = await readRows(file(w.done()));
    expect(ids(rows)).toEqual(range(6));
    expect(rows.map((r) => r.iface)).toEqual(range(6));
    expect(statistics.interfaces.map((i) => i.name)).toEqual(["a0", "b0", "a1", "b1", "a2", "b2"]);
    expect(times(rows)[1]).toBe(START);
    expect(times(rows)[2]).toBe((START / 1000n) * 1000n);
  });

  test("every unit of time: powers of ten and of two", async () => {
    for (let e = 0; e <= 28; e++) {
      const unitsPerSecond = 10n ** BigInt(e);
      const ticks =
        e <= 9
          ? (START * unitsPerSecond) / 1_000_000_000n
          : (1_234_567_891n * unitsPerSecond) / 1_000_000_000n;
      const w = new PcapngWriter().section().interface({ resolution: e });
      const { rows } = await readRows(file(w.enhanced({ ticks, frame: udpFrame(1) }).done()));
      if (ticks < 2n ** 64n)
        expect(times(rows), `1e-${e} s`).toEqual([(ticks * 1_000_000_000n) / unitsPerSecond]);
    }
    for (let e = 0; e <= 127; e++) {
      const unitsPerSecond = 1n << BigInt(e);
      const ticks =
        e <= 33 ? (START * unitsPerSecond) / 1_000_000_000n : 0xfedc_ba98_7654_3210n >> BigInt(e % 7);
      const w = new PcapngWriter().section().interface({ resolution: 0x80 | e });
      const { rows } = await readRows(file(w.enhanced({ ticks, frame: udpFrame(1) }).done()));
      expect(times(rows), `2^-${e} s`).toEqual([(ticks * 1_000_000_000n) >> BigInt(e)]);
    }
  });

  test("a time offset is added, also a negative one", async () => {
    for (const offsetSeconds of [3600n, -3600n, 1_600_000_000n, -2_000_000_000n]) {
      const w = new PcapngWriter().section().interface({ resolution: 9, offsetSeconds });
      const { rows } = await readRows(file(w.enhanced({ ticks: START, frame: udpFrame(1) }).done()));
      expect(times(rows)).toEqual([START + offsetSeconds * 1_000_000_000n]);
    }
  });

  test("a time that 64 bits of nanoseconds cannot hold is no timestamp, and an absurd offset is left out", async () => {
    const w = new PcapngWriter()
      .section()
      .interface({ resolution: 0 })
      .interface({ resolution: 9, offsetSeconds: 1n << 60n });
    w.enhanced({ ticks: 1n << 62n, frame: udpFrame(1) }).enhanced({
      ticks: 1_700_000_000n,
      frame: udpFrame(2),
    });
    w.enhanced({ interfaceId: 1, ticks: START, frame: udpFrame(3) });
    const { rows, statistics } = await readRows(file(w.done()));
    expect(times(rows)).toEqual([1_700_000_000_000_000_000n, START]);
    expect(statistics.skipped).toEqual({ noTimestamp: 1 });
    expect(statistics.warnings.length).toBe(2);
  });

  test("enhanced, simple and old packet blocks; unknown blocks, comments and custom options between them", async () => {
    const comment: NgOption = { code: 1, value: Buffer.from("odd length!") };
    const w = new PcapngWriter().section(true).interface({ resolution: 9 });
    w.block(0x0000_0bad, Buffer.from("custom block"));
    w.enhanced({
      ticks: START,
      frame: udpFrame(0),
      options: [comment, { code: 2988, value: Buffer.alloc(5) }],
    });
    w.block(0x7fff_ffff, Buffer.alloc(3_000_000));
    w.old({ ticks: START + 1n, frame: udpFrame(1), drops: 3, options: [comment] });
    w.simple(udpFrame(2));
    w.block(4, Buffer.alloc(4));
    w.enhanced({ ticks: START + 2n, frame: udpFrame(3, 21) });
    const { frames, statistics } = await readFrames(file(w.done()));
    expect(frames.map((f) => f.row?.ipid ?? f.reason)).toEqual([0, 1, "noTimestamp", 3]);
    expect(statistics).toMatchObject({ packets: 4, skipped: { noTimestamp: 1 }, dropped: 3, partial: null });
  });

  test("drop counts: those of packets add up, of interface statistics the last one counts, and the larger sum is reported", async () => {
    const w = new PcapngWriter().section().interface({ resolution: 9 }).interface({ resolution: 9 });
    const dropped = (n: bigint): NgOption[] => [{ code: 4, value: w.writer().u64(n).done() }];
    w.enhanced({ ticks: START, frame: udpFrame(0), options: dropped(2n) });
    w.enhanced({ ticks: START, frame: udpFrame(1), options: dropped(3n) });
    expect((await readRows(file(w.done()))).statistics.dropped).toBe(5);
    w.statistics(0, 1n)
      .statistics(0, 7n, 4n)
      .statistics(1, 2n)
      .statistics(1, (1n << 64n) - 1n)
      .statistics(9, 100n);
    const { statistics } = await readRows(file(w.done()));
    expect(statistics.interfaces.map((i) => i.dropped)).toEqual([11, 2]);
    expect(statistics.dropped).toBe(13);
  });

  test("a capture without drop counters does not report zero drops", async () => {
    const w = new PcapngWriter()
      .section()
      .interface()
      .enhanced({ ticks: START, frame: udpFrame(0) });
    w.old({ ticks: START, frame: udpFrame(0) });
    expect((await readRows(file(w.done()))).statistics.dropped).toBeNull();
  });

  test("a packet of an interface that was never described is counted", async () => {
    const w = new PcapngWriter().section().interface({ resolution: 9 });
    w.enhanced({ interfaceId: 1, ticks: START, frame: udpFrame(0) }).enhanced({
      ticks: START,
      frame: udpFrame(1),
    });
    w.section().enhanced({ ticks: START, frame: udpFrame(2) });
    const { rows, statistics } = await readRows(file(w.done()));
    expect(ids(rows)).toEqual([1]);
    expect(statistics.skipped).toEqual({ unknownInterface: 2 });
  });

  test("no packets, no interfaces: an empty capture", async () => {
    expect((await readRows(file(new PcapngWriter().section().done()))).statistics).toMatchObject({
      packets: 0,
      partial: null,
    });
  });

  const base = () =>
    new PcapngWriter()
      .section()
      .interface({ resolution: 9 })
      .enhanced({ ticks: START, frame: udpFrame(0) });
  const damages: [string, (w: PcapngWriter) => PcapngWriter, RegExp][] = [
    [
      "a block shorter than its head",
      (w) => w.block(6, Buffer.alloc(40), 8),
      /impossible (record|block) length/,
    ],
    [
      "a length that is no multiple of four",
      (w) => w.block(6, Buffer.alloc(40), 53),
      /impossible (record|block) length/,
    ],
    [
      "an unknown block of length zero",
      (w) => w.block(99, Buffer.alloc(40), 0),
      /impossible block length \(0\)/,
    ],
    ["two lengths that differ", (w) => w.block(6, Buffer.alloc(40), 52, 56), /two lengths differ/],
    [
      "two lengths that differ in an interface block",
      (w) => w.block(1, Buffer.alloc(8), 20, 24),
      /two lengths differ/,
    ],
    [
      "a captured length beyond its block",
      (w) => w.block(6, w.writer().u32(0).u32(0).u32(0).u32(999).u32(999).done()),
      /impossible (record|block) length/,
    ],
    [
      "a section with a wrong byte-order magic",
      (w) => w.block(0x0a0d0d0a, Buffer.alloc(16, 7)),
      /byte-order magic/,
    ],
    [
      "an interface block of two megabytes",
      (w) => w.block(1, Buffer.alloc(2_000_000)),
      /impossible block length \(2000012\)/,
    ],
    [
      "an unknown block that the file ends in",
      (w) => w.block(99, Buffer.alloc(40), 1 << 30),
      /ends within a block/,
    ],
  ];
  test.each(damages)("%s ends the capture, what came before counts", async (_, damage, message) => {
    const start = base().done().length;
    const path = file(
      damage(base())
        .enhanced({ ticks: START, frame: udpFrame(1) })
        .done(),
    );
    const { rows, statistics } = await readRows(path);
    expect(ids(rows)).toEqual([0]);
    expect(statistics.partial).toMatch(message);
    expect(statistics.partial).toMatch(new RegExp(`^${path}: at byte (${start}|${start + 8}): `));
  });

  test("more interfaces than memory should hold end the capture", async () => {
    const one = new PcapngWriter().section().interface().done();
    const idb = one.subarray(new PcapngWriter().section().done().length);
    const path = file(Buffer.concat([one, ...new Array<Buffer>(70_000).fill(idb)]));
    const { statistics } = await readRows(path);
    expect(statistics.interfaces.length).toBe(65_536);
    expect(statistics.partial).toMatch(/more than 65536 interfaces/);
  });
});

describe("ERF", () => {
  test("Ethernet records: 32.32 time, ports, loss, extension headers, padding", async () => {
    const records = packets.map((x, i) => ({ ...x, iface: i % 4, loss: i === 3 ? 5 : 0, extensions: i % 3 }));
    const { rows, statistics } = await readRows(file(erfFile(records)));
    expect(times(rows)).toEqual(packets.map((x) => x.timeNs));
    expect(rows.map((r) => r.iface)).toEqual(records.map((r) => r.iface));
    expect(rows[0]!.captured).toBe(packets[0]!.frame.length - 14);
    expect(statistics).toMatchObject({ format: "erf", packets: 10, dropped: 5, partial: null });
  });

  test("HDLC, raw IP and ATM records are decoded; pads and messages are no packets; the rest is counted", async () => {
    const ip = udpFrame(0).subarray(14);
    const records = [
      { type: 1, frame: p.stack([p.prefix(0x0f, 0, 8, 0)], ip) },
      { type: 5, frame: p.stack([p.prefix(0x0f, 0, 8, 0)], ip) },
      { type: 48, frame: new Uint8Array(8) },
      { type: 22, frame: ip },
      { type: 27, frame: new Uint8Array(8) },
      { type: 3, frame: p.stack([p.llcSnap(0x0800)], ip).subarray(0, 48) },
      { type: 21, frame: new Uint8Array(30) },
    ].map((r) => ({ ...r, timeNs: START }));
    const { frames, statistics } = await readFrames(file(erfFile(records)));
    expect(frames.map((f) => f.row?.sport ?? f.reason)).toEqual([1000, 1000, 1000, 1000, "unknownLink"]);
    expect(statistics.packets).toBe(5);
  });

  test("a record shorter than its header ends the capture", async () => {
    const bytes = erfFile(packets);
    const at = bytes.length - erfFile([packets[9]!]).length;
    bytes.writeUInt16BE(9, at + 10);
    const { rows, statistics } = await readRows(file(bytes));
    expect(rows.length).toBe(9);
    expect(statistics.partial).toContain(`at byte ${at}: impossible record length`);
  });
});
