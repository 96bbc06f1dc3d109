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
  ipid: n,
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
    const strangers = [40_001, 40_002].map((n) => packet(n, START + BigInt(n)));
    const arrivals = [...received, ...strangers].sort((a, b) => (a.timeNs < b.timeNs ? -1 : 1));
    // The sender's capture in two files.
    const files = [write(sent.slice(0, 1200)), write(sent.slice(1200))];
    const { delays, counts } = await delaysOf(files, write(arrivals));
    expect(delays).toEqual(arrivals.map((p) => truth.get(p.timeNs) ?? Number.NaN));
    expect(counts).toEqual({ matched: received.length, unmatched: 2, reversed: 0 });
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

  test("packets that go the other way are counted, not given negative delays", async () => {
    const sent = [packet(1, START), packet(2, START + 5_000_000n)];
    const received = [
      packet(1, START + 2_000_000n),
      packet(2, START + 4_000_000n),
      packet(3, START + 9_000_000n),
    ];
    const { delays, counts } = await delaysOf([write(sent)], write(received));
    expect(delays).toEqual([2e6, Number.NaN, Number.NaN]);
    // Whether the partner had been read yet depends on the batch: it is reversed or not found, never matched.
    expect(counts.matched).toBe(1);
    expect(counts.unmatched + counts.reversed).toBe(2);
  });

  test("a known difference of the clocks is taken off", async () => {
    const [sent, received] = [[packet(1, START)], [packet(1, START - 3_000_000n)]];
    const { delays } = await delaysOf([write(sent)], write(received), { offsetNs: -4_000_000 });
    expect(delays).toEqual([1e6]);
  });
});
