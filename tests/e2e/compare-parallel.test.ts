/** Compare in two threads, as built: the report is the same byte for byte for all kinds of captures, and errors of the other thread are reported. */
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { generateCaptures } from "../../bench/generate-captures.ts";
import type { CompareOptions } from "../../src/compare/compare.ts";
import { DEMO, ROOT, readFrames } from "../support/demo-captures.ts";
import { PcapngWriter } from "../support/pcap-writer.ts";

const built = (file: string) => import(pathToFileURL(join(ROOT, "dist", file)).href);
const { compareCaptures, compareInTurn } = (await built(
  "compare/compare.js",
)) as typeof import("../../src/compare/compare.ts");
const { FeedThread } = (await built(
  "match/parallel-feed.js",
)) as typeof import("../../src/match/parallel-feed.ts");
const { worthParallel } = (await built(
  "match/feed-thread.js",
)) as typeof import("../../src/match/feed-thread.ts");

const scratch = mkdtempSync(join(tmpdir(), "hoptime-parallel-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const path = (name: string) => join(scratch, name);

const PACKETS = 60_000;
const pair = { before: path("before.pcap"), after: path("after.pcap") };
beforeAll(() => {
  generateCaptures({
    packets: PACKETS,
    beforeFile: pair.before,
    afterFile: pair.after,
    seed: 4,
    loss: 0.01,
    ipv6Share: 0.2,
    vlanShare: 0.1,
  });
});

async function bothWays(options: CompareOptions): Promise<string> {
  const [direct, parallel] = [
    JSON.stringify(await compareCaptures({ ...options, parallel: false })),
    JSON.stringify(await compareCaptures({ ...options, parallel: true })),
  ];
  expect(parallel).toBe(direct);
  return parallel;
}

/** The demo's packets as pcapng, alternating between two interfaces of different resolution. */
function asPcapng(file: string, to: string): string {
  const writer = new PcapngWriter().section().interface({ resolution: 9 }).interface({ resolution: 6 });
  for (const [i, { ns, data, wire }] of readFrames(file).entries()) {
    const interfaceId = i % 2;
    writer.enhanced({ interfaceId, ticks: interfaceId === 0 ? ns : ns / 1000n, frame: data, wire });
  }
  writeFileSync(to, writer.statistics(0, 3n).done());
  return to;
}

describe("compare in two threads", () => {
  test("says what compare in one thread says", async () => {
    const report = JSON.parse(await bothWays(pair));
    expect(report.segment.sent).toBe(PACKETS);
    expect(report.segment.matched).toBeGreaterThan(0.9 * PACKETS);
  });

  test("with other keys, filters, windows and few flows shown", async () => {
    await bothWays({ ...pair, key: "src/16,dst", filter: "tcp or ip6", windowNs: 2e6 });
    await bothWays({ ...pair, filter: "udp and not vlan", flows: { top: 7, sort: "lost" } });
  });

  test("where the first packets show that it must start again: cut short, or from the other side", async () => {
    const short = { before: path("short-before.pcap"), after: path("short-after.pcap") };
    generateCaptures({ packets: 90_000, beforeFile: short.before, afterFile: short.after, snapLength: 80 });
    const report = JSON.parse(await bothWays(short));
    expect(report.options.digestCoverBytes).toBe(66);
    // By their timestamps, all packets arrive before they are sent.
    const turned = JSON.parse(await bothWays({ before: short.after, after: short.before }));
    expect(turned.segment.latency.maxNs).toBeLessThan(0);
  });

  test("on gzip, on captures that are cut within a record, and on both", async () => {
    const zipped = path("zipped.pcap.gz");
    writeFileSync(zipped, gzipSync(readFileSync(pair.before), { level: 1 }));
    await bothWays({ before: zipped, after: pair.after });
    const cut = path("cut.pcap");
    writeFileSync(cut, readFileSync(pair.after));
    truncateSync(cut, 3_000_001);
    const report = JSON.parse(await bothWays({ before: pair.before, after: cut }));
    expect(report.after.partial).toContain("cut.pcap");
    const half = path("half.pcap.gz");
    writeFileSync(half, readFileSync(zipped).subarray(0, 1_000_000));
    await bothWays({ before: half, after: cut });
  });

  test("on pcapng with several interfaces, both directions, and clocks that are corrected", async () => {
    const ng = {
      before: asPcapng(DEMO.before, path("a.pcapng")),
      after: asPcapng(DEMO.after, path("b.pcapng")),
    };
    await bothWays(ng);
    await bothWays({ ...DEMO, clock: "deskew" });
    await bothWays({ ...DEMO, clock: "relative" });
    await bothWays({ before: DEMO.after, after: DEMO.before });
  });

  test("of several pairs in turn, read by one thread, says what it says of each alone", async () => {
    const pairs: CompareOptions[] = [
      pair,
      { before: pair.after, after: pair.before },
      { ...pair, key: "src/16", filter: "tcp", parallel: false },
      { ...DEMO, clock: "deskew" },
      pair,
    ];
    const alone = await Promise.all(pairs.map((p) => compareCaptures({ ...p, parallel: false })));
    const inTurn = await compareInTurn(pairs.map((p) => ({ parallel: true, ...p })));
    expect(inTurn.map((r) => JSON.stringify(r))).toEqual(alone.map((r) => JSON.stringify(r)));
    const missing = { before: pair.before, after: path("nowhere.pcap"), parallel: true };
    await expect(compareInTurn([{ ...pair, parallel: true }, missing])).rejects.toMatchObject({
      code: "no-such-file",
    });
  });

  test("reports its progress to the end", async () => {
    const counts: number[] = [];
    await compareCaptures({ ...pair, parallel: true, onProgress: (_, __, n) => counts.push(n) });
    expect(counts.at(-1)).toBeGreaterThan(1.9 * PACKETS);
  });

  test("is for large files only, and not for standard input", () => {
    expect(worthParallel(pair.before, pair.after)).toBe(false);
    expect(worthParallel("-", pair.after)).toBe(false);
    expect(worthParallel(path("nowhere.pcap"), pair.after)).toBe(false);
  });
});

describe("the reading thread", () => {
  const plan = { capture: {}, alignNs: 0, leadNs: 1e6, windowNs: 10e9, limit: Number.POSITIVE_INFINITY };
  test("sends its errors as they are, and serves the next feed", async () => {
    const thread = FeedThread.start()!;
    await expect(
      thread.open({ ...plan, before: path("nowhere.pcap"), after: pair.after }, undefined),
    ).rejects.toMatchObject({ name: "UsageError", code: "no-such-file" });
    writeFileSync(path("text.pcap"), "this is no capture at all, whatever its name may say");
    await expect(
      thread.open({ ...plan, before: path("text.pcap"), after: pair.after }, undefined),
    ).rejects.toMatchObject({
      name: "FormatError",
      code: "unknown-format",
      file: path("text.pcap"),
      offset: 0,
    });
    const feed = await thread.open({ ...plan, ...pair }, undefined);
    let rows = 0;
    for (let stride = await feed.next(); stride !== null; stride = await feed.next()) {
      if (stride.kind === "rows") rows += stride.to - stride.from;
    }
    const { statistics } = await feed.finish();
    expect(rows).toBe(statistics[0].ipPackets + statistics[1].ipPackets);
    await thread.close();
  });
});
