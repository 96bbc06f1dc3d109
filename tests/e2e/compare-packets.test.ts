/** What `compare` says of single packets: the same counts and delays as its report, and frame numbers that tshark agrees with. */
import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { type CompareOptions, openComparison } from "../../src/compare/compare.ts";
import type { PacketReport } from "../../src/compare/packets.ts";

const DEMO = { before: "demo/router-in.pcap.gz", after: "demo/router-out.pcap.gz" };

async function packetsOf(options: CompareOptions) {
  const comparison = await openComparison({ ...options, everyPacket: true });
  const report = comparison.view("all");
  const { packets } = comparison;
  if (!packets) throw new Error("no packets");
  return { report, packets, all: [...packets.table], free: () => comparison.free() };
}

const count = (all: PacketReport[], outcome: string, direction: string) =>
  all.filter((p) => p.outcome === outcome && p.direction === direction).length;

test.each([
  {},
  { clock: "deskew" as const },
  { clock: "relative" as const },
  { filter: "tcp" },
  { key: "hosts" },
  { before: DEMO.after, after: DEMO.before },
  { parallel: true },
])("every packet is there once, with what the report counts: %j", async (options) => {
  const { report, all, free } = await packetsOf({ ...DEMO, ...options });
  for (const [way, segment] of [
    ["forward", report.segment],
    ["reverse", report.reverse],
  ] as const) {
    const of = all.filter((p) => p.direction === way);
    if (segment === null) {
      expect(of).toEqual([]);
      continue;
    }
    expect(count(all, "delivered", way)).toBe(segment.matched);
    expect(count(all, "lost", way)).toBe(segment.lost);
    expect(count(all, "appeared", way)).toBe(segment.appeared);
    expect(count(all, "duplicate", way)).toBe(segment.duplicates);
    expect(count(all, "not-captured", way)).toBe(segment.head + segment.tail);
    const delays = of.flatMap((p) => (p.delayNs === null ? [] : [p.delayNs]));
    const mean = delays.reduce((sum, d) => sum + d, 0) / delays.length;
    expect(mean).toBeCloseTo(segment.latency?.meanNs ?? Number.NaN, 0);
    expect(Math.max(...delays)).toBe(segment.latency?.maxNs);
  }
  const times = all.map((p) =>
    p.direction === "forward" ? (p.sentNs ?? p.receivedNs) : (p.receivedNs ?? p.sentNs),
  );
  expect(times.every((t) => t !== null)).toBe(true);
  free();
});

test("frame numbers are those of tshark, in both captures", async () => {
  const { packets, all, free } = await packetsOf({ ...DEMO, filter: "udp" });
  const chosen = all.filter((_, i) => i % 7 === 0);
  const ids = chosen.map((p) => p.id);
  for (const side of ["before", "after"] as const) {
    const frames = await packets.frames(side, ids);
    const lines = execFileSync(
      "tshark",
      ["-r", DEMO[side], "-T", "fields", "-e", "frame.number", "-e", "frame.time_epoch", "-e", "udp.srcport"],
      { encoding: "utf8", maxBuffer: 1 << 26 },
    );
    const known = new Map(
      lines.split("\n").map((line) => {
        const [frame, time, port] = line.split("\t");
        return [Number(frame), { ns: BigInt((time ?? "0").replace(".", "").padEnd(19, "0")), port }];
      }),
    );
    chosen.forEach((p, i) => {
      const seenNs = (p.direction === "forward") === (side === "before") ? p.sentNs : p.receivedNs;
      const frame = known.get(frames?.[i] ?? 0);
      if (seenNs === null) expect(frames?.[i]).toBe(0);
      else {
        expect(frame?.ns).toBe(seenNs);
        expect(frame?.port).toBe(String(packets.table.key(p.flow).sport));
      }
    });
  }
  free();
});

test("without being asked for nothing is kept", async () => {
  const comparison = await openComparison(DEMO);
  expect(comparison.packets).toBeNull();
  comparison.free();
});
