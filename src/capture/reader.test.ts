import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { type PlainCapture, type PlainRow, readFrames, readRows } from "../../tests/support/capture-rows.ts";
import * as p from "../../tests/support/packets.ts";
import {
  ByteWriter,
  erfFile,
  type NgOption,
  PcapngWriter,
  type PcapOptions,
  pcapFile,
} from "../../tests/support/pcap-writer.ts";
import { FormatError, UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { FlowKeySpec } from "./flow/flow-key.ts";
import { CaptureReader } from "./reader.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-reader-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
let files = 0;
function file(content: Uint8Array, name = `capture-${files++}`): string {
  const path = join(scratch, name);
  writeFileSync(path, content);
  return path;
}

const START = 1_700_000_000_123_456_789n;
/** Packet `n`, distinguished by its identification and ports. */
function udpFrame(n: number, payload = 20): Uint8Array {
  const inside = new Uint8Array(payload).fill(n);
  return p.stack(
    [
      p.ethernet(0x0800),
      p.ipv4({ proto: 17, id: n & 0xffff }),
      p.udp({ sport: 1000 + (n % 60_000), dport: 53 }),
    ],
    inside,
  );
}
const packets = Array.from({ length: 10 }, (_, n) => ({
  timeNs: START + BigInt(n) * 1001n,
  frame: udpFrame(n),
}));
const times = (rows: PlainRow[]) => rows.map((r) => r.timeNs);
const ids = (rows: PlainRow[]) => rows.map((r) => r.ipid);
const range = (n: number) => Array.from({ length: n }, (_, i) => i);

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

describe("gzip", () => {
  const plain = pcapFile(
    range(5000).map((n) => ({ timeNs: START + BigInt(n), frame: udpFrame(n) })),
    { nano: true },
  );
  const whole = readRows(file(plain));

  test("reads as the plain file does", async () => {
    const { rows, statistics } = await readRows(file(gzipSync(plain)));
    expect(rows).toEqual((await whole).rows);
    expect(statistics.partial).toBeNull();
  });

  test("of several members, and with zeros behind the last", async () => {
    const cuts = [0, 1, 30, 100_000, plain.length];
    const members = cuts.slice(1).map((to, i) => gzipSync(plain.subarray(cuts[i]!, to)));
    for (const tail of [Buffer.alloc(0), Buffer.alloc(7), Buffer.alloc(1000)]) {
      const { rows, statistics } = await readRows(file(Buffer.concat([...members, tail])));
      expect(rows.length).toBe(5000);
      expect(statistics.partial).toBeNull();
    }
  });

  test("followed by something else: what was read, and a message", async () => {
    const { rows, statistics } = await readRows(file(Buffer.concat([gzipSync(plain), Buffer.from("other")])));
    expect(rows.length).toBe(5000);
    expect(statistics.partial).toMatch(/incorrect header check/);
  });

  test("cut anywhere: a prefix of the rows, and a message", async () => {
    const packed = gzipSync(plain);
    const all = (await whole).rows;
    for (const share of [0.02, 0.3, 0.7, 0.99, 1 - 4 / packed.length]) {
      const { rows, statistics } = await readRows(
        file(packed.subarray(0, Math.floor(share * packed.length))),
      );
      expect(rows).toEqual(all.slice(0, rows.length));
      expect(rows.length).toBeGreaterThan(share * 5000 - 700);
      expect(statistics.partial).toMatch(/unexpected end of file/);
    }
  });

  test("with a wrong check sum: every packet, and a message", async () => {
    const packed = gzipSync(plain);
    packed[packed.length - 6]! ^= 1;
    const { rows, statistics } = await readRows(file(packed));
    expect(rows.length).toBe(5000);
    expect(statistics.partial).toMatch(/incorrect data check/);
  });

  test("damaged in the middle: what came before, and a message", async () => {
    const noise = range(3000).map((n) => ({
      timeNs: START,
      frame: p.stack([p.ethernet(0x0800), p.ipv4({ proto: 17, id: n }), p.udp()], noiseBytes(n, 200)),
    }));
    const content = pcapFile(noise);
    const packed = gzipSync(content);
    packed.fill(0xff, packed.length >> 1, (packed.length >> 1) + 100);
    const { rows, statistics } = await readRows(file(packed));
    expect(ids(rows)).toEqual(range(rows.length));
    expect(rows.length).toBeGreaterThan(1200);
    expect(rows.length).toBeLessThan(1600);
    expect(statistics.partial).not.toBeNull();
  });

  test("of nothing, or cut in its head, is a format error", async () => {
    await expect(readRows(file(gzipSync("")))).rejects.toThrow(FormatError);
    await expect(readRows(file(gzipSync(plain).subarray(0, 8)))).rejects.toThrow(/at byte 0: reading failed/);
    await expect(readRows(file(Buffer.from([0x1f, 0x8b, 0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9])))).rejects.toThrow(
      FormatError,
    );
  });
});

function noiseBytes(seed: number, length: number): Uint8Array {
  let x = seed * 2_654_435_761 + 1;
  return Uint8Array.from({ length }, () => {
    x = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d) + 0x9e3779b9;
    return x >>> 24;
  });
}

describe("chunks and batches", () => {
  test("records that straddle chunk ends, at every size of record", async () => {
    // A chunk is 256 KiB: files of a few of them, with records that end everywhere around their borders.
    const list = range(3000).map((n) => ({
      timeNs: START + BigInt(n),
      frame: udpFrame(n, 100 + ((n * 7919) % 1400)),
    }));
    const ng = new PcapngWriter().section().interface({ resolution: 9 });
    for (const [n, x] of list.entries()) {
      ng.enhanced({ ticks: x.timeNs, frame: x.frame });
      if (n % 100 === 0) ng.statistics(0, BigInt(n)).block(77, Buffer.alloc(n));
    }
    const erf = list.map((x) => ({ ...x, frame: x.frame }));
    for (const content of [pcapFile(list, { nano: true }), ng.done(), erfFile(erf)]) {
      expect(content.length).toBeGreaterThan(4 * (1 << 18));
      const { rows, statistics } = await readRows(file(content));
      expect(statistics.partial).toBeNull();
      expect(ids(rows)).toEqual(range(3000));
      expect(rows.map((r) => r.wireLength)).toEqual(list.map((x) => x.frame.length));
    }
  });

  test("a record and a block as long as they may be", async () => {
    const frame = udpFrame(1, 262_000);
    const list = [
      { timeNs: START, frame: udpFrame(0) },
      { timeNs: START, frame },
      { timeNs: START, frame: udpFrame(2) },
    ];
    expect(ids((await readRows(file(pcapFile(list, { snapLength: 262_144 })))).rows)).toEqual([0, 1, 2]);
    const comment = { code: 1, value: Buffer.alloc(60_000) };
    const w = new PcapngWriter().section().interface({ resolution: 9 });
    for (const x of list)
      w.enhanced({ ticks: START, frame: x.frame, options: new Array<NgOption>(12).fill(comment) });
    expect(ids((await readRows(file(w.done()))).rows)).toEqual([0, 1, 2]);
  });

  test("the size of a batch changes nothing", async () => {
    const list = range(500).map((n) => ({ timeNs: START + BigInt(n), frame: udpFrame(n) }));
    const ng = new PcapngWriter().section().interface({ resolution: 9 });
    for (const [n, x] of list.entries()) {
      if (n % 7 === 0) ng.block(88, Buffer.alloc(n)).statistics(0, 1n);
      ng.enhanced({ ticks: x.timeNs, frame: x.frame });
    }
    for (const content of [pcapFile(list, { nano: true }), ng.done(), erfFile(list)]) {
      const path = file(content);
      const { rows } = await readRows(path);
      expect(rows.length).toBe(500);
      for (const batchRows of [1, 3, 499, 500, 501])
        expect((await readRows(path, { batchRows })).rows).toEqual(rows);
    }
  });

  test("batches that outlive the bytes they came from have the same rows, and are full but for the last", async () => {
    // More than is read at a time, several times over.
    const list = range(3000).map((n) => ({ timeNs: START + BigInt(n), frame: udpFrame(n, 400) }));
    const ng = new PcapngWriter().section().interface({ resolution: 9 });
    for (const x of list) ng.enhanced({ ticks: x.timeNs, frame: x.frame });
    for (const content of [pcapFile(list, { nano: true }), ng.done(), erfFile(list)]) {
      const path = file(content);
      const summary = (capture: PlainCapture) =>
        capture.rows.map(({ ipid, captured, iface, ...written }) => written);
      const lean = await readRows(path, { rowsOnly: true, batchRows: 1100 });
      expect(summary(lean)).toEqual(summary(await readRows(path)));
      const reader = await CaptureReader.open(new Kernels(), path, { rowsOnly: true, batchRows: 1100 });
      const counts: number[] = [];
      while (await reader.next()) counts.push(reader.batch.count);
      expect(counts).toEqual([1100, 1100, 800]);
      reader.close();
    }
  });

  test("any cut of any file gives a prefix of its rows, and a message unless it falls between records", async () => {
    const few = packets.slice(0, 3);
    const w = new PcapngWriter().section().interface({ resolution: 9 });
    for (const x of few)
      w.enhanced({ ticks: x.timeNs, frame: x.frame }).statistics(0, 1n).block(99, Buffer.alloc(20));
    for (const [content, erf] of [
      [pcapFile(few, { nano: true }), false],
      [w.done(), false],
      [erfFile(few), true],
    ] as const) {
      const { rows } = await readRows(file(content));
      for (let n = 0; n < content.length; n++) {
        const cut = content.subarray(0, n);
        try {
          const got = await readRows(file(cut, "cut"));
          expect(got.rows).toEqual(rows.slice(0, got.rows.length));
          if (got.statistics.partial)
            expect(got.statistics.partial).toMatch(/cut: at byte \d+: the file ends within/);
          else expect(got.statistics.packets).toBe(got.rows.length);
        } catch (error) {
          expect(error).toBeInstanceOf(FormatError);
          // Only where the head that tells the format is cut.
          expect(n).toBeLessThan(erf ? erfFile(packets.slice(0, 1)).length : 24);
        }
      }
    }
  });

  test("random damage is survived, and every frame is a row or a counted reason", async () => {
    const w = new PcapngWriter().section().interface({ resolution: 9 });
    for (const x of packets) w.enhanced({ ticks: x.timeNs, frame: x.frame });
    for (const content of [pcapFile(packets, { nano: true }), w.done(), erfFile(packets)]) {
      const change = fc.array(
        fc.tuple(fc.nat({ max: content.length - 1 }), fc.integer({ min: 0, max: 255 })),
        { minLength: 1, maxLength: 5 },
      );
      await fc.assert(
        fc.asyncProperty(change, async (changes) => {
          const damaged = Buffer.from(content);
          for (const [at, value] of changes) damaged[at] = value;
          try {
            const { statistics, rows } = await readRows(file(damaged, "damaged"));
            expect(statistics.ipPackets).toBe(rows.length);
            expect(rows.length + Object.values(statistics.skipped).reduce((a, b) => a + b, 0)).toBe(
              statistics.packets,
            );
          } catch (error) {
            expect(error).toBeInstanceOf(FormatError);
          }
        }),
        { seed: 6, numRuns: 300 },
      );
    }
  });

  test("memory is given back: a thousand readers leave the kernel memory as it was after a few", async () => {
    const kernels = new Kernels();
    const path = file(pcapFile(packets));
    const key = FlowKeySpec.parse();
    let settled = 0;
    for (let i = 0; i < 1000; i++) {
      const reader = await CaptureReader.open(kernels, path, { key });
      while (await reader.next());
      reader.close();
      reader.free();
      reader.free();
      expect(reader.statistics().packets).toBe(10);
      if (i === 10) settled = kernels.memory.buffer.byteLength;
    }
    expect(kernels.memory.buffer.byteLength).toBe(settled);
  });
});

describe("where the bytes come from", () => {
  test("a file that is no capture is a format error with file, offset and reason", async () => {
    const cases: [Uint8Array, RegExp][] = [
      [Buffer.alloc(0), /at byte 0: the file is empty/],
      [Buffer.from("hello"), /at byte 0: not a pcap, pcapng or ERF capture/],
      [
        Buffer.from("a text of some length that is surely no capture at all, not even a little"),
        /not a pcap, pcapng or ERF/,
      ],
      [pcapFile([]).subarray(0, 20), /a pcap file of only 20 bytes/],
      [Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0, 0]), /zstd-compressed; decompress it first/],
      [Buffer.from("snoop\0\0\0 and so on"), /snoop capture; convert it/],
      [Buffer.alloc(100_000), /not a pcap/],
    ];
    for (const [content, message] of cases) {
      const path = file(content);
      await expect(readRows(path)).rejects.toThrow(message);
      await expect(readRows(path)).rejects.toThrow(path);
      await expect(readRows(path)).rejects.toBeInstanceOf(FormatError);
    }
  });

  test("a path that cannot be read, and options that make no sense, are the caller's fault", async () => {
    const path = file(pcapFile(packets));
    for (const attempt of [
      () => readRows(join(scratch, "missing")),
      () => readRows(scratch),
      () => readRows(path, { cover: 19 }),
      () => readRows(path, { cover: 70_000 }),
      () => readRows(path, { cover: 64.5 }),
      () => readRows(path, { batchRows: 0 }),
    ])
      await expect(attempt()).rejects.toBeInstanceOf(UsageError);
  });

  test("a named pipe is read as a file is, plain or gzip", async () => {
    const content = pcapFile(range(3000).map((n) => ({ timeNs: START, frame: udpFrame(n, 400) })));
    for (const bytes of [content, gzipSync(content)]) {
      const pipe = join(scratch, `pipe-${files++}`);
      execFileSync("mkfifo", [pipe]);
      const writer = spawn("sh", ["-c", `cat '${file(bytes)}' > '${pipe}'`]);
      const written = new Promise((resolve) => writer.once("close", resolve));
      const { rows, statistics } = await readRows(pipe);
      expect(ids(rows)).toEqual(range(3000));
      expect(statistics.partial).toBeNull();
      await written;
    }
  });

  test("standard input is read as a file is, also when it comes byte by byte", () => {
    const script = file(
      Buffer.from(`
        import { readRows } from ${JSON.stringify(new URL("../../tests/support/capture-rows.ts", import.meta.url).pathname)};
        const { rows, statistics } = await readRows("-");
        console.log(JSON.stringify([rows.length, statistics.partial, statistics.file]));`),
      "stdin.ts",
    );
    const root = new URL("../../", import.meta.url).pathname;
    // Bundled beside the kernels, as the benchmarks are.
    const out = join(root, "dist", "bench", `stdin-${process.pid}.mjs`);
    execFileSync(join(root, "node_modules", ".bin", "esbuild"), [
      script,
      "--bundle",
      "--platform=node",
      "--format=esm",
      `--outfile=${out}`,
      "--log-level=error",
    ]);
    try {
      const run = (shell: string) => JSON.parse(execFileSync("sh", ["-c", shell], { encoding: "utf8" }));
      const path = file(pcapFile(packets));
      const packed = file(gzipSync(pcapFile(packets)));
      const whole = [10, null, "standard input"];
      expect(run(`node '${out}' < '${path}'`)).toEqual(whole);
      expect(run(`cat '${path}' | node '${out}'`)).toEqual(whole);
      expect(run(`cat '${packed}' | node '${out}'`)).toEqual(whole);
      expect(
        run(
          `(head -c 1 '${path}'; sleep 0.1; tail -c +2 '${path}' | head -c 20; sleep 0.1; tail -c +22 '${path}') | node '${out}'`,
        ),
      ).toEqual(whole);
      expect(run(`head -c 300 '${path}' | node '${out}'`)[1]).toMatch(
        /^standard input: at byte \d+: the file ends within a record/,
      );
    } finally {
      rmSync(out, { force: true });
    }
  });
});
