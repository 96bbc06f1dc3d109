/** The ring of strides between two threads, from both of its ends in one. */
import { describe, expect, test } from "vitest";
import { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "../capture/batch.ts";
import { FeedRing } from "./feed-ring.ts";

const ROWS = 8;

function filled(kernels: Kernels, salt: number) {
  const batch = new PacketBatch(kernels, ROWS);
  const ids = kernels.alloc(ROWS * 4);
  batch.count = ROWS;
  for (let i = 0; i < ROWS; i++) {
    batch.timeNs[i] = salt * 1e6 + i + 0.5;
    batch.digest.set([salt * 100 + i, 0xffff_0000 + i], 2 * i);
    batch.wireLength[i] = 60 + i;
    batch.flags[i] = 0xf000_0040 + i;
    kernels.u32[(ids >>> 2) + i] = salt + i;
  }
  return { batch, ids };
}

describe("the ring of strides", () => {
  test("gives what was put in, in order, more often than it has slots", () => {
    const here = new Kernels();
    const there = new Kernels();
    const writer = new FeedRing(ROWS);
    const reader = new FeedRing(ROWS, writer.buffer);
    const target = new PacketBatch(there, ROWS);
    const ids = there.alloc(ROWS * 4);
    for (let n = 0; n < 100; n++) {
      const side = (n % 2) as 0 | 1;
      const { batch, ids: from } = filled(here, n);
      writer.writeRows(side, batch, from, 2, 2 + (n % 7), n * 10);
      expect(reader.ready).toBe(true);
      const rows = n % 7;
      expect(reader.read(there, target, ids)).toEqual({ kind: "rows", side, rows, flows: n * 10 });
      expect(target.count).toBe(rows);
      expect([...target.timeNs.subarray(0, rows)]).toEqual([...batch.timeNs.subarray(2, 2 + rows)]);
      expect([...target.digest.subarray(0, 2 * rows)]).toEqual([...batch.digest.subarray(4, 4 + 2 * rows)]);
      expect([...target.flags.subarray(0, rows)]).toEqual([...batch.flags.subarray(2, 2 + rows)]);
      expect([...there.u32.subarray(ids >>> 2, (ids >>> 2) + rows)]).toEqual(
        Array.from({ length: rows }, (_, i) => n + 2 + i),
      );
      // Bytes are counted at BEFORE alone.
      if (side === 0) {
        expect([...target.wireLength.subarray(0, rows)]).toEqual([...batch.wireLength.subarray(2, 2 + rows)]);
      }
      reader.release();
    }
    expect(reader.ready).toBe(false);
  });

  test("tells the end of a side and its own end, after everything before them", () => {
    const kernels = new Kernels();
    const ring = new FeedRing(ROWS);
    const { batch, ids } = filled(kernels, 1);
    ring.writeRows(0, batch, ids, 0, 3, 5);
    ring.writeEnd(1);
    ring.close();
    expect(ring.ended).toBe(false);
    expect(ring.read(kernels, batch, ids)).toMatchObject({ kind: "rows", rows: 3 });
    ring.release();
    expect(ring.read(kernels, batch, ids)).toEqual({ kind: "end", side: 1 });
    ring.release();
    expect(ring.ended).toBe(true);
    ring.reset();
    expect(ring.ended).toBe(false);
  });

  test("waiting ends where nothing comes, and at once where something is there", () => {
    const ring = new FeedRing(ROWS);
    const started = performance.now();
    ring.wait(20);
    expect(performance.now() - started).toBeGreaterThan(10);
    ring.writeEnd(0);
    const again = performance.now();
    ring.wait(5000);
    expect(performance.now() - again).toBeLessThan(2500);
  });
});
