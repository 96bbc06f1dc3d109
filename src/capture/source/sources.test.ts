/** Tests sources that do not end by themselves: growing files, rotating files, and their clock while no packets come. */
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, it } from "vitest";
import { pipePacket } from "../../../tests/support/pipe-traffic.ts";
import { pcapHeader } from "../../../tests/support/small-pcap.ts";
import { Kernels } from "../../base/kernels.ts";
import { followCapture, openCaptures } from "./capture-source.ts";
import { LiveClock, PATIENCE_NS } from "./live-clock.ts";
import { followFiles } from "./rotating-files.ts";
import type { Source } from "./source.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-sources-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const START = 1_700_000_000_000_000_000n;
const packets = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => pipePacket(from + i, START + BigInt(from + i) * 1_000_000n));
const capture = (from: number, to: number) => Buffer.concat([pcapHeader(), ...packets(from, to)]);

/** Returns the identifications of the packets in order; they number the packets. */
async function drain(source: Source, out: number[] = []): Promise<number[]> {
  for (let got = await source.next(); got; got = await source.next())
    out.push(...got.batch.ipid.subarray(0, got.batch.count));
  return out;
}
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i);

describe("a file that grows", () => {
  it("is read as it grows, cut anywhere, until the signal ends it; half a packet is no damage then", async () => {
    const file = join(root, "growing.pcap");
    const bytes = capture(0, 50);
    writeFileSync(file, bytes.subarray(0, 30));
    const ending = new AbortController();
    const source = followCapture(new Kernels(), file, { signal: ending.signal });
    const read: number[] = [];
    const drained = drain(source, read);
    for (let at = 30; at < bytes.length - 7; at += 997) {
      appendFileSync(file, bytes.subarray(at, Math.min(at + 997, bytes.length - 7)));
      await sleep(20);
    }
    await expect.poll(() => read.length).toBe(49);
    ending.abort();
    await drained;
    // All but the last packet, of which seven bytes are missing.
    expect(read).toEqual(upTo(49));
    expect(source.statistics()).toMatchObject([{ packets: 49, partial: null }]);
    source.close();
    expect(source.totals()).toMatchObject({ frames: 49 });
  });
});

describe("what is no capture", () => {
  it("is refused while it grows, once its first bytes show it, and not waited at until there is more", async () => {
    const file = join(root, "garbage.pcap");
    writeFileSync(file, "these are the first words of a log that goes on\n");
    const source = followCapture(new Kernels(), file);
    await expect(source.next()).rejects.toThrow(/not a pcap, pcapng or ERF capture/);
    source.close();
  });
});

describe("files that a capture rotates through", () => {
  it.each([
    ["numbered, as of tcpdump -C", ["trace.pcap", "trace.pcap1", "trace.pcap2", "trace.pcap10"]],
    ["named by time, as of -G", ["11-58.pcap", "11-59.pcap", "00-00.pcap", "00-01.pcap"]],
    ["in a ring, as of -W: names are used again", ["t0", "t1", "t0", "t1"]],
  ])("are read one after the other: %s", async (what, names) => {
    const folder = join(root, what.slice(0, 5));
    mkdirSync(folder);
    const ending = new AbortController();
    const source = followFiles(new Kernels(), folder, { signal: ending.signal, pollMs: 10 });
    const read: number[] = [];
    const drained = drain(source, read);
    for (const [i, name] of names.entries()) {
      // Files that are not a capture yet, or never will be, are skipped.
      if (i === 1) writeFileSync(join(folder, "notes"), "hello");
      writeFileSync(join(folder, name), pcapHeader());
      for (const part of [0, 10]) {
        appendFileSync(join(folder, name), Buffer.concat(packets(20 * i + part, 20 * i + part + 10)));
        await sleep(60);
        await expect.poll(() => read.length, { interval: 10 }).toBe(20 * i + part + 10);
      }
    }
    ending.abort();
    await drained;
    expect(read).toEqual(upTo(80));
    expect(source.statistics().map((s) => s.packets)).toEqual([20, 20, 20, 20]);
    expect(source.totals().frames).toBe(80);
    source.close();
  });

  it("are those that match a pattern", async () => {
    const folder = join(root, "pattern");
    mkdirSync(folder);
    for (const [i, name] of ["a1.pcap", "b.pcap", "a2.pcap"].entries())
      writeFileSync(join(folder, name), capture(10 * i, 10 * i + 10));
    const ending = new AbortController();
    const source = followFiles(new Kernels(), join(folder, "a*.pcap"), { signal: ending.signal, pollMs: 10 });
    const read: number[] = [];
    const drained = drain(source, read);
    await expect.poll(() => read.length).toBe(20);
    ending.abort();
    await drained;
    expect(read).toEqual([...upTo(10), ...upTo(30).slice(20)]);
    source.close();
  });
});

describe("captures one after the other", () => {
  it("give back their kernel memory however they end", async () => {
    const kernels = new Kernels();
    const file = join(root, "whole.pcap");
    writeFileSync(file, capture(0, 5000));
    const sizes: number[] = [];
    for (let n = 0; n < 6; n++) {
      const ending = new AbortController();
      const source = openCaptures(kernels, [file, file], { signal: ending.signal });
      await source.next();
      if (n % 2 === 0) ending.abort();
      else await drain(source);
      source.close();
      source.close();
      sizes.push(kernels.memory.buffer.byteLength);
    }
    expect(new Set(sizes.slice(1)).size).toBe(1);
  });
});

describe("the clock of a live stream", () => {
  const clocks = (wallNs: bigint) => {
    const state = { wallNs };
    return { state, clock: new LiveClock(() => state.wallNs) };
  };

  it("moves while nothing comes, behind this host's by the longest lag and some patience", () => {
    const { state, clock } = clocks(START);
    expect(clock.nowNs()).toBeNull();
    clock.arrived(START - 300_000_000n);
    clock.arrived(START - 100_000_000n);
    state.wallNs += 10_000_000_000n;
    expect(clock.nowNs()).toBe(state.wallNs - 300_000_000n - PATIENCE_NS);
  });

  it("follows a host whose clock is minutes off, ahead or behind", () => {
    for (const offsetNs of [-120_000_000_000n, 120_000_000_000n]) {
      const { state, clock } = clocks(START);
      clock.arrived(START + offsetNs);
      state.wallNs += 5_000_000_000n;
      expect(clock.nowNs()).toBe(START + offsetNs + 5_000_000_000n - PATIENCE_NS);
    }
  });

  it("does not exist for a recording, and one outlier timestamp does not create it", () => {
    const { clock } = clocks(START);
    clock.arrived(START - 86_400_000_000_000n);
    expect(clock.nowNs()).toBeNull();
    clock.arrived(START);
    clock.arrived(START + 10n ** 18n);
    expect(clock.nowNs()).toBe(START - PATIENCE_NS);
    for (let n = 0; n < 5; n++) clock.arrived(START - 86_400_000_000_000n);
    expect(clock.nowNs()).toBeNull();
  });

  it("forgets a stall of the pipe after some minutes", () => {
    const { state, clock } = clocks(START);
    clock.arrived(START - 30_000_000_000n);
    for (let n = 0; n < 200; n++) {
      state.wallNs += 1_000_000_000n;
      clock.arrived(state.wallNs);
    }
    expect(clock.nowNs()).toBe(state.wallNs - PATIENCE_NS);
  });
});
