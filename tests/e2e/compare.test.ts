/** Compare as a user runs it: on the demo's real captures with all realistic modifications, and on published pairs if they are available. */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { compareCaptures, openComparison } from "../../src/compare/compare.ts";
import type { CompareReport } from "../../src/compare/report.ts";
import { formatCompareCsv } from "../../src/present/csv/compare-csv.ts";
import { jsonPieces } from "../../src/present/json/json-pieces.ts";
import {
  DEMO,
  type Frame,
  ROOT,
  readFrames,
  shifted,
  tagged,
  writeFrames,
} from "../support/demo-captures.ts";
import { PcapngWriter } from "../support/pcap-writer.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-compare-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const path = (name: string) => join(scratch, name);

let before: Frame[];
let after: Frame[];
let plain: CompareReport;
beforeAll(async () => {
  before = readFrames(DEMO.before);
  after = readFrames(DEMO.after);
  plain = await compareCaptures(DEMO);
});

function hasTshark(): boolean {
  return spawnSync("tshark", ["--version"]).status === 0;
}

/** The expected result by other means: tshark's fields, with equal packets first in, first out. */
function tsharkTruth(beforeFile: string, afterFile: string) {
  const fields = [
    "frame.time_epoch",
    "ip.src",
    "ip.dst",
    "ip.id",
    "ip.proto",
    "ipv6.src",
    "ipv6.dst",
    "ipv6.nxt",
  ];
  const more = [
    "tcp.srcport",
    "tcp.dstport",
    "tcp.seq_raw",
    "tcp.ack_raw",
    "tcp.flags",
    "tcp.window_size_value",
    "tcp.options",
  ];
  const rest = ["udp.srcport", "udp.dstport", "udp.length", "udp.payload", "icmp.seq", "ip.len", "ipv6.plen"];
  const read = (file: string) =>
    execFileSync(
      "tshark",
      [
        "-n",
        "-r",
        file,
        "-o",
        "tcp.relative_sequence_numbers:FALSE",
        "-T",
        "fields",
        ...[...fields, ...more, ...rest].flatMap((f) => ["-e", f]),
      ],
      { maxBuffer: 1 << 28 },
    )
      .toString()
      .replace(/\n$/, "")
      .split("\n")
      .map((line) => {
        const [time, ...identity] = line.split("\t");
        const [seconds, fraction = ""] = time!.split(".");
        return {
          ns: BigInt(seconds!) * 1_000_000_000n + BigInt(fraction.padEnd(9, "0")),
          key: identity.join("|"),
          ip: identity[0] !== "" || identity[4] !== "",
        };
      })
      .filter((p) => p.ip);
  const waiting = new Map<string, bigint[]>();
  const sent = read(beforeFile);
  for (const p of sent) {
    const list = waiting.get(p.key);
    if (list) list.push(p.ns);
    else waiting.set(p.key, [p.ns]);
  }
  const received = read(afterFile);
  const delays: number[] = [];
  for (const p of received) {
    const at = waiting.get(p.key)?.shift();
    if (at !== undefined) delays.push(Number(p.ns - at));
  }
  return { sent: sent.length, received: received.length, delays };
}

describe("compare on the demo's captures", () => {
  test.skipIf(!hasTshark())("counts and delays are those of tshark's reading", () => {
    const truth = tsharkTruth(DEMO.before, DEMO.after);
    const { segment } = plain;
    expect(segment.sent).toBe(truth.sent);
    expect(segment.received).toBe(truth.received);
    expect(segment.matched).toBe(truth.delays.length);
    const mean = truth.delays.reduce((s, d) => s + d, 0) / truth.delays.length;
    expect(segment.latency!.meanNs).toBeCloseTo(mean, 0);
    const sorted = truth.delays.sort((a, b) => a - b);
    for (const [q, value] of [
      [0.5, segment.latency!.p50Ns],
      [0.99, segment.latency!.p99Ns],
    ] as const) {
      const exact = sorted[Math.ceil(q * sorted.length) - 1]!;
      expect(Math.abs(value / exact - 1)).toBeLessThan(0.005);
    }
  });

  test("a report written while its flows are made is the report, byte by byte", async () => {
    const comparison = await openComparison(DEMO);
    const view = comparison.view("all");
    expect([...jsonPieces(view)].join("")).toBe(JSON.stringify(plain));
    expect(formatCompareCsv(view)).toBe(formatCompareCsv(plain));
    // Again, in another order, and few.
    const slowest = [...comparison.view({ top: 3, sort: "max" }).flows];
    expect(slowest.map((f) => f.latency!.maxNs)).toEqual(
      plain.flows
        .map((f) => f.latency?.maxNs ?? 0)
        .sort((a, b) => b - a)
        .slice(0, 3),
    );
    comparison.free();
  });

  test("losses over time are the segment's, also those at the very ends", async () => {
    // The first and the last packet of BEFORE are missing in AFTER: too few for a capture that began late or ended early.
    const kept = after.filter((f) => f.ns > before[3000]!.ns && f.ns < before[5000]!.ns);
    const inside = before.filter((f) => f.ns > before[3000]!.ns && f.ns < before[5000]!.ns - 40_000_000n);
    for (const frames of [inside, inside.slice(1), inside.slice(0, -1)]) {
      const report = await compareCaptures({
        before: writeFrames(path("inside.pcap"), frames),
        after: writeFrames(path("kept.pcap"), kept),
        epochNs: 5e6,
      });
      const sum = (field: "sent" | "matched" | "lost") => report.intervals.reduce((n, i) => n + i[field], 0);
      expect(sum("lost")).toBe(report.segment.lost);
      expect(sum("matched")).toBe(report.segment.matched);
    }
    const [first, last] = [after[200]!, after[6000]!];
    const ends = after.slice(200, 6001);
    const report = await compareCaptures({
      before: writeFrames(
        path("ends-a.pcap"),
        ends.map((f) => ({ ...f, ns: f.ns - 1000n })),
      ),
      after: writeFrames(path("ends-b.pcap"), ends.slice(1, -1)),
      epochNs: 5e6,
    });
    expect(report.segment).toMatchObject({ lost: 2, head: 0, tail: 0 });
    expect(report.intervals.reduce((n, i) => n + i.lost, 0)).toBe(2);
    for (const { ns } of [first, last]) {
      const sentNs = ns - 1000n;
      const own = report.intervals.find((i) => BigInt(i.startNs) <= sentNs && sentNs < BigInt(i.endNs));
      expect(own!.lost).toBe(1);
    }
  });

  test("of very short intervals those with packets are listed, each of the requested length", async () => {
    const { intervals, segment } = await compareCaptures({ ...DEMO, epochNs: 100 });
    expect(intervals.reduce((n, i) => n + i.matched, 0)).toBe(segment.matched);
    expect(intervals.reduce((n, i) => n + i.lost, 0)).toBe(segment.lost);
    for (const { startNs, endNs, sent } of intervals) {
      expect(BigInt(endNs) - BigInt(startNs)).toBe(100n);
      expect(sent).toBeGreaterThan(0);
    }
  });

  test("every packet is accounted for exactly once, in all and per flow", () => {
    const { segment, flows } = plain;
    expect(segment.matched + segment.lost).toBeLessThanOrEqual(segment.sent);
    expect(segment.sent + segment.received).toBe(
      2 * segment.matched +
        segment.lost +
        segment.appeared +
        segment.duplicates +
        segment.head +
        segment.tail,
    );
    expect(flows.reduce((s, f) => s + f.matched, 0)).toBe(segment.matched);
    expect(flows.reduce((s, f) => s + f.lost, 0)).toBe(segment.lost);
    expect(plain.intervals.reduce((s, i) => s + i.matched, 0)).toBe(segment.matched);
    // The captures were cut at the same times: packets in flight at that time are neither lost nor new.
    expect(segment.head).toBeGreaterThan(100);
    expect(segment.tail).toBeGreaterThan(100);
    expect(segment.appeared).toBe(0);
  });

  test("a capture cut to other snap lengths, tagged, compressed or in another format gives the same numbers", async () => {
    const variants = {
      "snap-80.pcap": writeFrames(path("snap-80.pcap"), after, 80),
      "tagged.pcap": writeFrames(
        path("tagged.pcap"),
        after.map((f) => tagged(tagged(f, 100), 7)),
      ),
    };
    writeFileSync(path("zipped"), gzipSync(readFileSync(variants["tagged.pcap"])));
    for (const file of [...Object.values(variants), path("zipped")]) {
      const { segment } = await compareCaptures({ before: DEMO.before, after: file });
      expect(segment.matched, file).toBe(plain.segment.matched);
      expect(segment.lost).toBe(plain.segment.lost);
      expect(segment.latency).toEqual(plain.segment.latency);
    }
    const cut = await compareCaptures({ before: DEMO.before, after: variants["snap-80.pcap"] });
    // 80 bytes of the frame are 66 from the IP header on; the report says so.
    expect(cut.notes.join("\n")).toMatch(/bytes from the IP header/);
  });

  test("time to live, DSCP and checksums may change on the way", async () => {
    const changed = after.map((f) => {
      const data = Buffer.from(f.data);
      if (data.readUInt16BE(12) === 0x0800) {
        data[15] = 0xb8;
        data[22] = (data[22]! - 1) & 255;
        data.writeUInt16BE(0xdead, 24);
      }
      return { ...f, data };
    });
    const { segment } = await compareCaptures({
      before: DEMO.before,
      after: writeFrames(path("changed.pcap"), changed),
    });
    expect(segment.matched).toBe(plain.segment.matched);
  });

  test("swapped files are noticed and said", async () => {
    const report = await compareCaptures({ before: DEMO.after, after: DEMO.before });
    expect(report.direction.order).toBe("swapped");
    expect(report.segment.latency!.meanNs).toBeCloseTo(-plain.segment.latency!.meanNs, 0);
    expect(plain.direction.order).toBe("as-given");
  });

  test.each([
    ["37 s of TAI", 37_000_000_000n, "tai-utc"],
    ["two hours of time zone", 7_200_000_000_000n, "time-zone"],
    ["minus one hour", -3_600_000_000_000n, "time-zone"],
  ])("a clock off by %s is recognised, and deskew removes it", async (_name, offset, kind) => {
    const file = writeFrames(
      path(`off-${kind}-${offset}.pcap`),
      shifted(after, () => offset),
    );
    const report = await compareCaptures({ before: DEMO.before, after: file });
    expect(report.segment.matched).toBe(plain.segment.matched);
    expect(report.segment.latency!.meanNs).toBeCloseTo(plain.segment.latency!.meanNs + Number(offset), -1);
    expect((report.clock["offset"] as { kind: string }).kind).toBe(kind);
    const mended = await compareCaptures({ before: DEMO.before, after: file, clock: "deskew" });
    expect(mended.segment.latency!.meanNs).toBeCloseTo(plain.segment.latency!.meanNs, -1);
    expect(mended.segment.lost).toBe(plain.segment.lost);
  });

  test.each([
    ["ahead", 2_000_000_000n],
    ["behind", -2_000_000_000n],
    ["ahead by more than the window", 40_000_000_000n],
    ["behind by more than the window", -40_000_000_000n],
  ])("what was lost does not depend on what is done about a clock that is %s", async (_name, offset) => {
    const late = after.slice(1500, -1500);
    const inTime = await compareCaptures({
      before: DEMO.before,
      after: writeFrames(path("middle.pcap"), late),
    });
    expect(inTime.segment.head).toBeGreaterThan(1000);
    expect(inTime.segment.tail).toBeGreaterThan(1000);
    const file = writeFrames(
      path(`middle${offset}.pcap`),
      shifted(late, () => offset),
    );
    for (const clock of ["asis", "deskew", "relative"] as const) {
      const { segment } = await compareCaptures({ before: DEMO.before, after: file, clock });
      const { matched, lost, appeared, head, tail } = inTime.segment;
      expect(segment).toMatchObject({ matched, lost, appeared, head, tail });
    }
  });

  test("reordering and jitter do not depend on how far the second clock is behind", async () => {
    // Every fifth packet is late by 5 ms.
    const mixed = after
      .map((f, i) => (i % 5 === 0 ? { ...f, ns: f.ns + 5_000_000n } : f))
      .toSorted((a, b) => (a.ns < b.ns ? -1 : 1));
    const compared = async (offset: bigint) => {
      const file = writeFrames(
        path(`mixed${offset}.pcap`),
        shifted(mixed, () => offset),
      );
      return await compareCaptures({ before: DEMO.before, after: file });
    };
    const inTime = await compared(0n);
    expect(inTime.segment.reordered).toBeGreaterThan(1000);
    for (const offset of [-1_000_000_000n, -3_000_000_000n, -9_000_000_000n, -60_000_000_000n]) {
      const { segment, flows } = await compared(offset);
      const { matched, lost, reordered, reorderExtent } = inTime.segment;
      expect(segment).toMatchObject({ matched, lost, reordered, reorderExtent });
      expect(segment.latency!.jitterNs).toBeCloseTo(inTime.segment.latency!.jitterNs!, 3);
      expect(segment.latency!.minNs).toBe(inTime.segment.latency!.minNs + Number(offset));
      expect(flows.map((f) => f.reordered)).toEqual(inTime.flows.map((f) => f.reordered));
    }
  });

  test("the correction that a note suggests removes the offset", async () => {
    const file = writeFrames(
      path("years.pcap"),
      shifted(after, () => 94_608_123_456_789_000n),
    );
    for (const clock of ["asis", "deskew"] as const) {
      const { notes, segment } = await compareCaptures({ before: DEMO.before, after: file, clock });
      expect(segment.latency!.minNs).toBeGreaterThan(9e16);
      expect(notes.join("\n")).toMatch(/delays include the difference; ‘clock relative’ removes it/);
    }
    const { notes, segment } = await compareCaptures({ before: DEMO.before, after: file, clock: "relative" });
    expect(segment.latency!.minNs).toBeLessThan(1000);
    expect(notes.join("\n")).not.toMatch(/delays include the difference/);
  });

  test("relative delays begin at 0, whatever the offset", async () => {
    const file = writeFrames(
      path("behind.pcap"),
      shifted(after, () => -50_000_000n),
    );
    const report = await compareCaptures({ before: DEMO.before, after: file, clock: "relative" });
    expect(report.segment.matched).toBe(plain.segment.matched);
    expect(report.segment.latency!.minNs).toBeCloseTo(0, 0);
    expect(report.segment.latency!.stdevNs).toBeCloseTo(plain.segment.latency!.stdevNs, -2);
  });

  test("packets that go both ways are two segments", async () => {
    // The same traffic in reverse: addresses and ports exchanged, seen at AFTER first.
    const mirror = (f: Frame, ns: bigint): Frame | null => {
      const data = Buffer.from(f.data);
      if (data.readUInt16BE(12) !== 0x0800 || data[14] !== 0x45) return null;
      const [src, dst] = [data.subarray(26, 30), data.subarray(30, 34)].map((b) => Buffer.from(b));
      dst!.copy(data, 26);
      src!.copy(data, 30);
      const [sport, dport] = [data.subarray(34, 36), data.subarray(36, 38)].map((b) => Buffer.from(b));
      if (data[23] === 6 || data[23] === 17) {
        dport!.copy(data, 34);
        sport!.copy(data, 36);
      }
      return { ...f, data, ns };
    };
    const back = before.map((f) => mirror(f, f.ns + 1000n)).filter((f) => f !== null);
    const backLater = back.map((f) => ({ ...f, ns: f.ns + 250_000n }));
    const sort = (frames: Frame[]) => frames.sort((a, b) => (a.ns < b.ns ? -1 : 1));
    const report = await compareCaptures({
      before: writeFrames(path("two-way-a.pcap"), sort([...before, ...backLater])),
      after: writeFrames(path("two-way-b.pcap"), sort([...after, ...back])),
    });
    expect(report.segment.matched).toBe(plain.segment.matched);
    expect(report.segment.latency!.meanNs).toBeCloseTo(plain.segment.latency!.meanNs, 0);
    expect(report.reverse!.matched).toBe(back.length);
    expect(report.reverse!.latency).toMatchObject({ minNs: 250_000, maxNs: 250_000 });
    expect((report.clock["offset"] as { kind: string }).kind).toBe("none");
  });

  test("copies made on the way are duplicates", async () => {
    const doubled = after.flatMap((f, i) => (i % 50 === 25 ? [f, { ...f, ns: f.ns + 700n }] : [f]));
    const { segment } = await compareCaptures({
      before: DEMO.before,
      after: writeFrames(path("doubled.pcap"), doubled),
    });
    expect(segment.matched).toBe(plain.segment.matched);
    // Copies of packets in flight when BEFORE began are outside its time, like their originals.
    const copies = doubled.length - after.length;
    expect(segment.duplicates).toBeGreaterThan(copies - 6);
    expect(segment.duplicates).toBeLessThanOrEqual(copies);
  });

  test("copies made on the way back are duplicates too, and what is not counted there is null, not 0", async () => {
    // Everything reversed: AFTER is the earlier point of all packets except those of one more flow.
    const lone = (n: number, ns: bigint): Frame => {
      const data = Buffer.from(before.find((f) => f.data[23] === 17)!.data);
      data.writeUInt32BE(0x0a000001, 26);
      data.writeUInt16BE(n, 18);
      return { ...before[0]!, data, wire: data.length, ns };
    };
    const start = before[0]!.ns;
    const there = Array.from({ length: 600 }, (_, n) => lone(n, start + BigInt(n) * 1_000_000n));
    const doubled = after.flatMap((f, i) =>
      i % 50 === 25 ? [f, { ...f, ns: f.ns + (i % 100 === 25 ? 700n : 40_000_000n) }] : [f],
    );
    const sort = (frames: Frame[]) => frames.toSorted((a, b) => (a.ns < b.ns ? -1 : 1));
    const { segment, reverse, reverseFlows } = await compareCaptures({
      before: writeFrames(path("back-doubled.pcap"), sort([...doubled, ...there])),
      after: writeFrames(
        path("back-sent.pcap"),
        sort([...before, ...there.map((f) => ({ ...f, ns: f.ns + 500_000n }))]),
      ),
    });
    expect(segment).toMatchObject({ matched: 600, reordered: 0, duplicates: 0 });
    expect(reverse!.matched).toBe(plain.segment.matched);
    const copies = doubled.length - after.length;
    expect(reverse!.duplicates).toBeGreaterThan(copies - 8);
    expect(reverse!.duplicates).toBeLessThanOrEqual(copies);
    expect(reverseFlows.reduce((n, f) => n + f.duplicates, 0)).toBe(reverse!.duplicates);
    expect(reverse).toMatchObject({ reordered: null, reorderExtent: null });
    expect(formatCompareCsv({ flows: [], reverseFlows })).not.toMatch(/null/);
  });

  test.each([
    [
      "forward in one capture",
      3_600_000_000_000n,
      0n,
      /differ by 1(\.00)? h between the captures, .* a clock was set during the capture/,
    ],
    [
      "back in both captures",
      -3_600_000_000_000n,
      -3_600_000_000_000n,
      /the timestamps go back by 1(\.00)? h, more than the window/,
    ],
  ])("a clock that is set by more than the window, %s, is named", async (_name, atAfter, atBefore, note) => {
    const set = (frames: Frame[], byNs: bigint) => {
      const turn = frames[Math.floor(frames.length / 2)]!.ns;
      return shifted(frames, (ns) => (ns < turn ? 0n : byNs));
    };
    const { notes, segment, clock } = await compareCaptures({
      before: writeFrames(path("set-a.pcap"), set(before, atBefore)),
      after: writeFrames(path("set-b.pcap"), set(after, atAfter)),
    });
    expect(segment.matched).toBeLessThan(0.7 * plain.segment.matched);
    expect(notes.join("\n")).toMatch(note);
    expect(plain.notes.join("\n")).not.toMatch(note);
    expect(clock.trust).toBe("doubtful");
  });

  test("captures without a packet in common say what to look at", async () => {
    const other = after.map((f) => {
      const data = Buffer.from(f.data);
      // As with NAT.
      if (data.readUInt16BE(12) === 0x0800) data.writeUInt32BE(0xcb007105, 26);
      return { ...f, data };
    });
    const file = writeFrames(path("nat.pcap"), other);
    const { notes, segment } = await compareCaptures({ before: DEMO.before, after: file, filter: "ip" });
    expect(segment).toMatchObject({ matched: 0, latency: null });
    expect(notes.join("\n")).toMatch(/overlap in time, but no packet is in both, whatever .*NAT/);
  });

  test("where as many packets come up as are missing, loss is not what explains it", async () => {
    const other = after.map((f) => {
      const data = Buffer.from(f.data);
      if (data.readUInt16BE(12) === 0x0800 && data[23] === 6) data.writeUInt32BE(0xcb007105, 26);
      return { ...f, data };
    });
    const file = writeFrames(path("part-nat.pcap"), other);
    const { notes, segment } = await compareCaptures({ before: DEMO.before, after: file });
    expect(segment.lost).toBeGreaterThan(1000);
    expect(notes.join("\n")).toMatch(/translated on the way \(NAT\): .*203\.0\.113\.5.*‘nat’/);
    expect(plain.notes.join("\n")).not.toMatch(/NAT|does not explain/);
  });

  test("a capture compared with itself is noted", async () => {
    const { notes, segment } = await compareCaptures({ before: DEMO.before, after: DEMO.before });
    expect(segment).toMatchObject({ matched: 6664, lost: 0 });
    expect(notes).toContain("both captures are the same file: every packet is matched with itself");
  });

  test("a filter that passes nothing is what the notes name", async () => {
    const { notes, segment } = await compareCaptures({ ...DEMO, filter: "sctp" });
    expect(segment).toMatchObject({ latency: null, reason: "no packets at either point" });
    expect(notes[0]).toMatch(/none of its 6,664 IP packets matches the filter/);
  });

  test("a cut file is reported as far as it goes, marked as partial", async () => {
    const whole = readFileSync(writeFrames(path("whole.pcap"), after));
    writeFileSync(path("cut.pcap"), whole.subarray(0, Math.floor(whole.length / 2) + 3));
    const report = await compareCaptures({ before: DEMO.before, after: path("cut.pcap") });
    expect(report.after.partial).toMatch(/cut\.pcap: at byte \d+: the file ends within a record/);
    expect(report.segment.matched).toBeGreaterThan(2000);
    // Packets that BEFORE saw after the cut are not lost.
    expect(report.segment.lossRate!).toBeLessThan(0.08);
  });

  test("flows sorted by p99 are those with the highest p99, not with one late packet", async () => {
    // One hundred flows of 300 packets. In all except the last three, two packets come very late; in these three, every tenth is late by half of that.
    const make = (flow: number, n: number, ns: bigint): Frame => {
      const data = Buffer.from(before.find((f) => f.data[23] === 17)!.data);
      data.writeUInt32BE(0x0a000000 + flow, 26);
      data.writeUInt16BE(n, 18);
      return { ...before[0]!, data, wire: data.length, ns };
    };
    const sent = Array.from({ length: 30_000 }, (_, i) =>
      make(i % 100, Math.floor(i / 100), before[0]!.ns + BigInt(i) * 10_000n),
    );
    const arrived = sent.map((f, i) => {
      const [flow, n] = [i % 100, Math.floor(i / 100)];
      const late = flow < 97 ? (n % 150 === 7 ? 80_000_000 : 0) : n % 10 === 3 ? 40_000_000 : 0;
      return { ...f, ns: f.ns + 1_000_000n + BigInt(late + flow) };
    });
    const comparison = await openComparison({
      before: writeFrames(path("p99-a.pcap"), sent),
      after: writeFrames(
        path("p99-b.pcap"),
        arrived.toSorted((a, b) => (a.ns < b.ns ? -1 : 1)),
      ),
    });
    const top = [...comparison.view({ top: 3, sort: "p99" }).flows];
    const p99s = [...comparison.view("all").flows].map((f) => f.latency!.p99Ns).sort((a, b) => b - a);
    expect(top.map((f) => f.latency!.p99Ns)).toEqual(p99s.slice(0, 3));
    expect(top.map((f) => f.key.src).sort()).toEqual(["10.0.0.97", "10.0.0.98", "10.0.0.99"]);
    expect([...comparison.view({ top: 0, sort: "p99" }).flows]).toEqual([]);
    comparison.free();
  });

  test("a capture that holds both points is not taken for one without a word", async () => {
    const both = new PcapngWriter().section().interface({ resolution: 9 }).interface({ resolution: 9 });
    const all = [
      ...before.map((f) => ({ ...f, interfaceId: 0 })),
      ...after.map((f) => ({ ...f, interfaceId: 1 })),
    ].sort((a, b) => (a.ns < b.ns ? -1 : 1));
    for (const { ns, data, wire, interfaceId } of all)
      both.enhanced({ interfaceId, ticks: ns, frame: data, wire });
    const file = path("both.pcapng");
    writeFileSync(file, both.done());
    const together = /both\.pcapng: contains 2 interfaces, treated as one point.*both\.pcapng#0/;
    for (const other of [DEMO.after, file]) {
      const { notes } = await compareCaptures({ before: file, after: other });
      expect(notes.join("\n")).toMatch(together);
    }
    const { notes, segment } = await compareCaptures({ before: `${file}#0`, after: `${file}#1` });
    expect(segment.matched).toBe(plain.segment.matched);
    expect(notes.join("\n")).not.toMatch(together);
    const oneAfterTheOther = new PcapngWriter();
    for (const half of [before.slice(0, 3000), before.slice(3000)]) {
      oneAfterTheOther.section().interface({ resolution: 9 });
      for (const { ns, data, wire } of half) oneAfterTheOther.enhanced({ ticks: ns, frame: data, wire });
    }
    writeFileSync(path("sections.pcapng"), oneAfterTheOther.done());
    const parts = await compareCaptures({ before: path("sections.pcapng"), after: DEMO.after });
    expect(parts.segment.matched).toBe(plain.segment.matched);
    expect(parts.notes.join("\n")).not.toMatch(/treated as one point/);
  });

  test("filters and keys choose what is counted and how", async () => {
    const udp = await compareCaptures({ ...DEMO, filter: "udp and ip" });
    expect(udp.flows.every((f) => f.key.proto === 17)).toBe(true);
    expect(udp.before.skipped["filtered"]).toBeGreaterThan(0);
    const byProtocol = await compareCaptures({ ...DEMO, key: "proto" });
    expect(byProtocol.flows.reduce((s, f) => s + f.matched, 0)).toBe(plain.segment.matched);
    expect(new Set(byProtocol.flows.map((f) => f.key.proto)).size).toBe(byProtocol.flows.length);
    await expect(compareCaptures({ ...DEMO, key: "colour" })).rejects.toThrow(/'colour' is not a key field/);
  });

  test("a capture that has nothing in common says so, and nothing is 0 or NaN", async () => {
    const empty = writeFrames(path("empty.pcap"), []);
    const report = await compareCaptures({ before: DEMO.before, after: empty });
    expect(report.segment).toMatchObject({
      matched: 0,
      latency: null,
      reason: "no packets at the second point",
    });
    expect(JSON.stringify(report)).not.toMatch(/NaN|Infinity/);
    expect(report.flows.every((f) => f.latency === null && f.reason !== undefined)).toBe(true);
  });
});

const shared = process.env["HOPTIME_SHARED"] ?? join(ROOT, "../shared");
const twopoint = join(shared, "traces/twopoint");
if (!existsSync(twopoint)) console.warn(`skipped: published two-point captures are not at ${twopoint}`);

describe.skipIf(!existsSync(twopoint))("compare on published pairs", () => {
  test("linux-router: the truth file's counts exactly, its delays, every flow", async () => {
    const truth = JSON.parse(readFileSync(join(twopoint, "linux-router/router-busy.truth.json"), "utf8"));
    const report = await compareCaptures({
      before: join(twopoint, "linux-router/router-busy-in.pcap.gz"),
      after: join(twopoint, "linux-router/router-busy-out.pcap.gz"),
    });
    const { segment } = report;
    expect(segment).toMatchObject({
      sent: 47_910,
      received: 45_332,
      matched: 45_325,
      lost: 2579,
      appeared: 1,
      linkLocal: 12,
      head: 0,
      tail: 0,
    });
    const l = segment.latency!;
    expect(Math.abs(l.meanNs - truth.meanNs)).toBeLessThan(1);
    expect(Math.abs(l.stdevNs - truth.stdevNs)).toBeLessThan(1);
    expect(l.minNs).toBe(truth.minNs);
    expect(l.maxNs).toBe(truth.maxNs);
    expect(Math.abs(l.p50Ns / truth.p50 - 1)).toBeLessThan(0.005);
    expect(Math.abs(l.p99Ns / truth.p99 - 1)).toBeLessThan(0.005);
    const named = new Map(
      report.flows.map((f) => [
        `${f.key.src}|${f.key.dst}|${f.key.proto}|${f.key.sport ?? ""}|${f.key.dport ?? ""}`,
        f,
      ]),
    );
    for (const [key, flow] of Object.entries<Record<string, number>>(truth.flows)) {
      // The expected result contains the first next header of an IPv6 packet (0: hop-by-hop options), ours the protocol.
      const mine = named.get(key) ?? named.get(key.replace("|0||", "|58||"));
      // Packets that never leave their link are not lost.
      const scoped = key.includes("|ff02:");
      expect(mine, key).toMatchObject({
        sent: flow["sent"],
        lost: scoped ? 0 : flow["lost"],
        matched: flow["packets"] ?? 0,
      });
      if (flow["packets"]) expect(Math.abs(mine!.latency!.meanNs - flow["meanNs"]!)).toBeLessThan(1);
    }
  });

  test.each([
    ["267daab8", { sent: 4800, received: 4800, matched: 4800, lost: 0, tail: 0 }, [4e3, 741.842e6]],
    ["5b5f94f3", { sent: 1638, received: 1638, matched: 1638, lost: 0 }, [150.03e6, 2226e6]],
    ["c1856a64", { sent: 500, received: 500, matched: 500, lost: 0 }, [159e6, 4652e6]],
    ["0907394c", { sent: 700, received: 600, matched: 600, lost: 0, tail: 100, head: 0 }, [100.06e6, 314e6]],
    ["de08ef9a", { sent: 1200, received: 1200, matched: 1200, lost: 0 }, [12e3, 26.3e6]],
  ])("awb-mininet %s: counts and range, replies separated", async (name, counts, [minimum, maximum]) => {
    const report = await compareCaptures({
      before: join(twopoint, `awb-mininet/${name}.sender.pcap.gz`),
      after: join(twopoint, `awb-mininet/${name}.receiver.pcap.gz`),
    });
    expect(report.segment).toMatchObject(counts);
    expect(report.segment.latency!.minNs / minimum!).toBeCloseTo(1, 1);
    expect(report.segment.latency!.maxNs / maximum!).toBeCloseTo(1, 1);
    expect(report.reverse!.latency!.minNs).toBeGreaterThan(0);
  });

  test("det6g: hardware stamps in nanoseconds, the pcaps' names swapped", async () => {
    const file = (way: string) => join(twopoint, `det6g-pd-wired/${way}-nocross-10pkt_per_sec.pcap`);
    const right = await compareCaptures({ before: file("downstream"), after: file("upstream") });
    expect(right.segment).toMatchObject({ matched: 1000, lost: 0, appeared: 0 });
    expect(right.segment.latency!.minNs).toBeGreaterThan(4400);
    expect(right.segment.latency!.maxNs).toBeLessThan(4680);
    const wrong = await compareCaptures({ before: file("upstream"), after: file("downstream") });
    expect(wrong.direction.order).toBe("swapped");
  });
});
