/**
 * Captures of a router's two interfaces contain both directions: they are separated, or refused with a suggested filter, and both ways give the right answer.
 */
import { execFile, execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import type { UsageError } from "../../src/base/errors.ts";
import { usageLine } from "../../src/cli/flags.ts";
import { type ObservePointOptions, observePoint } from "../../src/observe/observe-point.ts";
import { askArchive } from "../../src/query/segment/ask.ts";
import { frame, pcapHeader, type SmallPacket } from "../support/small-pcap.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-two-way-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const START = 1_700_000_000_000_000_000n;
const THERE_NS = 17_200_000n;
const BACK_NS = 9_400_000n;

interface Seen extends SmallPacket {
  /** At this point's interface. */
  way: "inbound" | "outbound";
  /** By the second point's clock. */
  shifted?: boolean;
}

/** Clients behind interface A send requests to servers behind B, which answer; both interfaces see every packet once. */
function router(): { a: Seen[]; b: Seen[] } {
  const [a, b]: [Seen[], Seen[]] = [[], []];
  for (let n = 0; n < 3000; n++) {
    const timeNs = START + BigInt(n) * 3_000_000n;
    const client = `198.18.${1 + (n % 3)}.${10 + (n % 40)}`;
    const server = `203.0.113.${5 + (n % 7)}`;
    const ask = { src: client, dst: server, sport: 2000 + (n % 100), dport: 443, ipid: n };
    a.push({ ...ask, timeNs, ttl: 64, way: "inbound" });
    b.push({ ...ask, timeNs: timeNs + THERE_NS, ttl: 63, way: "outbound", shifted: true });
    const answer = { src: server, dst: client, sport: 443, dport: 2000 + (n % 100), ipid: 7 * n };
    const backNs = timeNs + THERE_NS + 500_000n;
    b.push({ ...answer, timeNs: backNs, ttl: 57, way: "inbound", shifted: true });
    a.push({ ...answer, timeNs: backNs + BACK_NS, ttl: 56, way: "outbound" });
  }
  const byTime = (x: Seen, y: Seen) => (x.timeNs < y.timeNs ? -1 : 1);
  return { a: a.sort(byTime), b: b.sort(byTime) };
}

/** Pairs of hosts that have nothing in common with other pairs, all with the same number of hops. */
function alike(): Seen[] {
  const out: Seen[] = [];
  for (let n = 0; n < 1000; n++) {
    const pair = n % 50;
    const [one, other] = [`${20 + pair}.${7 * pair}.3.4`, `${120 + pair}.${3 * pair}.5.6`];
    const [src, dst] = n % 100 < 50 ? [one, other] : [other, one];
    const timeNs = START + BigInt(n) * 1_000_000n;
    out.push({ src, dst, sport: 1000, dport: 1000, ipid: n, timeNs, ttl: 60, way: "inbound" });
  }
  return out;
}

const RECORD = 16;
const ETHERNET = 14;

/** Linux cooked: the format of `tcpdump -i any`. */
function cooked(packets: readonly Seen[]): Buffer {
  const head = pcapHeader();
  head.writeUInt32LE(113, 20);
  const frames = packets.map((packet) => {
    const bytes = frame(packet);
    const ip = bytes.subarray(RECORD + ETHERNET);
    const link = Buffer.alloc(16);
    link.writeUInt16BE(packet.way === "outbound" ? 4 : 0, 0);
    link.writeUInt16BE(0x0800, 14);
    const record = Buffer.from(bytes.subarray(0, RECORD));
    record.writeUInt32LE(16 + ip.length, 8);
    record.writeUInt32LE(16 + ip.length, 12);
    return Buffer.concat([record, link, ip]);
  });
  return Buffer.concat([head, ...frames]);
}

/** pcapng with epb_flags: written by dumpcap if the interface provides them. */
function pcapng(packets: readonly Seen[]): Buffer {
  const block = (type: number, body: Buffer) => {
    const total = 12 + body.length;
    const out = Buffer.alloc(total);
    out.writeUInt32LE(type, 0);
    out.writeUInt32LE(total, 4);
    body.copy(out, 8);
    out.writeUInt32LE(total, total - 4);
    return out;
  };
  const section = Buffer.alloc(16);
  section.writeUInt32LE(0x1a2b3c4d, 0);
  section.writeUInt16LE(1, 4);
  section.writeBigInt64LE(-1n, 8);
  // if_tsresol 9: nanoseconds.
  const iface = Buffer.from([1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
  const blocks = packets.map((packet) => {
    const data = frame(packet).subarray(RECORD);
    const padded = Buffer.alloc((data.length + 3) & ~3);
    data.copy(padded);
    const head = Buffer.alloc(20);
    head.writeUInt32LE(Number(packet.timeNs >> 32n), 4);
    head.writeUInt32LE(Number(packet.timeNs & 0xffff_ffffn), 8);
    head.writeUInt32LE(data.length, 12);
    head.writeUInt32LE(data.length, 16);
    const options = Buffer.alloc(12);
    options.writeUInt16LE(2, 0);
    options.writeUInt16LE(4, 2);
    options.writeUInt32LE(packet.way === "inbound" ? 1 : 2, 4);
    return block(6, Buffer.concat([head, padded, options]));
  });
  return Buffer.concat([block(0x0a0d0d0a, section), block(1, iface), ...blocks]);
}

const plain = (packets: readonly Seen[]) => Buffer.concat([pcapHeader(), ...packets.map(frame)]);

let number = 0;
function setUp(write: (packets: readonly Seen[]) => Buffer) {
  const { a, b } = router();
  const name = `${number++}`;
  const directory = join(root, `records-${name}`);
  const file = (point: string) => join(root, `${name}-${point}`);
  writeFileSync(file("A"), write(a));
  writeFileSync(file("B"), write(b));
  const observe = (point: string, change: Partial<ObservePointOptions> = {}) =>
    observePoint({
      files: [file(point)],
      ...{ point, directory, estimators: ["lda", "lds"] },
      cut: { mode: "aligned", lengthNs: 1_000_000_000n },
      ...change,
    });
  const mean = (between: [string, string]) => {
    const answer = askArchive(RecordArchive.open(directory), { between });
    return answer.estimates["lda"]?.latency;
  };
  return { directory, observe, mean, file };
}

const refusal = async (run: Promise<unknown>): Promise<string> =>
  usageLine(
    await run.then(
      () => {
        throw new Error("it was not refused");
      },
      (error: UsageError) => error,
    ),
  );

function expectMean(mean: unknown, trueNs: bigint): void {
  const { meanNs: valueNs, lowNs, highNs } = mean as { meanNs: number; lowNs: number; highNs: number };
  expect(Math.abs(valueNs - Number(trueNs))).toBeLessThan(0.02 * Math.abs(Number(trueNs)));
  expect(lowNs).toBeLessThanOrEqual(Number(trueNs) + 1);
  expect(highNs).toBeGreaterThanOrEqual(Number(trueNs) - 1);
}

describe("a capture of both directions", () => {
  it.each([
    ["plain", plain],
    ["Linux cooked", cooked],
    ["pcapng with epb_flags", pcapng],
  ])("is separated by the networks of one side, the same at both points (%s)", async (_, write) => {
    const { observe, mean } = setUp(write);
    for (const point of ["A", "B"]) {
      const report = await observe(point);
      // The clients are on the near side: their packets have not passed a router yet.
      expect(report.lanes.map((l) => [l.segment, l.packets])).toEqual([
        ["from 198.18.0.0/22", 3000],
        ["to 198.18.0.0/22", 3000],
      ]);
      expect(report.notes.join()).toMatch(/both directions, separated by the networks of one side/);
    }
    expectMean(mean(["A", "B"]), THERE_NS);
    expectMean(mean(["B", "A"]), BACK_NS);
  });

  it.each([-300_000_000n, 300_000_000n])(
    "the direction asked for is found whatever the clocks say (%s ns)",
    async (offsetNs) => {
      const shift = (packets: readonly Seen[]) =>
        plain(packets.map((p) => (p.shifted ? { ...p, timeNs: p.timeNs + offsetNs } : p)));
      const { observe, mean } = setUp(shift);
      const cut = { mode: "delimited", every: 500 } as const;
      for (const point of ["A", "B"]) await observe(point, { cut });
      expectMean(mean(["A", "B"]), THERE_NS + offsetNs);
      expectMean(mean(["B", "A"]), BACK_NS - offsetNs);
    },
  );

  it("is refused with the networks of either side where it can be read only once; nothing is left behind", async () => {
    const { directory, observe, mean, file } = setUp(plain);
    const pipe = `${file("A")}.pipe`;
    execFileSync("mkfifo", [pipe]);
    const feeding = execFile("dd", [`if=${file("A")}`, `of=${pipe}`, "bs=1M"]);
    const line = await refusal(observe("A", { files: [pipe] }));
    feeding.kill();
    expect(line).toMatch(/^the capture has packets of both directions, and a segment has one; choose one/);
    expect(existsSync(directory)).toBe(false);
    const filters = [...line.matchAll(/--filter '([^']+)'/g)].map((m) => m[1] ?? "");
    expect(filters).toEqual(["src net 198.18.0.0/22", "dst net 198.18.0.0/22"]);
    const [there = "", back = ""] = filters;
    for (const point of ["A", "B"]) await observe(point, { filter: there });
    expectMean(mean(["A", "B"]), THERE_NS);
    rmSync(directory, { recursive: true });
    for (const point of ["A", "B"]) await observe(point, { filter: back });
    expectMean(mean(["B", "A"]), BACK_NS);
  });

  it("a point that sees one direction only is separated as the others are", async () => {
    const { observe, mean } = setUp(plain);
    await observe("A");
    const report = await observe("B", { filter: "src net 198.18.0.0/16" });
    expect(report.lanes.map((l) => l.packets)).toEqual([3000, 0]);
    expectMean(mean(["A", "B"]), THERE_NS);
  });

  it("is refused where hosts of both sides look alike", async () => {
    const { observe } = setUp(() => plain(alike()));
    expect(await refusal(observe("A"))).toMatch(/packets of both directions/);
  });

  it("is separated by segments that are defined, and refused where one is two-way itself", async () => {
    const { directory, observe } = setUp(plain);
    const segments = ["A:B=src net 198.18.0.0/16", "B:A=dst net 198.18.0.0/16"];
    for (const point of ["A", "B"]) await observe(point, { segments });
    const ask = (between: [string, string], segment: string) =>
      askArchive(RecordArchive.open(directory), { between, segment }).estimates["lda"]?.latency;
    expectMean(ask(["A", "B"], "A:B"), THERE_NS);
    expectMean(ask(["B", "A"], "B:A"), BACK_NS);
    expect(await refusal(observe("A", { classes: ["web=tcp or udp port 443"] }))).toMatch(
      /^web: its filter matches packets of both directions/,
    );
  });

  it("is counted together on request", async () => {
    const { observe } = setUp(plain);
    const report = await observe("A", { bothWays: true });
    expect(report.lanes[0]?.packets).toBe(6000);
  });
});
