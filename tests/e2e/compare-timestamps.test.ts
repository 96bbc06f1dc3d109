/** Compare with wrong timestamps: a few outliers affect only their own packets, wherever they are, read in one thread or in two. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import type { CompareReport } from "../../src/compare/report.ts";
import { ROOT } from "../support/demo-captures.ts";
import { be16, be32, ethernet, ipv4, stack, udp } from "../support/packets.ts";
import { erfFile, PcapngWriter, type PlainPacket, pcapFile } from "../support/pcap-writer.ts";
import { FULL } from "../support/rounds.ts";

const built = (file: string) => import(pathToFileURL(join(ROOT, "dist", file)).href);
const { compareCaptures } = (await built(
  "compare/compare.js",
)) as typeof import("../../src/compare/compare.ts");

const { inspectCapture } = (await built(
  "inspect/inspect.js",
)) as typeof import("../../src/inspect/inspect.ts");
const { renderComparePage } = (await built(
  "present/html/report-page.js",
)) as typeof import("../../src/present/html/report-page.ts");

const scratch = mkdtempSync(join(tmpdir(), "hoptime-stamps-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const path = (name: string) => join(scratch, name);

const START = 1_700_000_000_123_456_789n;
const SECOND = 1_000_000_000n;
const YEAR = 365n * 86_400n * SECOND;
const PACKETS = 12_000;
const WINDOW_NS = 1e9;

interface Pair {
  before: PlainPacket[];
  after: PlainPacket[];
}

/** Packets every `gapNs` in eight flows; some are lost, the delay goes up and down. */
function makePair(packets: number, gapNs: bigint): Pair {
  const before: PlainPacket[] = [];
  const after: PlainPacket[] = [];
  for (let i = 0; i < packets; i++) {
    const layers = [
      ethernet(0x0800),
      ipv4({ proto: 17, dst: Uint8Array.of(10, 0, 1, i % 8), id: i & 0xffff }),
      udp({ sport: 1000, dport: 2000 + (i % 8) }),
    ];
    const frame = stack(layers, Buffer.concat([be32(i), be16(7)]));
    const timeNs = START + BigInt(i) * gapNs;
    before.push({ timeNs, frame });
    if (i % 97 !== 50) after.push({ timeNs: timeNs + 150_000n + BigInt((i * 7919) % 50_000), frame });
  }
  return { before, after };
}

const common = makePair(PACKETS, 1_000_000n);

/** Changes the timestamps of some packets of one capture, or leaves the packets out. */
function bend(list: PlainPacket[], from: number, count: number, byNs: bigint | "left out"): PlainPacket[] {
  if (byNs === "left out") return list.filter((_, i) => i < from || i >= from + count);
  return list.map((p, i) =>
    i < from || i >= from + count ? p : { ...p, timeNs: p.timeNs + byNs > 0n ? p.timeNs + byNs : 0n },
  );
}

const FORMATS = {
  pcap: (packets: PlainPacket[]) => pcapFile(packets, { nano: true }),
  pcapng: (packets: PlainPacket[]) => {
    const writer = new PcapngWriter().section().interface({ resolution: 9 });
    for (const { timeNs, frame } of packets) writer.enhanced({ ticks: timeNs, frame });
    return writer.done();
  },
  erf: (packets: PlainPacket[]) => erfFile(packets),
};
type Format = keyof typeof FORMATS;

/** A list is written once, however often it is compared. */
const written = new Map<Format, WeakMap<PlainPacket[], string>>();
let files = 0;
function fileOf(packets: PlainPacket[], format: Format): string {
  const known = written.get(format) ?? new WeakMap<PlainPacket[], string>();
  written.set(format, known);
  const file = known.get(packets) ?? path(`${files++}.${format}`);
  if (!known.has(packets)) writeFileSync(file, FORMATS[format](packets));
  known.set(packets, file);
  return file;
}

async function compare(
  { before, after }: Pair,
  format: Format = "pcap",
  options: { epochNs?: number; windowNs?: number; parallel?: boolean } = {},
): Promise<CompareReport> {
  const pair = { before: fileOf(before, format), after: fileOf(after, format) };
  return await compareCaptures({ ...pair, windowNs: WINDOW_NS, parallel: false, ...options });
}

/** Values that must be the same with and without packets with outlier timestamps. */
function others({ segment, flows }: CompareReport) {
  const { matched, latency, reordered, duplicates } = segment;
  const byFlow = Object.fromEntries(flows.map((f) => [JSON.stringify(f.key), f.latency]));
  return { matched, latency, reordered, duplicates, byFlow };
}

/** The comparison without some packets, whose times do not matter; computed once. */
const bare = new Map<string, Promise<CompareReport>>();
function compareWithout(pair: Pair, side: keyof Pair, at: number, count: number, format: Format) {
  const key = JSON.stringify([pair.before.length, side, at, count, format]);
  const known =
    bare.get(key) ?? compare({ ...pair, [side]: bend(pair[side], at, count, "left out") }, format);
  bare.set(key, known);
  return known;
}

async function expectAsWithout(
  pair: Pair,
  side: keyof Pair,
  from: number,
  count: number,
  byNs: bigint,
  format: Format = "pcap",
): Promise<CompareReport> {
  const at = from < 0 ? pair[side].length + from : from;
  const outlier = await compare({ ...pair, [side]: bend(pair[side], at, count, byNs) }, format);
  const without = await compareWithout(pair, side, at, count, format);
  expect(others(outlier)).toEqual(others(without));
  expect(outlier.segment[side === "before" ? "sent" : "received"]).toBe(pair[side].length);
  // At one end the packet is lost and at the other it is new. Without it at an end, its partner is outside the capture, and so are packets lost there.
  const maximum = count + Math.ceil(count / 97);
  expect(outlier.segment.lost - without.segment.lost).toBeGreaterThanOrEqual(0);
  expect(outlier.segment.lost - without.segment.lost).toBeLessThanOrEqual(maximum);
  expect(outlier.segment.appeared - without.segment.appeared).toBeGreaterThanOrEqual(0);
  expect(outlier.segment.appeared - without.segment.appeared).toBeLessThanOrEqual(maximum);
  expect(
    outlier.segment.head + outlier.segment.tail - without.segment.head - without.segment.tail,
  ).toBeLessThanOrEqual(maximum);
  return outlier;
}

describe("one outlier timestamp", () => {
  const places: [string, number][] = [
    ["first packet", 0],
    ["second packet", 1],
    ["packet early on", 700],
    ["last packet of a batch", 4095],
    ["first packet of a batch", 4096],
    ["packet in the middle", 6001],
    ["last packet but one", -2],
    ["last packet", -1],
  ];
  const sizes: [string, bigint][] = [
    ["a minute ahead", 60n * SECOND],
    ["a year ahead", YEAR],
    ["a minute behind", -60n * SECOND],
    ["at 1970", -START],
  ];
  for (const side of ["before", "after"] as const) {
    test.each(places)(
      `${side}: the %s, ahead or behind by whatever, is as if it was not there`,
      async (_, at) => {
        for (const [n, [, byNs]] of sizes.entries()) {
          // Half of the sizes at either side; HOPTIME_FULL=1: all.
          if (!FULL && (n + (side === "before" ? 0 : 1)) % 2 === 1) continue;
          const { notes, intervals } = await expectAsWithout(common, side, at, 1, byNs);
          expect(intervals.length).toBeLessThan(90);
          // Silence at an end looks the same.
          const silence = (at === 0 && byNs === -60n * SECOND) || (at === -1 && byNs === 60n * SECOND);
          if (!silence)
            expect(notes.join("\n")).toMatch(
              /1 outlier timestamp, up to .* (ahead of|behind) those around it/,
            );
          expect(notes.join("\n")).not.toMatch(/a clock was set/);
        }
      },
    );
  }

  test("in pcapng and ERF too", async () => {
    for (const at of [0, 3000, -1])
      for (const byNs of [YEAR, -YEAR]) await expectAsWithout(common, "before", at, 1, byNs, "pcapng");
    // ERF is recognised by the times of its first records.
    for (const at of [5, 3000, -1])
      for (const byNs of [YEAR, -YEAR]) await expectAsWithout(common, "before", at, 1, byNs, "erf");
  });

  test("at a few packets per minute too, where the whole capture is one batch", async () => {
    const slow = makePair(60, 20n * SECOND);
    for (const side of ["before", "after"] as const)
      for (const at of [0, 1, 20, 57, -1])
        for (const byNs of [300n * SECOND, YEAR, -300n * SECOND, -YEAR])
          await expectAsWithout(slow, side, at, 1, byNs);
  });
});

describe("bursts of stamps that stray", () => {
  test.each([2, 25, 300])("%i in a row, anywhere", async (count) => {
    const sizes = [60n * SECOND, YEAR, -YEAR];
    // Every place with another size at either side; HOPTIME_FULL=1: with every size.
    for (const [s, side] of (["before", "after"] as const).entries())
      for (const [a, at] of [0, 3950, 6000, -count].entries())
        for (const byNs of FULL ? sizes : [sizes[(s + a) % sizes.length] ?? YEAR])
          await expectAsWithout(common, side, at, count, byNs);
  });

  test("read in two threads, too", async () => {
    for (const [at, count, byNs] of [
      [4095, 1, YEAR],
      [0, 1, YEAR],
      [3950, 300, 60n * SECOND],
      [7000, 40, -YEAR],
    ] as const) {
      const bent = { ...common, before: bend(common.before, at, count, byNs) };
      const one = await compare(bent);
      const two = await compare(bent, "pcap", { parallel: true });
      expect({ ...two, before: null, after: null, notes: null }).toEqual({
        ...one,
        before: null,
        after: null,
        notes: null,
      });
      expect(two.notes).toHaveLength(one.notes.length);
    }
  });

  test("one here, one there, in both captures", async () => {
    const scatter = (list: PlainPacket[], every: number) =>
      list.map((p, i) =>
        i % every === every >> 1 ? { ...p, timeNs: p.timeNs + (i % 2 === 0 ? YEAR : -40n * SECOND) } : p,
      );
    const kept = (list: PlainPacket[], every: number) => list.filter((_, i) => i % every !== every >> 1);
    const outlier = await compare({ before: scatter(common.before, 400), after: scatter(common.after, 333) });
    const without = await compare({ before: kept(common.before, 400), after: kept(common.after, 333) });
    expect(others(outlier)).toEqual(others(without));
    expect(outlier.notes.filter((n) => /outlier timestamps/.test(n))).toHaveLength(2);
  });
});

describe("a clock that is set", () => {
  const set = (list: PlainPacket[], at: number, byNs: bigint) => bend(list, at, list.length - at, byNs);

  test("in both captures goes on matching behind it where it is set forward, and keeps what was before it where it is set back", async () => {
    const { matched } = (await compare(common)).segment;
    for (const byNs of [30n * SECOND, 3600n * SECOND, -30n * SECOND]) {
      const { segment, notes } = await compare({
        before: set(common.before, 6000, byNs),
        after: set(common.after, 6000 - 62, byNs),
      });
      expect(segment.matched).toBeGreaterThan(byNs > 0n ? matched - 20 : matched / 2 - 20);
      expect(notes.join("\n")).not.toMatch(/stray/);
      if (byNs < 0n)
        expect(notes.join("\n")).toMatch(/the timestamps go back by 30(\.0*)? s.*a clock was set/);
    }
  });

  test("in one capture is named, and so are outliers before it", async () => {
    const bent = bend(set(common.after, 6000, 3600n * SECOND), 1000, 1, YEAR);
    const { notes, segment } = await compare({ ...common, after: bent });
    expect(segment.matched).toBeGreaterThan(5800);
    expect(segment.matched).toBeLessThan(6100);
    expect(notes.join("\n")).toMatch(/a clock was set during the capture/);
    expect(notes.join("\n")).toMatch(/1 outlier timestamp, up to 365.0 d ahead/);
  });
});

describe("intervals", () => {
  test("that are too short are refused with a length that does, before they take the memory", async () => {
    // 250,001 packets, each in another microsecond.
    const pair = makePair(260_000, 2_000n);
    const error = await compare(pair, "pcap", { epochNs: 1000 }).catch((e) => e);
    expect(error).toMatchObject({
      name: "UsageError",
      code: "bad-parameter",
      hint: expect.stringMatching(/^use 10 µs or longer/),
    });
    expect(error.message).toMatch(/epoch: intervals of 1 µs are too short .* more than 250,000/);
    const { intervals } = await compare(pair, "pcap", { epochNs: 1e4 });
    expect(intervals.reduce((n, i) => n + i.sent, 0)).toBe(260_000);
  });

  test("without packets take no memory, however many", async () => {
    const slow = makePair(50, 86_400n * SECOND);
    const { intervals, heat, segment } = await compare(slow, "pcap", { epochNs: 1000 });
    expect(intervals).toHaveLength(50);
    expect(intervals.map((i) => i.matched)).toEqual(
      slow.before.map((_, i) => (i === 0 ? 1 : i % 97 === 50 ? 0 : 1)),
    );
    expect(heat!.columnStartNs.length).toBeLessThanOrEqual(200);
    expect(segment.matched).toBe(50);
  });
});

describe("what else is reported of a capture with an outlier timestamp", () => {
  const bent = path("bent.pcap");
  const plain = path("plain.pcap");

  test.each([
    ["first", 0, -START],
    ["first, ahead", 0, 60n * SECOND],
    ["middle", 5000, YEAR],
    ["last", PACKETS - 1, YEAR],
  ])("inspect: span and rates without it, and a warning (%s)", async (_, at, byNs) => {
    writeFileSync(bent, FORMATS.pcap(bend(common.before, at, 1, byNs)));
    const { durationNs, rates, warnings, firstNs } = await inspectCapture({ file: bent });
    expect(Math.abs(durationNs! - (PACKETS - 1) * 1e6)).toBeLessThanOrEqual(1e6);
    expect(rates!.packetsPerSecond).toBeCloseTo(1000, 0);
    expect(Number(BigInt(firstNs!) - START)).toBeLessThanOrEqual(1e6);
    expect(warnings.join("\n")).toMatch(/1 outlier timestamp, up to .* (ahead of|behind) those around it/);
  });

  test("compare: the captures' spans, and intervals of the time there was", async () => {
    writeFileSync(plain, FORMATS.pcap(common.after));
    for (const [at, byNs] of [
      [0, YEAR],
      [0, -START],
      [5000, YEAR],
      [PACKETS - 1, YEAR],
    ] as const) {
      writeFileSync(bent, FORMATS.pcap(bend(common.before, at, 1, byNs)));
      const report = await compareCaptures({ before: bent, after: plain, windowNs: WINDOW_NS, epochNs: 1e8 });
      const { firstNs, lastNs } = report.before;
      expect(Math.abs(Number(BigInt(lastNs!) - BigInt(firstNs!)) - (PACKETS - 1) * 1e6)).toBeLessThanOrEqual(
        1e6,
      );
      // One direction alone shows no offset, so "usable" is the best possible verdict.
      expect(report.clock["trust"]).toBe("usable");
      expect((report.clock["lines"] as string[]).join("\n")).not.toMatch(/go backward/);
      expect(report.intervals.length).toBeLessThanOrEqual(122);
      expect(report.intervals.filter((i) => i.matched > 90).length).toBeGreaterThanOrEqual(118);
      expect(report.heat!.counts.filter((column) => column.some((n) => n > 0)).length).toBeGreaterThan(60);
      expect(renderComparePage(report).length).toBeLessThan(400_000);
    }
  });

  test("compare from standard input, in whatever pieces it comes, is as from files", () => {
    writeFileSync(plain, FORMATS.pcap(common.after));
    writeFileSync(bent, FORMATS.pcap(bend(common.before, 3000, 20, YEAR)));
    const main = join(ROOT, "dist/cli/main.js");
    const piped = JSON.parse(
      execFileSync("sh", ["-c", `cat ${bent} | node ${main} compare - ${plain} --window 1s --json`], {
        maxBuffer: 1 << 26,
      }).toString(),
    );
    const read = JSON.parse(
      execFileSync("node", [main, "compare", bent, plain, "--window", "1s", "--json"], {
        maxBuffer: 1 << 26,
      }).toString(),
    );
    expect(piped.segment).toEqual(read.segment);
    expect(piped.segment.matched).toBeGreaterThan(PACKETS - 20 - PACKETS / 90);
  });

  test("a filter that passes little leaves few rows at a time", async () => {
    writeFileSync(plain, FORMATS.pcap(common.after));
    writeFileSync(bent, FORMATS.pcap(bend(common.before, 8008, 1, YEAR)));
    const { segment } = await compareCaptures({
      before: bent,
      after: plain,
      windowNs: WINDOW_NS,
      filter: "udp dst port 2000",
    });
    expect(segment.sent).toBe(PACKETS / 8);
    expect(segment.matched).toBe(common.after.filter((p) => p.frame[33] === 0).length - 1);
  });
});
