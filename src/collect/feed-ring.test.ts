/** The ring of strides between two threads, from both of its ends in one. */
import { describe, expect, test } from "vitest";
import { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "../capture/batch.ts";
import { FlowKeySpec } from "../capture/flow-key.ts";
import { KeyRuns, RUN_BYTES, RUNS_HEAD_BYTES, RunFinder, WIDE_RUN_BYTES } from "../capture/key-runs.ts";
import { FeedRing, RingCancelled } from "./feed-ring.ts";

const ROWS = 8;

function filled(kernels: Kernels, salt: number) {
  const batch = new PacketBatch(kernels, ROWS);
  batch.count = ROWS;
  for (let i = 0; i < ROWS; i++) {
    batch.timeNs[i] = salt * 1e6 + i + 0.5;
    batch.digest.set([salt * 100 + i, 0xffff_0000 + i], 2 * i);
    batch.wireLength[i] = 60 + i;
    batch.flags[i] = 0xf000_0040 + i;
    // Two rows of a flow follow each other; every third salt makes IPv6 keys.
    batch.meta.set([salt + (i >> 1), (6 | (1 << 28) | (salt % 3 === 2 ? 1 << 27 : 0)) >>> 0], 2 * i);
    for (const column of [batch.addrA, batch.addrB, batch.addrC, batch.addrD])
      column.set([salt, 1000 + (i >> 1)], 2 * i);
  }
  const finder = new RunFinder(kernels, FlowKeySpec.parse("5tuple"), 1n, ROWS);
  return { batch, finder };
}

/** End row, bytes, hash and key words of each run. */
function wordsOf(kernels: Kernels, runs: KeyRuns): number[][] {
  return Array.from({ length: runs.count }, (_, i) => {
    const at = (runs.address + RUNS_HEAD_BYTES + i * RUN_BYTES) >>> 2;
    const more = (runs.wideAddress + i * WIDE_RUN_BYTES) >>> 2;
    const wide = runs.wide ? [...kernels.u32.subarray(more, more + WIDE_RUN_BYTES / 4)] : [];
    return [...kernels.u32.subarray(at, at + RUN_BYTES / 4), ...wide];
  });
}

describe("the ring of strides", () => {
  test("gives what was put in, in order, more often than it has slots", () => {
    const here = new Kernels();
    const there = new Kernels();
    const writer = new FeedRing(ROWS);
    const reader = new FeedRing(ROWS, writer.buffer);
    const target = new PacketBatch(there, ROWS);
    const runs = new KeyRuns(there, ROWS);
    for (let n = 0; n < 100; n++) {
      const side = (n % 2) as 0 | 1;
      const { batch, finder } = filled(here, n);
      const rows = n % 7;
      const found = finder.find(batch, 2, 2 + rows);
      writer.writeRows(side, batch, found, 2, 2 + rows, n);
      expect(reader.ready).toBe(true);
      expect(reader.read(there, target, runs)).toEqual({ kind: "rows", side, rows, shorts: n });
      expect(target.count).toBe(rows);
      expect([...target.timeNs.subarray(0, rows)]).toEqual([...batch.timeNs.subarray(2, 2 + rows)]);
      expect([...target.digest.subarray(0, 2 * rows)]).toEqual([...batch.digest.subarray(4, 4 + 2 * rows)]);
      expect([...target.flags.subarray(0, rows)]).toEqual([...batch.flags.subarray(2, 2 + rows)]);
      expect(runs).toMatchObject({ count: Math.ceil(rows / 2), wide: rows > 0 && n % 3 === 2 });
      const bounds = (kernels: Kernels, { address }: KeyRuns) => [
        ...kernels.f64.subarray(address >>> 3, (address >>> 3) + 2),
      ];
      expect(bounds(there, runs)).toEqual(bounds(here, found));
      // Rows count from the stride's first one on.
      expect(wordsOf(there, runs)).toEqual(wordsOf(here, found).map(([end, ...key]) => [end! - 2, ...key]));
      reader.release();
    }
    expect(reader.ready).toBe(false);
  });

  test("tells the end of a side and its own end, after everything before them", () => {
    const kernels = new Kernels();
    const ring = new FeedRing(ROWS);
    const { batch, finder } = filled(kernels, 1);
    ring.writeRows(0, batch, finder.find(batch, 0, 3), 0, 3, 0);
    ring.writeEnd(1, 12.5);
    ring.close();
    expect(ring.ended).toBe(false);
    expect(ring.read(kernels, batch, finder.runs)).toMatchObject({ kind: "rows", rows: 3 });
    ring.release();
    expect(ring.read(kernels, batch, finder.runs)).toEqual({ kind: "end", side: 1, lastNs: 12.5 });
    ring.release();
    expect(ring.ended).toBe(true);
    ring.reset();
    expect(ring.ended).toBe(false);
  });

  test("a cancelled ring takes nothing more, and begins anew when it is reset", () => {
    const kernels = new Kernels();
    const ring = new FeedRing(ROWS);
    const { batch, finder } = filled(kernels, 1);
    const write = () => ring.writeRows(0, batch, finder.find(batch, 0, 3), 0, 3, 0);
    write();
    ring.cancel();
    expect(write).toThrow(RingCancelled);
    ring.reset();
    expect(ring.ready).toBe(false);
    write();
    expect(ring.ready).toBe(true);
  });

  test("waiting ends where nothing comes, and at once where something is there", () => {
    const ring = new FeedRing(ROWS);
    const started = performance.now();
    ring.wait(20);
    expect(performance.now() - started).toBeGreaterThan(10);
    ring.writeEnd(0, null);
    const again = performance.now();
    ring.wait(5000);
    expect(performance.now() - again).toBeLessThan(2500);
  });
});
