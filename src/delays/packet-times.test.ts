/** Frames with timestamps of capture switches, written by hand from the layouts drawn in kernels/maple/packet-times.ts. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { type SmallPacket, writePcap } from "../../tests/support/small-pcap.ts";
import { RecordArchive } from "../archive/archive.ts";
import { Kernels } from "../base/kernels.ts";
import { Random } from "../base/random.ts";
import { CaptureReader } from "../capture/reader.ts";
import { inspectCapture } from "../inspect/inspect.ts";
import { observePoint } from "../observe/observe-point.ts";
import { askArchive } from "../query/segment/ask.ts";
import { type PacketTimeLayout, PacketTimes, type PacketTimesOptions } from "./packet-times.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-packet-times-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const START = 1_700_000_000_000_000_000n;
const SECOND = 1_000_000_000n;

const random = new Random(8);
const noise = (n: number) => Uint8Array.from({ length: n }, () => random.below(256));

/** What a switch adds to a packet that passed it at this time. */
type Adds = (sentNs: bigint) => Pick<SmallPacket, "tags" | "trailer">;

function metamako(sentNs: bigint, { fcs = false, extension = false, padding = 0 } = {}) {
  const tail = Buffer.alloc(12);
  tail.writeUInt32BE(Number(sentNs / SECOND), 0);
  tail.writeUInt32BE(Number(sentNs % SECOND), 4);
  tail[8] = extension ? 3 : 1;
  tail.writeUInt16BE(777, 9);
  tail[11] = 5;
  // Sub-nanoseconds: tag 1, one word of data, the last extension.
  const more = extension ? Uint8Array.of(0x12, 0x34, 0x56, 0x21) : new Uint8Array();
  return {
    trailer: Buffer.concat([
      new Uint8Array(padding),
      noise(4),
      more,
      tail,
      fcs ? noise(4) : new Uint8Array(),
    ]),
  };
}

function exablaze(sentNs: bigint, fcs = false) {
  const tail = Buffer.alloc(16);
  tail.set(noise(4), 0);
  tail[4] = 9;
  tail[5] = 2;
  tail.writeUInt32BE(Number(sentNs / SECOND), 6);
  // Rounded up: the fraction of the next picosecond, never of the previous ns.
  const fraction = ((sentNs % SECOND) * 2n ** 40n + SECOND - 1n) / SECOND;
  tail.writeUIntBE(Number(fraction), 10, 5);
  return { trailer: Buffer.concat([tail, fcs ? noise(4) : new Uint8Array()]) };
}

function arista(sentNs: bigint, { short = false, utc = false, vlan = false } = {}) {
  const seconds = sentNs / SECOND + (utc ? 0n : 37n);
  const out = Buffer.alloc(short ? 12 : 14);
  out.writeUInt16BE(0xd28b, 0);
  out.writeUInt16BE(1, 2);
  out[4] = utc ? 1 : 0;
  out[5] = short ? 0x20 : 0x10;
  if (short) out.writeUInt16BE(Number(seconds & 0xffffn), 6);
  else out.writeUInt32BE(Number(seconds), 6);
  out.writeUInt32BE(Number(sentNs % SECOND), short ? 8 : 10);
  return { tags: vlan ? Buffer.concat([out, Uint8Array.of(0x81, 0, 0, 7)]) : out };
}

/** 2,000 packets of four flows, with delays of 10 us to 3 ms. */
function packetsWith(add: Adds): { packets: SmallPacket[]; delays: number[] } {
  const rng = new Random(3);
  const delays: number[] = [];
  const packets = Array.from({ length: 2000 }, (_, i): SmallPacket => {
    const sentNs = START + BigInt(i) * 500_000n;
    const delay = 10_000 + rng.below(400_000) + (i % 4) * 600_000;
    delays.push(delay);
    const flow = { src: "10.0.0.1", dst: "10.1.0.1", sport: 1000 + (i % 4), dport: 80, ipid: i };
    return { timeNs: sentNs + BigInt(delay), ...flow, payload: noise(3 + (i % 90)), ...add(sentNs) };
  });
  // In order of arrival.
  const order = [...packets.keys()].sort((a, b) => Number(packets[a]!.timeNs - packets[b]!.timeNs));
  return { packets: order.map((i) => packets[i]!), delays: order.map((i) => delays[i]!) };
}

let files = 0;
function write(packets: readonly SmallPacket[]): string {
  const path = join(scratch, `${files++}.pcap`);
  writePcap(path, packets);
  return path;
}

async function read(path: string, options: PacketTimesOptions) {
  const kernels = new Kernels();
  const times = new PacketTimes(kernels, options);
  const reader = await CaptureReader.open(kernels, path, { batchRows: 300 });
  const delays: number[] = [];
  while (await reader.next()) {
    times.fill(reader.batch, reader.originNs ?? 0n);
    delays.push(...reader.batch.delayNs.subarray(0, reader.batch.count));
  }
  const counts = times.counts();
  reader.close();
  reader.free();
  times.free();
  return { delays, counts };
}

const CASES: [string, PacketTimeLayout, Adds][] = [
  ["Metamako trailers", "metamako", (t) => metamako(t)],
  ["Metamako trailers, FCS captured", "metamako", (t) => metamako(t, { fcs: true })],
  [
    "Metamako trailers with extensions behind padding",
    "metamako",
    (t) => metamako(t, { extension: true, padding: 9 }),
  ],
  ["Exablaze trailers", "exablaze", (t) => exablaze(t)],
  ["Exablaze trailers, FCS captured", "exablaze", (t) => exablaze(t, true)],
  ["Arista headers, TAI, 64 bits", "arista", (t) => arista(t)],
  ["Arista headers, UTC, 64 bits", "arista", (t) => arista(t, { utc: true })],
  ["Arista headers, TAI, 48 bits", "arista", (t) => arista(t, { short: true })],
  ["Arista headers in front of a VLAN tag", "arista", (t) => arista(t, { short: true, vlan: true })],
];

describe("one capture at the receiver has every packet's delay", () => {
  test.each(CASES)("%s", async (_, layout, add) => {
    const { packets, delays } = packetsWith(add);
    const path = write(packets);
    const found = await read(path, { layout });
    expect(found.delays).toEqual(delays);
    expect(found.counts).toEqual({ timed: 2000, untimed: 0, apart: 0 });
    const report = await inspectCapture({ file: path });
    expect(report.packetTimes).toEqual({ layout, packets: 2000 });
    expect(report.warnings.join()).toMatch(new RegExp(`‘delays ${layout}’`));
  });

  test("observed, it answers for the segment and for flows", async () => {
    const { packets, delays } = packetsWith((t) => metamako(t));
    const directory = join(scratch, "records");
    const report = await observePoint({
      ...{ files: [write(packets)], point: "B", role: "receiver", directory },
      ...{ estimators: ["maple"], packetTimes: { layout: "metamako" } },
      cut: { mode: "aligned", lengthNs: SECOND },
    });
    expect(report.notes.join()).toMatch(/2,000 packets with a timestamp of their own, 0 without a delay/);
    const answer = askArchive(RecordArchive.open(directory), { between: ["A", "B"], estimators: ["maple"] });
    const mean = delays.reduce((a, b) => a + b, 0) / delays.length;
    expect(answer.estimates["maple"]?.latency?.meanNs).toBeCloseTo(mean, -1);
  });
});

describe("what has no time has no delay", () => {
  test("frames without one, cut ones, and times of another day", async () => {
    const { packets } = packetsWith((t) => metamako(t));
    const plain = packets.map((p, i): SmallPacket => {
      if (i % 4 === 0) return { ...p, trailer: new Uint8Array() };
      if (i % 4 === 1) return { ...p, snap: 50 };
      if (i % 4 === 2) return { ...p, ...metamako(p.timeNs - 86_400n * SECOND) };
      return p;
    });
    const { delays, counts } = await read(write(plain), { layout: "metamako" });
    expect(counts).toEqual({ timed: 500, untimed: 1000, apart: 500 });
    delays.forEach((d, i) => {
      expect(Number.isNaN(d)).toBe(i % 4 !== 3);
    });
  });

  test("nothing is seen where there is nothing, whatever bytes lie behind the packets", async () => {
    const { packets } = packetsWith(() => ({ trailer: noise(20) }));
    expect((await inspectCapture({ file: write(packets) })).packetTimes).toBeNull();
    const { counts } = await read(write(packets), { layout: "exablaze" });
    expect(counts.timed).toBe(0);
  });
});
