/** The ring of strides between two threads, with both ends in one thread. */
import { describe, expect, test } from "vitest";
import { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "../capture/batch.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import {
  type KeyRuns,
  RUN_BYTES,
  RUNS_HEAD_BYTES,
  RunFinder,
  WIDE_RUN_BYTES,
} from "../capture/flow/key-runs.ts";
import { RingCancelled, RingReader, RingWriter, SLOTS } from "./feed-ring.ts";
import type { StrideRows } from "./pair-feed.ts";

const ROWS = 8;

function filled(kernels: Kernels, salt: number) {
  const batch = new PacketBatch(kernels, ROWS);
  batch.count = ROWS;
  for (let i = 0; i < ROWS; i++) {
    batch.timeNs[i] = salt * 1e6 + i + 0.5;
    batch.digest.set([salt * 100 + i, 0xffff_0000 + i], 2 * i);
    batch.wireLength[i] = 60 + i;
    batch.flags[i] = 0xf000_0040 + i;
    // Two consecutive rows per flow; every third salt makes IPv6 keys.
    batch.meta.set([salt + (i >> 1), (6 | (1 << 28) | (salt % 3 === 2 ? 1 << 27 : 0)) >>> 0], 2 * i);
    for (const column of [batch.addrA, batch.addrB, batch.addrC, batch.addrD])
      column.set([salt, 1000 + (i >> 1)], 2 * i);
  }
  const finder = new RunFinder(kernels, FlowKeySpec.parse("5tuple"), 1n, ROWS);
  return { batch, finder };
}

const strideOf = (batch: PacketBatch, finder: RunFinder, to: number): StrideRows => ({
  kind: "rows",
  side: 0,
  batch,
  runs: finder.find(batch, 0, to),
  from: 0,
  to,
  shorts: 0,
  far: false,
});

/** End row, bytes, hash and key words of each run. */
function wordsOf(kernels: Kernels, runs: KeyRuns): number[][] {
  return Array.from({ length: runs.count }, (_, i) => {
    const at = (runs.address + RUNS_HEAD_BYTES + i * RUN_BYTES) >>> 2;
    const more = (runs.wideAddress + i * WIDE_RUN_BYTES) >>> 2;
    const wide = runs.wide ? [...kernels.u32.subarray(more, more + WIDE_RUN_BYTES / 4)] : [];
    return [...kernels.u32.subarray(at, at + RUN_BYTES / 4), ...wide];
  });
}

/** Both ends of a ring, and the kernels that its reader uses. */
function ends(idle?: (inUse: number) => void) {
  const kernels = new Kernels({ shared: true });
  const reader = new RingReader(kernels, ROWS);
  const writer = new RingWriter(kernels.memory.buffer, reader.address, ROWS, idle);
  return { kernels, reader, writer };
}

describe("the ring of strides", () => {
  test("gives the keys of rows one by one, where they are", () => {
    const here = new Kernels();
    const { reader, writer, kernels: there } = ends();
    for (const salt of [1, 2, 3]) {
      const { batch, finder } = filled(here, salt);
      const runs = finder.findRows(batch, 1, 6);
      writer.writeRows({ ...strideOf(batch, finder, 1), runs: finder.findRows(batch, 1, 6), from: 1, to: 6 });
      const content = reader.read();
      if (content.kind !== "rows") throw new Error("no rows");
      const { perRow, wide, count, code, bytes } = runs;
      // Every third salt makes IPv6 keys: they are in runs.
      expect({ perRow, wide }).toEqual({ perRow: salt !== 2, wide: salt === 2 });
      expect(content.runs).toMatchObject({ perRow, wide, count, code, bytes });
      const words = (kernels: Kernels, { address }: KeyRuns) => [
        ...kernels.u32.subarray(address >>> 2, (address + bytes) >>> 2),
      ];
      expect(words(there, content.runs)).toEqual(words(here, runs));
      reader.release();
    }
  });

  test("gives what was put in, in order, more often than it has slots", () => {
    const here = new Kernels();
    const { reader, writer, kernels: there } = ends();
    for (let n = 0; n < 100; n++) {
      const side = (n % 2) as 0 | 1;
      const { batch, finder } = filled(here, n);
      const rows = n % 7;
      const found = finder.find(batch, 2, 2 + rows);
      writer.writeRows({
        kind: "rows",
        side,
        batch,
        runs: found,
        from: 2,
        to: 2 + rows,
        shorts: n,
        far: n % 5 === 0,
      });
      expect(reader.ready).toBe(true);
      const content = reader.read();
      if (content.kind !== "rows") throw new Error("no rows");
      const { batch: target, runs } = content;
      expect(content).toMatchObject({ side, from: 0, to: rows, shorts: n, far: n % 5 === 0 });
      expect(target.count).toBe(rows);
      expect([...target.timeNs.subarray(0, rows)]).toEqual([...batch.timeNs.subarray(2, 2 + rows)]);
      expect([...target.digest.subarray(0, 2 * rows)]).toEqual([...batch.digest.subarray(4, 4 + 2 * rows)]);
      expect([...target.flags.subarray(0, rows)]).toEqual([...batch.flags.subarray(2, 2 + rows)]);
      expect(runs).toMatchObject({ count: Math.ceil(rows / 2), wide: rows > 0 && n % 3 === 2 });
      const bounds = (kernels: Kernels, { address }: KeyRuns) => [
        ...kernels.f64.subarray(address >>> 3, (address >>> 3) + 2),
      ];
      expect(bounds(there, runs)).toEqual(bounds(here, found));
      // Rows count from the first one of the stride.
      expect(wordsOf(there, runs)).toEqual(wordsOf(here, found));
      expect(wordsOf(there, runs).at(-1)?.[0] ?? 0).toBe(rows);
      reader.release();
    }
    expect(reader.ready).toBe(false);
  });

  test("signals the end of a side and its own end, after everything before them", () => {
    const kernels = new Kernels();
    const { reader, writer } = ends();
    const { batch, finder } = filled(kernels, 1);
    writer.writeRows(strideOf(batch, finder, 3));
    writer.writeEnd(1, 12.5);
    writer.close();
    expect(reader.ended).toBe(false);
    expect(reader.read()).toMatchObject({ kind: "rows", to: 3 });
    reader.release();
    expect(reader.read()).toEqual({ kind: "end", side: 1, lastNs: 12.5 });
    reader.release();
    expect(reader.ended).toBe(true);
    reader.reset();
    expect(reader.ended).toBe(false);
  });

  test("a cancelled ring takes nothing more, and starts again when it is reset", () => {
    const kernels = new Kernels();
    const { reader, writer } = ends();
    const { batch, finder } = filled(kernels, 1);
    const write = () => writer.writeRows(strideOf(batch, finder, 3));
    write();
    reader.cancel();
    expect(write).toThrow(RingCancelled);
    reader.reset();
    expect(reader.ready).toBe(false);
    write();
    expect(reader.ready).toBe(true);
  });

  test("waiting ends where nothing comes, and at once where something is there", () => {
    const { reader, writer } = ends();
    const started = performance.now();
    reader.wait(20);
    expect(performance.now() - started).toBeGreaterThan(10);
    writer.writeEnd(0, null);
    const again = performance.now();
    reader.wait(120_000);
    expect(performance.now() - again).toBeLessThan(60_000);
  });

  test("a writer that has to wait learns how far the reader's memory is in use", () => {
    const reported: number[] = [];
    const { kernels, reader, writer } = ends((inUse) => {
      reported.push(inUse);
      // A slot becomes free meanwhile: no need to sleep.
      reader.release(3 << 20);
    });
    const { batch, finder } = filled(new Kernels(), 1);
    const write = () => writer.writeRows(strideOf(batch, finder, 1));
    for (let n = 0; n < SLOTS; n++) write();
    expect(reported).toEqual([]);
    write();
    write();
    expect(reported).toEqual([0, 3 << 20]);
    expect(kernels.memory.buffer).toBeInstanceOf(SharedArrayBuffer);
  });
});
