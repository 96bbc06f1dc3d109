/**
 * Real pairs of captures whose two points share one clock: no offset, skew or clock step may be reported. The same pairs with an added offset or skew must show
 * exactly that. Skipped if the captures are missing (HOPTIME_SHARED or ../shared).
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { diagnose } from "../../src/clock/diagnose.ts";
import { ClockObserver } from "../../src/clock/observer.ts";
import { TimestampQuality } from "../../src/clock/timestamp-quality.ts";
import type { ClockVerdict } from "../../src/clock/verdict.ts";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const folder = join(process.env["HOPTIME_SHARED"] ?? join(root, "..", "shared"), "traces", "twopoint");
const present = existsSync(folder);
if (!present) console.error(`skipped: real two-point captures are not in ${folder}`);

interface Packet {
  timeNs: bigint;
  key: string;
  source: string;
}

/** Little-endian classic pcap over Ethernet: IP packets, keyed by all captured bytes except TTL and header checksum. */
function readPcap(name: string): Packet[] {
  const raw = readFileSync(join(folder, name));
  const bytes = name.endsWith(".gz") ? gunzipSync(raw) : Buffer.from(raw);
  const perUnit = bytes.readUInt32LE(0) === 0xa1b23c4d ? 1n : 1000n;
  const packets: Packet[] = [];
  for (let at = 24; at + 16 <= bytes.length; ) {
    const timeNs =
      BigInt(bytes.readUInt32LE(at)) * 1_000_000_000n + BigInt(bytes.readUInt32LE(at + 4)) * perUnit;
    const length = bytes.readUInt32LE(at + 8);
    const frame = bytes.subarray(at + 16, at + 16 + length);
    at += 16 + length;
    const type = frame.readUInt16BE(12);
    if (type !== 0x0800 && type !== 0x86dd) continue;
    const ip = Buffer.from(frame.subarray(14, 14 + Math.min(length - 14, 82)));
    if (type === 0x0800) {
      ip[8] = 0;
      ip.writeUInt16BE(0, 10);
    } else ip[7] = 0;
    packets.push({ timeNs, key: ip.toString("latin1"), source: ip.subarray(12, 16).join(".") });
  }
  return packets;
}

function readCsv(name: string): Packet[] {
  const lines = readFileSync(join(folder, name), "utf8").trim().split("\n");
  return lines.map((line) => ({ timeNs: BigInt(line.split(",")[0]!), key: line.split(",")[1]!, source: "" }));
}

/** Equal packets are matched first in, first out; `clock` is added to AFTER's timestamps. */
function judge(
  before: Packet[],
  after: Packet[],
  reverseSource: string | null,
  clock: (t: number) => number,
): ClockVerdict {
  const originNs = before[0]!.timeNs;
  const timestamp = (p: Packet) =>
    Math.round(Number(p.timeNs - originNs) + clock(Number(p.timeNs - originNs)));
  const waiting = new Map<string, Packet[]>();
  for (const p of after) waiting.set(p.key, [...(waiting.get(p.key) ?? []), p]);
  const observer = new ClockObserver();
  for (const p of before) {
    const seen = waiting.get(p.key)?.shift();
    if (!seen) continue;
    const sent = Number(p.timeNs - originNs);
    const time = Float64Array.of(sent);
    const diff = Float64Array.of(timestamp(seen) - sent);
    if (p.source === reverseSource) observer.observeReverse(time, diff, 1);
    else observer.observe(time, diff, 1);
  }
  const quality = { before: new TimestampQuality({ originNs }), after: new TimestampQuality({ originNs }) };
  quality.before.observe(
    Float64Array.from(before, (p) => Number(p.timeNs - originNs)),
    before.length,
  );
  quality.after.observe(Float64Array.from(after, timestamp), after.length);
  return diagnose({ observer, ...quality });
}

type Pair = [string, () => Packet[], () => Packet[], string | null];
const awb = (id: string): Pair => [
  `mininet ${id}`,
  () => readPcap(`awb-mininet/${id}.sender.pcap.gz`),
  () => readPcap(`awb-mininet/${id}.receiver.pcap.gz`),
  "10.0.0.2",
];
const tsn = (run: string): Pair => [
  `TSN bridge ${run}`,
  () => readCsv(`det6g-pd-wired/upstream-${run}-10pkt_per_sec.csv`),
  () => readCsv(`det6g-pd-wired/downstream-${run}-10pkt_per_sec.csv`),
  null,
];
const pairs: Pair[] = [
  ...["0907394c", "267daab8", "5b5f94f3", "c1856a64", "de08ef9a"].map(awb),
  tsn("nocross"),
  tsn("cross900mbps"),
  [
    "Linux router",
    () => readPcap("linux-router/router-busy-in.pcap.gz"),
    () => readPcap("linux-router/router-busy-out.pcap.gz"),
    null,
  ],
];

describe.skipIf(!present)("real captures at two points with one clock", () => {
  test.each(pairs)("%s: no offset, skew or clock step is claimed", (_, before, after, reverse) => {
    const verdict = judge(before(), after(), reverse, () => 0);
    expect(verdict.pairs.forward).toBeGreaterThanOrEqual(500);
    expect(verdict.offset.kind).toBe(verdict.mode === "two-way" ? "none" : "not-measurable");
    expect(verdict.skew!.detected).toBe(false);
    expect(verdict.skew!.lowPpm).toBeLessThanOrEqual(0);
    expect(verdict.skew!.highPpm).toBeGreaterThanOrEqual(0);
    expect(verdict.steps.filter((s) => s.kind !== "delay")).toEqual([]);
    expect(verdict.swapped).toBe(false);
    expect(verdict.trust).not.toBe("unusable");
  });

  test.each(pairs)(
    "%s: an offset of 37 s and a skew of 20 ppm put in are found",
    (_, before, after, reverse) => {
      const verdict = judge(before(), after(), reverse, (t) => 37e9 + 20e-6 * t);
      expect(verdict.offset).toMatchObject({ kind: "tai-utc", estimateNs: 37e9 });
      expect(verdict.skew!.lowPpm).toBeLessThanOrEqual(20);
      expect(verdict.skew!.highPpm).toBeGreaterThanOrEqual(20);
      // The router's queue varies by more than the drift over its whole capture.
      if (!_.includes("router"))
        expect(verdict.skew!.reason).toBe(verdict.mode === "two-way" ? "detected" : "one-direction-only");
    },
  );

  test("the TSN bridge's pcaps are named the wrong way round: every delay is negative, and the order is questioned", () => {
    const verdict = judge(
      readPcap("det6g-pd-wired/upstream-nocross-10pkt_per_sec.pcap"),
      readPcap("det6g-pd-wired/downstream-nocross-10pkt_per_sec.pcap"),
      null,
      () => 0,
    );
    expect(verdict.offset.kind).toBe("constant");
    expect(verdict.negative.share).toBe(1);
    expect(verdict.lines[0]).toContain("wrong order");
  });
});
