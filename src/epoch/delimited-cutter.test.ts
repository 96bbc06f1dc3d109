/** Epochs cut by packets or messages, on links without any: sealed by time, and still with the same packets at both ends. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeBatch, type Row } from "../../tests/support/small-batch.ts";
import { Kernels } from "../base/kernels.ts";
import { pairRecords } from "../collect/pair.ts";
import { createCutter } from "./cutter.ts";
import { DELIMITED_GRID_NS } from "./delimited-cutter.ts";
import type { Cutter, EpochSink } from "./epoch-sink.ts";
import type { EpochBounds } from "./record.ts";

const kernels = new Kernels();
const GRID = DELIMITED_GRID_NS;
const STEP = Number(GRID);
/** A multiple of the grid. */
const ORIGIN = 24_737n * GRID * 1000n;
const HOUR = 3_600_000_000_000n;
const DELIMITED = { mode: "delimited", every: 16 } as const;

interface Epoch {
  epoch: EpochBounds;
  role: "none";
  /** Low words of the digests of its packets. */
  packets: number[];
}

/** A cutter whose epochs are recorded. */
class Recorder {
  readonly cutter: Cutter = createCutter(DELIMITED);
  readonly epochs: Epoch[] = [];
  #open: number[] | null = null;
  #rows: readonly Row[] = [];
  readonly sink: EpochSink = {
    open: () => {
      expect(this.#open).toBeNull();
      this.#open = [];
    },
    rows: (from, to) => {
      for (const row of this.#rows.slice(from, to)) this.#open?.push(row.digest?.[1] ?? -1);
    },
    close: (epoch) => {
      expect(epoch.endNs >= epoch.startNs).toBe(true);
      this.epochs.push({ epoch, role: "none", packets: this.#open ?? [] });
      this.#open = null;
    },
    discard: () => expect.unreachable(),
  };

  take(rows: readonly Row[]): void {
    this.#rows = rows;
    const batch = makeBatch(kernels, rows);
    this.cutter.cut(batch, ORIGIN, this.sink);
    batch.free();
  }

  tick(timeNs: number): void {
    this.cutter.tick?.(ORIGIN + BigInt(Math.floor(timeNs)), this.sink);
  }

  /** In grid steps after the origin. */
  get bounds(): [number, number][] {
    const at = (ns: bigint) => Number(ns - ORIGIN) / STEP;
    return this.epochs.map(({ epoch }) => [at(epoch.startNs), at(epoch.endNs)]);
  }
}

const ordinary = (timeNs: number, n: number): Row => ({ timeNs, digest: [0xffff_0000, n] });
const delimiter = (timeNs: number, n: number): Row => ({ timeNs, digest: [5, n] });

describe("a delimited epoch on an idle link", () => {
  it("is sealed after an empty step of the grid, as are the empty ones that follow, and after an hour none until packets come", () => {
    const one = new Recorder();
    one.take([delimiter(0.25 * STEP, 1), ordinary(0.5 * STEP, 2)]);
    one.tick(1.9 * STEP);
    expect(one.epochs).toHaveLength(1);
    one.tick(2 * STEP);
    expect(one.bounds.slice(1)).toEqual([[0.25, 2]]);
    expect(one.epochs.at(-1)?.packets).toEqual([1, 2]);
    for (let day = 1; day < 10; day++) one.tick(day * 86_400e9);
    expect(one.bounds.slice(2)).toEqual(Array.from({ length: 60 }, (_, i) => [2 + i, 3 + i]));
    // Days later: one empty epoch lies in between, and times are relative to near the first packet.
    one.take([ordinary(20_000.5 * STEP, 3), delimiter(20_000.625 * STEP, 4)]);
    expect(one.bounds.slice(62)).toEqual([
      [62, 20_000],
      [20_000, 20_000.625],
    ]);
    expect(one.epochs.map((e) => e.packets).filter((p) => p.length > 0)).toEqual([[1, 2], [3]]);
    const ids = one.epochs.map((e) => [e.epoch.startId, e.epoch.endId]);
    for (let i = 1; i < ids.length; i++) expect(ids[i]?.[0]).toBe(ids[i - 1]?.[1]);
  });

  it("is cut the same way live and from a file, however batches and ticks fall", () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            gap: fc.oneof(fc.integer({ min: 1, max: 1e9 }), fc.integer({ min: 1, max: 8 * STEP })),
            delimits: fc.boolean(),
            tickAt: fc.double({ min: 0, max: 1, noNaN: true }),
          }),
          { minLength: 1, maxLength: 30 },
        ),
        (steps) => {
          let timeNs = 0;
          const rows = steps.map(({ gap, delimits }, n) =>
            (delimits ? delimiter : ordinary)((timeNs += gap), n + 1),
          );
          const [file, live] = [new Recorder(), new Recorder()];
          file.take(rows);
          rows.forEach((row, i) => {
            const before = rows[i - 1]?.timeNs ?? 0;
            if (i > 0) live.tick(before + (row.timeNs - before) * (steps[i]?.tickAt ?? 0));
            live.take([row]);
          });
          for (const end of [file, live]) end.cutter.finish(end.sink);
          expect(live.epochs).toEqual(file.epochs);
          expect(file.epochs.flatMap((e) => e.packets)).toEqual(rows.map((_, n) => n + 1));
        },
      ),
      { numRuns: 300, seed: 61 },
    );
  });

  it("can be paired: whatever the gaps, delays and lost delimiters, pairs hold the same packets at both ends", () => {
    let idlePaired = 0;
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            gap: fc.oneof(fc.integer({ min: 1, max: 1e9 }), fc.integer({ min: STEP, max: 9 * STEP })),
            delimits: fc.integer({ min: 0, max: 3 }),
            lost: fc.integer({ min: 0, max: 9 }),
          }),
          { minLength: 2, maxLength: 40 },
        ),
        fc.integer({ min: 0, max: 3e9 }),
        fc.integer({ min: -5e9, max: 5e9 }),
        (steps, delayNs, offsetNs) => {
          const [sender, receiver] = [new Recorder(), new Recorder()];
          let timeNs = 10 * STEP;
          const rows = steps.map(({ gap, delimits }, n) =>
            (delimits === 0 ? delimiter : ordinary)((timeNs += gap), n + 1),
          );
          const arrived = rows
            .filter((_, n) => steps[n]?.lost !== 0)
            .map((row) => ({ ...row, timeNs: row.timeNs + delayNs + offsetNs }));
          if (arrived.length === 0) return;
          sender.take(rows);
          receiver.take(arrived);
          // Traffic ends; observation does not.
          for (const end of [sender, receiver]) end.tick(timeNs + 10 * STEP);
          const { pairs } = pairRecords(sender.epochs, receiver.epochs);
          const lost = new Set(rows.flatMap((_, n) => (steps[n]?.lost === 0 ? [n + 1] : [])));
          for (const pair of pairs) {
            const sent = pair.senders.flatMap((e) => e.packets);
            expect(pair.receivers.flatMap((e) => e.packets)).toEqual(sent.filter((n) => !lost.has(n)));
          }
          // From the first common cut to the end of all traffic nothing is left out.
          const seen = new Set(pairs.flatMap((p) => p.senders.flatMap((e) => e.packets)));
          const numbers = rows.map((_, n) => n + 1);
          const first = numbers.find((n) => seen.has(n));
          if (first === undefined) return;
          idlePaired++;
          expect(numbers.filter((n) => n >= first && !seen.has(n))).toEqual([]);
        },
      ),
      { numRuns: 400, seed: 62 },
    );
    expect(idlePaired).toBeGreaterThan(200);
  });
});

describe("a delimited epoch on a slow link", () => {
  it("never gets older than an hour", () => {
    const one = new Recorder();
    const rows = Array.from({ length: 400 }, (_, n) => ordinary(0.25 * STEP + n * 0.5 * STEP, n));
    one.take(rows);
    expect(one.bounds).toEqual([
      [0.25, 52],
      [52, 104],
      [104, 156],
    ]);
    expect(52n * GRID < HOUR).toBe(true);
    one.cutter.finish(one.sink);
    expect(one.epochs.flatMap((e) => e.packets)).toEqual(rows.map((_, n) => n));
  });

  it("is not cut by one timestamp that is far ahead", () => {
    const one = new Recorder();
    one.take([delimiter(1, 1), ordinary(2, 2), ordinary(5e17, 3), ordinary(3, 4), delimiter(4, 5)]);
    expect(one.epochs.map((e) => e.packets)).toEqual([[], [1, 2, 3, 4]]);
  });
});

describe("a delimited cut while kernel memory grows", () => {
  it("knows the delimiter's digest after the taps have taken the rows before it", () => {
    const ids: bigint[] = [];
    const cutter = createCutter(DELIMITED);
    const batch = makeBatch(kernels, [ordinary(1, 1), delimiter(2, 7), ordinary(3, 3), delimiter(4, 9)]);
    cutter.cut(batch, ORIGIN, {
      open: () => {},
      rows: () => {
        kernels.alloc(kernels.memory.buffer.byteLength);
      },
      close: ({ endId }) => ids.push(endId),
      discard: () => expect.unreachable(),
    });
    batch.free();
    expect(ids).toEqual([(5n << 32n) | 7n, (5n << 32n) | 9n]);
  });
});
