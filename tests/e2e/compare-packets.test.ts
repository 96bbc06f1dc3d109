/** Results of `compare` for single packets: the same counts and delays as its report, and frame numbers that tshark confirms. */
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DuckDBInstance } from "@duckdb/node-api";
import { asyncBufferFromFile, parquetReadObjects } from "hyparquet";
import { afterAll, expect, test } from "vitest";
import { type CompareOptions, openComparison } from "../../src/compare/compare.ts";
import type { PacketReport } from "../../src/compare/packets.ts";
import { runCli } from "../support/cli.ts";
import { pcapFile } from "../support/pcap-writer.ts";
import { tsharkVersion } from "../support/tshark.ts";

const HAS_TSHARK = tsharkVersion() !== null;
if (!HAS_TSHARK) console.warn("skipped: frame numbers as tshark gives them (no tshark)");

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

test.skipIf(!HAS_TSHARK)("frame numbers are those of tshark, in both captures", async () => {
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

test("nothing is kept unless requested", async () => {
  const comparison = await openComparison(DEMO);
  expect(comparison.packets).toBeNull();
  comparison.free();
});

const scratch = mkdtempSync(join(tmpdir(), "hoptime-packets-"));
afterAll(() => rmSync(scratch, { recursive: true }));

const hoptime = (...args: string[]) => runCli(args);

test("CSV, JSON Lines and Parquet hold the same packets", async () => {
  const files = ["csv", "jsonl", "parquet"].map((ending) => join(scratch, `p.${ending}`));
  for (const file of files)
    expect(hoptime("compare", DEMO.before, DEMO.after, "--packets", file).status).toBe(0);
  const [csv = "", jsonl = "", parquet = ""] = files;
  const lines = readFileSync(jsonl, "utf8").trimEnd().split("\n");
  const objects = lines.map((line) => JSON.parse(line));
  const [header = "", ...cells] = readFileSync(csv, "utf8").trimEnd().split("\n");
  expect(cells).toEqual(
    objects.map((o) =>
      header
        .split(",")
        .map((name) => o[name] ?? "")
        .join(","),
    ),
  );
  const rows = await parquetReadObjects({ file: await asyncBufferFromFile(parquet) });
  const text = (ns: unknown) => (ns === null ? null : String(ns));
  expect(rows.length).toBe(objects.length);
  rows.forEach(({ sentNs, receivedNs, delayNs, ...rest }, i) => {
    const times = { sentNs: text(sentNs), receivedNs: text(receivedNs) };
    expect({ ...rest, ...times, delayNs: delayNs === null ? null : Number(delayNs) }).toEqual(objects[i]);
  });
  // Differences of the times are the delays to the nanosecond when other programs read the file, too.
  const database = await (await DuckDBInstance.create(":memory:")).connect();
  const read = await database.runAndReadAll(
    `SELECT count(*) AS n FROM '${parquet}' WHERE outcome = 'delivered' AND receivedNs - sentNs = delayNs`,
  );
  expect(read.getRowObjects()).toEqual([{ n: BigInt(objects.filter((o) => o.delayNs !== null).length) }]);
});

test.skipIf(!HAS_TSHARK)(
  "an annotated capture holds every frame, and Wireshark filters by what became of the packet",
  async () => {
    const { all, packets, free } = await packetsOf(DEMO);
    const annotated = join(scratch, "a.pcapng");
    expect(hoptime("compare", DEMO.before, DEMO.after, "--annotate", annotated).status).toBe(0);
    const ids = all.map((p) => p.id);
    const frames = await packets.frames("before", ids);
    const partners = await packets.frames("after", ids);
    const expected = new Map(
      all.map((p, i) => [
        frames?.[i] ?? 0,
        p.delayNs === null
          ? p.outcome
          : `delay ${(p.delayNs / 1e6).toFixed(6)} ms, frame ${partners?.[i]} in AFTER`,
      ]),
    );
    const fields = ["-T", "fields", "-e", "frame.number", "-e", "frame.time_epoch", "-e", "frame.comment"];
    const read = (...args: string[]) =>
      execFileSync("tshark", [...args, ...fields], { encoding: "utf8", maxBuffer: 1 << 26 })
        .trimEnd()
        .split("\n")
        .map((line) => line.split("\t"));
    const [before, after] = [read("-r", DEMO.before), read("-r", annotated)];
    expect(after.map(([n, t]) => [n, t])).toEqual(before.map(([n, t]) => [n, t]));
    for (const [n, , comment = ""] of after) expect(comment).toBe(expected.get(Number(n)) ?? "");
    const lost = read("-r", annotated, "-Y", 'frame.comment == "lost"');
    expect(lost.length).toBe(all.filter((p) => p.outcome === "lost").length);
    // When annotated again, existing comments are kept.
    const again = join(scratch, "b.pcapng");
    expect(hoptime("compare", annotated, DEMO.after, "--annotate", again).status).toBe(0);
    expect(read("-r", again).map(([n, t]) => [n, t])).toEqual(before.map(([n, t]) => [n, t]));
    free();
  },
);

test("--worst names frames of both files", () => {
  const { worst } = JSON.parse(hoptime("compare", DEMO.before, DEMO.after, "--worst", "4", "--json").out);
  expect(worst.slowest.length).toBe(4);
  const delays = worst.slowest.map((p: { delayNs: number }) => p.delayNs);
  expect(delays).toEqual([...delays].sort((a: number, b: number) => b - a));
  for (const p of worst.slowest) expect(p.beforeFrame * p.afterFrame).toBeGreaterThan(0);
  for (const p of worst.lost) expect(p).toMatchObject({ outcome: "lost", afterFrame: null });
});

test.each([
  ["p99>20ms", 1, /p99 is 21\.9\d ms/],
  ["p99>30ms", 0, /^$/],
  ["loss>1%", 1, /loss is 4\.9\d/],
  ["loss>0.2", 0, /^$/],
  ["flow.loss > 3%", 1, /198\.18\.1\.7:43114 .*loss is/],
  ["reverse.loss>0%", 1, /reverse\.loss>0%: no packet goes from the second capture to the first/],
  ["loss>=1", 0, /^$/],
  ["loss>1", 2, /--fail-if: invalid value 'loss>1'/],
  ["p99>20", 2, /--fail-if: invalid value 'p99>20'/],
  ["speed>20", 2, /measures: packets, sent/],
])("--fail-if '%s' exits %i", (condition, status, message) => {
  const run = hoptime("compare", DEMO.before, DEMO.after, "--fail-if", condition);
  expect(run.status).toBe(status);
  expect(run.err).toMatch(message);
});

test("--fail-if about flows fails where there is none", () => {
  const run = hoptime("compare", DEMO.before, DEMO.after, "--filter", "port 9", "--fail-if", "flow.loss>90%");
  expect(run).toMatchObject({ status: 1, err: expect.stringContaining("flow.loss>90%: there is no flow") });
});

test.each(["flow.loss>1%", "flow.p99>1ms", "lost>0", "loss>1%", "reverse.lost>0"])(
  "--fail-if %s fails where the second capture is empty",
  (condition) => {
    const empty = join(scratch, "empty.pcap");
    writeFileSync(empty, pcapFile([]));
    expect(hoptime("compare", DEMO.before, empty, "--fail-if", condition).status).toBe(1);
  },
);

test("--prometheus writes what the exposition format allows", () => {
  const file = join(scratch, "hoptime.prom");
  expect(hoptime("compare", DEMO.before, DEMO.after, "--prometheus", file).status).toBe(0);
  const text = readFileSync(file, "utf8");
  for (const line of text.trimEnd().split("\n"))
    expect(line).toMatch(
      /^(# (HELP|TYPE) hoptime_\w+ .+|hoptime_\w+\{(\w+="([^"\\\n]|\\.)*",?)+\} [-+.e\d]+)$/,
    );
  expect(text).toMatch(/hoptime_delay_seconds\{.*direction="forward",stat="p99"\} 0\.02\d+/);
  const families = text.match(/# TYPE (\w+)/g) ?? [];
  expect(new Set(families).size).toBe(families.length);
});

test("a capture is not overwritten, and any number of flows is printed", () => {
  const copy = join(scratch, "copy.pcap.gz");
  copyFileSync(DEMO.before, copy);
  expect(hoptime("compare", copy, DEMO.after, "--annotate", copy).err).toMatch(/is one of the captures/);
  expect(readFileSync(copy)).toEqual(readFileSync(DEMO.before));
  const { status, out } = hoptime("compare", DEMO.before, DEMO.after, "--top", "200000", "--sort", "loss");
  expect(status).toBe(0);
  expect(out).toMatch(/flows by loss/);
});

test.each(["bytes", "jitter", "p90", "p99.9", "matched", "reordered"])(
  "the table shows what it is sorted by: %s",
  (column) => {
    const { out } = hoptime("compare", DEMO.before, DEMO.after, "--sort", column, "--top", "3");
    const [, title = "", ...rows] = (/flows by .*?\n\n/s.exec(out)?.[0] ?? "").trimEnd().split("\n");
    expect(title.trimEnd().endsWith(column)).toBe(true);
    expect(rows).toHaveLength(3);
  },
);
