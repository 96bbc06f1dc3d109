import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { type SmallPacket, writePcap } from "../../tests/support/small-pcap.ts";
import { Kernels } from "../base/kernels.ts";
import { Random } from "../base/random.ts";
import { CaptureReader } from "../capture/reader.ts";
import { SenderDelays, type SenderDelaysOptions } from "./sender-delays.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-sender-delays-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const START = 1_700_000_000_000_000_000n;

const packet = (n: number, timeNs: bigint): SmallPacket => ({
  timeNs,
  src: "10.0.0.1",
  dst: "10.0.0.2",
  sport: 1,
  dport: 2,
  ipid: n & 0xffff,
});

let number = 0;
function write(packets: readonly SmallPacket[]): string {
  const path = join(root, `${number++}.pcap`);
  writePcap(
    path,
    [...packets].sort((a, b) => (a.timeNs < b.timeNs ? -1 : 1)),
  );
  return path;
}

/** Delays of the receiver's rows in file order. */
async function delaysOf(files: string[], after: string, options: Partial<SenderDelaysOptions> = {}) {
  const kernels = new Kernels();
  const delays = new SenderDelays(kernels, { files, capture: {}, windowNs: 1e9, ...options });
  const reader = await CaptureReader.open(kernels, after, { batchRows: 64 });
  const out: number[] = [];
  while (await reader.next()) {
    await delays.fill(reader.batch, reader.originNs!);
    out.push(...reader.batch.delayNs.subarray(0, reader.batch.count));
  }
  const counts = delays.counts();
  reader.close();
  delays.free();
  return { delays: out, counts };
}

describe("delays from the sender's capture", () => {
  test("tens of thousands of packets that look the same take no longer than others, and meet in order", async () => {
    const count = 40_000;
    const at = (i: number) => START + BigInt(i) * 10_000n;
    const all = (ns: bigint) => Array.from({ length: count }, (_, i) => packet(1, at(i) + ns));
    const [before, after] = [write(all(0n)), write(all(50_000n))];
    const from = process.cpuUsage();
    const { delays, counts } = await delaysOf([before], after);
    const { user } = process.cpuUsage(from);
    expect(counts.matched).toBe(count);
    expect(delays.every((d) => d === 50_000)).toBe(true);
    // It took ten seconds when each search walked through all of them.
    expect(user / 1e6).toBeLessThan(3);
  });

  test("equal packets among others, lost and overtaken ones: the oldest that waits within the window, as a slow search finds it", async () => {
    const random = new Random(12);
    for (let round = 0; round < 20; round++) {
      const sent = Array.from({ length: 400 }, (_, i) => ({
        kind: random.uint32() % 6,
        at: i * 5_000_000 + (random.uint32() % 1000),
      }));
      const windowNs = 100e6;
      // In order of sending: overtaken packets have another digest.
      const received = sent
        .filter(() => random.float() > 0.1)
        .map(({ kind, at }) => ({ kind, at: at + 1e6 * (1 + kind) }))
        .sort((a, b) => a.at - b.at);
      const frame = ({ kind, at }: { kind: number; at: number }) => packet(kind, START + BigInt(at));
      const { delays } = await delaysOf([write(sent.map(frame))], write(received.map(frame)), { windowNs });
      const waits = sent.map((p) => ({ ...p, taken: false }));
      const wanted = received.map(({ kind, at }) => {
        const found = waits.find((p) => !p.taken && p.kind === kind && Math.abs(p.at - at) <= windowNs);
        // A negative delay belongs to a later packet.
        if (!found || found.at > at) return Number.NaN;
        found.taken = true;
        return at - found.at;
      });
      expect(delays).toEqual(wanted);
    }
  });

  test("every packet has its own, whatever overtakes whatever; packets never sent have none", async () => {
    const random = new Random(3);
    const sent = Array.from({ length: 3000 }, (_, n) => packet(n, START + BigInt(n) * 100_000n));
    const truth = new Map<bigint, number>();
    const received = sent
      .filter((_, n) => n % 11 !== 0)
      .map((p) => {
        const delay = 1000 + random.below(5_000_000);
        truth.set(p.timeNs + BigInt(delay), delay);
        return { ...p, timeNs: p.timeNs + BigInt(delay) };
      });
    const foreign = [40_001, 40_002].map((n) => packet(n, START + BigInt(n)));
    const arrivals = [...received, ...foreign].sort((a, b) => (a.timeNs < b.timeNs ? -1 : 1));
    // The sender's capture in two files.
    const files = [write(sent.slice(0, 1200)), write(sent.slice(1200))];
    const { delays, counts } = await delaysOf(files, write(arrivals));
    expect(delays).toEqual(arrivals.map((p) => truth.get(p.timeNs) ?? Number.NaN));
    expect(counts).toMatchObject({ matched: received.length, unmatched: 2, reversed: 0, windowNs: 1e9 });
    expect(counts.longestNs).toBe(Math.max(...truth.values()));
  });

  test("equal packets are matched first in, first out", async () => {
    const sent = [0n, 10n, 20n].map((ms) => packet(7, START + ms * 1_000_000n));
    const received = [5n, 17n, 21n].map((ms) => packet(7, START + ms * 1_000_000n));
    const { delays } = await delaysOf([write(sent)], write(received));
    expect(delays).toEqual([5e6, 7e6, 1e6]);
  });

  test("beyond the window there is no partner", async () => {
    const { delays } = await delaysOf(
      [write([packet(1, START), packet(2, START)])],
      write([packet(1, START + 999n), packet(2, START + 1001n)]),
      {
        windowNs: 1000,
      },
    );
    expect(delays).toEqual([999, Number.NaN]);
  });

  // True delays 100 to 300 us forward, 150 to 350 us back; 20 packets per millisecond.
  function twoWay(options: { offsetNs: (atNs: number) => number; hops: number; count?: number }) {
    const random = new Random(11);
    const [before, after]: [SmallPacket[], SmallPacket[]] = [[], []];
    const truth: number[] = [];
    for (let n = 0; n < (options.count ?? 4000); n++) {
      const there = random.below(2) === 1;
      const host = random.below(40);
      const [near, far] = [`10.1.0.${host}`, `10.2.0.${host}`];
      const at = n * 50_000;
      const ends = there ? { src: far, dst: near } : { src: near, dst: far };
      const base = { ...packet(n, 0n), ...ends, ttl: 64 };
      const delay = (there ? 150_000 : 100_000) + random.below(200_000);
      const passed = { ...base, ttl: 64 - options.hops };
      const clock = (ns: number) => START + BigInt(Math.round(ns + options.offsetNs(ns)));
      if (there) {
        after.push({ ...base, timeNs: clock(at) });
        before.push({ ...passed, timeNs: START + BigInt(at + delay) });
      } else {
        before.push({ ...base, timeNs: START + BigInt(at) });
        after.push({ ...passed, timeNs: clock(at + delay) });
      }
      const received = after.at(-1)!.timeNs;
      truth.push(there ? Number.NaN : Number(received - before.at(-1)!.timeNs));
    }
    const order = after.map((p, i) => ({ p, i })).sort((a, b) => Number(a.p.timeNs - b.p.timeNs));
    return { before, after: order.map((o) => o.p), truth: order.map((o) => truth[o.i]!) };
  }

  const CLOCKS: [string, (atNs: number) => number][] = [
    ["in step", () => 0],
    ["50 us behind", () => -50_000],
    ["50 us ahead", () => 50_000],
    ["250 ms behind", () => -250e6],
    ["250 ms ahead", () => 250e6],
    ["gaining 100 ppm", (ns) => 1e-4 * ns],
    ["losing 200 ppm", (ns) => -2e-4 * ns],
  ];
  for (const [name, offsetNs] of CLOCKS) {
    test(`a router's capture of both directions, the clock ${name}: only packets from the sender have a delay`, async () => {
      const { before, after, truth } = twoWay({ offsetNs, hops: 1 });
      const { delays, counts } = await delaysOf([write(before)], write(after));
      expect(delays).toEqual(truth);
      expect(counts.reversed).toBe(truth.filter(Number.isNaN).length);
      expect(counts.unmatched).toBe(0);
    });

    test(`the same through a bridge, where only answers show the direction, the clock ${name}`, async () => {
      const { before, after, truth } = twoWay({ offsetNs, hops: 0 });
      const { delays } = await delaysOf([write(before)], write(after));
      // The first packets of a capture have not been answered yet; batches of 64 contain few answers.
      expect(delays.slice(256)).toEqual(truth.slice(256));
    });

    test(`one direction alone, the clock ${name}: every delay is kept, negative or not`, async () => {
      const random = new Random(5);
      const sent = Array.from({ length: 2000 }, (_, n) => packet(n, START + BigInt(n) * 50_000n));
      const received = sent.map((p) => {
        const at = Number(p.timeNs - START) + 10_000 + random.below(300_000);
        return { ...p, timeNs: START + BigInt(Math.round(at + offsetNs(at))) };
      });
      const truth = new Map(sent.map((p, n) => [p.ipid, Number(received[n]!.timeNs - p.timeNs)]));
      const order = [...received].sort((a, b) => Number(a.timeNs - b.timeNs));
      const { delays, counts } = await delaysOf([write(sent)], write(received));
      expect(delays).toEqual(order.map((p) => truth.get(p.ipid)));
      expect(counts).toMatchObject({ matched: 2000, unmatched: 0, reversed: 0 });
    });
  }

  test("one wild timestamp takes only its own packet's delay away", async () => {
    const sent = Array.from({ length: 1000 }, (_, n) => packet(n, START + BigInt(n) * 10_000_000n));
    for (const yearsAhead of [3n, -50n]) {
      const received = sent.map((p, n) => ({
        ...p,
        timeNs: n === 500 ? p.timeNs + yearsAhead * 31_536_000_000_000_000n : p.timeNs + 2_000_000n,
      }));
      const path = join(root, `${number++}.pcap`);
      writePcap(path, received);
      const { delays } = await delaysOf([write(sent)], path);
      expect(delays).toEqual(sent.map((_, n) => (n === 500 ? Number.NaN : 2e6)));
    }
  });

  test.each([500, 0, 999])(
    "a wild timestamp at the sender, packet %i, takes only that packet's delay away",
    async (wild) => {
      const received = Array.from({ length: 1000 }, (_, n) => packet(n, START + BigInt(n) * 10_000_000n));
      for (const yearsAhead of [3n, -50n]) {
        const sent = received.map((p, n) => ({
          ...p,
          timeNs: n === wild ? p.timeNs + yearsAhead * 31_536_000_000_000_000n : p.timeNs - 2_000_000n,
        }));
        const path = join(root, `${number++}.pcap`);
        writePcap(path, sent);
        const { delays } = await delaysOf([path], write(received));
        expect(delays).toEqual(received.map((_, n) => (n === wild ? Number.NaN : 2e6)));
      }
    },
  );

  test("a repeated packet whose own partner is missing is not given the next one's", async () => {
    const sent = Array.from({ length: 400 }, (_, n) => packet(n, START + BigInt(n) * 1_000_000n));
    const beat = (ms: number) => packet(50_000, START + BigInt(ms) * 1_000_000n);
    const beats = [100, 200, 300].map(beat);
    const received = [...sent, ...beats, beat(50)].map((p) => ({ ...p, timeNs: p.timeNs + 400_000n }));
    const { delays } = await delaysOf([write([...sent, ...beats])], write(received));
    expect(delays.filter((d) => d !== 400_000)).toEqual([Number.NaN]);
  });

  test("packets that are sent again, looking the same, have the delay of the one that arrived", async () => {
    const random = new Random(19);
    // A queue that fills and drains; a third of the packets is lost, and retransmitted after a round trip or more, up to three times.
    const delayNs = (ms: number) =>
      8_000_000 + Math.round(7_000_000 * Math.sin(ms / 40)) + random.below(200_000);
    const sent: SmallPacket[] = [];
    const received: SmallPacket[] = [];
    const truth = new Map<bigint, number>();
    for (let n = 0; n < 4000; n++) {
      let ms = n;
      for (let tries = 0; tries < 4; tries++) {
        const delay = delayNs(ms);
        const timeNs = START + BigInt(ms) * 1_000_000n;
        // Every fourth packet changes each time it is sent.
        const id = n % 4 === 0 ? n + 10_000 * (tries + 1) : n;
        sent.push(packet(id, timeNs));
        if (random.float() > 0.33) {
          truth.set(timeNs + BigInt(delay), delay);
          received.push(packet(id, timeNs + BigInt(delay)));
          break;
        }
        ms += Math.ceil(delay / 1e6) + 15 + random.below(200);
      }
    }
    received.sort((a, b) => (a.timeNs < b.timeNs ? -1 : 1));
    const { delays } = await delaysOf([write(sent)], write(received));
    const wrong = delays.filter((d, i) => d !== truth.get(received[i]!.timeNs));
    // First in, first out gave a quarter of them delays that were 15 to 400 ms too long.
    expect(wrong.length / delays.length).toBeLessThan(0.002);
  });

  test("a known difference of the clocks is taken off", async () => {
    const [sent, received] = [[packet(1, START)], [packet(1, START - 3_000_000n)]];
    const { delays } = await delaysOf([write(sent)], write(received), { offsetNs: -4_000_000 });
    expect(delays).toEqual([1e6]);
  });
});
