/** Tables with given margins, compared with an enumeration of all such tables. */
import { describe, expect, it } from "vitest";
import { Random } from "../../base/random.ts";
import { type Allocation, allocationVariance, fitMargins } from "./allocation.ts";

/** Draws flows of these sizes, each with two or three of the cells, and throws their packets into them at random. */
function drawTable(random: Random, sizes: readonly number[], cells: number) {
  const starts = new Uint32Array(sizes.length + 1);
  const cell: number[] = [];
  const share: number[] = [];
  const truth: number[] = [];
  const counts = new Float64Array(cells);
  for (const [f, size] of sizes.entries()) {
    const own = new Set<number>();
    while (own.size < 3) own.add(random.below(cells));
    const list = [...own];
    const thrown = list.map(() => 0);
    for (let i = 0; i < size; i++) thrown[random.below(list.length)]!++;
    for (const [i, c] of list.entries()) {
      cell.push(c);
      share.push(1 / list.length);
      truth.push(thrown[i]!);
      counts[c]! += thrown[i]!;
    }
    starts[f + 1] = cell.length;
  }
  // Cells without packets have no edges.
  const there = cell.map((c) => counts[c]! > 0);
  const before = (e: number) => there.slice(0, e).filter(Boolean).length;
  const keep = <T>(list: readonly T[]) => list.filter((_, e) => there[e]);
  return {
    starts: starts.map((e) => before(e)),
    cell: Uint32Array.from(keep(cell)),
    share: keep(share),
    truth: keep(truth),
    counts,
  };
}

/** The slow reference: mean and variance of each edge over all tables with these margins, weighted by probability. */
function everyTable({ starts, cell, share, counts }: ReturnType<typeof drawTable>, sizes: readonly number[]) {
  const left = Float64Array.from(counts);
  const table = new Float64Array(cell.length);
  const sums = new Float64Array(cell.length);
  const squares = new Float64Array(cell.length);
  let all = 0;
  const place = (f: number, e: number, open: number, weight: number): void => {
    if (f === sizes.length) {
      if (left.some((n) => n !== 0)) return;
      all += weight;
      for (let i = 0; i < table.length; i++) {
        sums[i]! += weight * table[i]!;
        squares[i]! += weight * table[i]! ** 2;
      }
      return;
    }
    if (e === starts[f + 1]) {
      if (open === 0) place(f + 1, e, sizes[f + 1] ?? 0, weight);
      return;
    }
    const c = cell[e]!;
    // Multinomial probability: share^n / n! for each cell.
    for (let [n, w] = [0, weight]; n <= Math.min(open, left[c]!); w *= share[e]! / ++n) {
      table[e] = n;
      left[c]! -= n;
      place(f, e + 1, open - n, w);
      left[c]! += n;
    }
    table[e] = 0;
  };
  place(0, 0, sizes[0] ?? 0, 1);
  return { mean: sums.map((s) => s / all), variance: squares.map((s, i) => s / all - (sums[i]! / all) ** 2) };
}

const SIZES = [1, 1, 1, 2, 1, 3, 1];
const laid = (table: ReturnType<typeof drawTable>): Allocation => ({
  starts: table.starts,
  cell: table.cell,
  a: Float64Array.from(table.cell, (_, e) => {
    const f = table.starts.findIndex((start, i) => start <= e && e < (table.starts[i + 1] ?? 0));
    return SIZES[f]! * table.share[e]!;
  }),
});

describe("packets of flows in cells, by their margins", () => {
  it("what is certain is true, and what is open lies near the mean over all tables", () => {
    let [certain, off, open, apart, expected] = [0, 0, 0, 0, 0];
    for (let seed = 1; seed <= 60; seed++) {
      const table = drawTable(new Random(`margins ${seed}`), SIZES, 12);
      const { mean, variance } = everyTable(table, SIZES);
      const fitted = laid(table);
      const sure = fitMargins(fitted, SIZES, table.counts);
      for (let e = 0; e < sure.length; e++) {
        if (sure[e] === 1) {
          certain++;
          expect(fitted.a[e]).toBe(table.truth[e]);
          continue;
        }
        open++;
        off += Math.abs(fitted.a[e]! - mean[e]!);
        const f = fitted.starts.findIndex((start, i) => start <= e && e < (fitted.starts[i + 1] ?? 0));
        apart += allocationVariance(fitted.a[e]!, SIZES[f]!, table.counts[fitted.cell[e]!]!);
        expected += variance[e]!;
      }
    }
    expect(certain).toBeGreaterThan(300);
    expect(open).toBeGreaterThan(100);
    expect(off / open).toBeLessThan(0.06);
    expect(apart / expected).toBeGreaterThan(0.8);
    expect(apart / expected).toBeLessThan(1.3);
  });

  it("counts that contradict the sizes leave everything open, and are met as far as they can be", () => {
    const table = { starts: Uint32Array.of(0, 1, 2), cell: Uint32Array.of(0, 1), a: Float64Array.of(1, 1) };
    fitMargins(table, [5, 1], [3, 2]);
    expect([...table.a].every((x) => x >= 0 && Number.isFinite(x))).toBe(true);
    expect(table.a[0]).toBeLessThanOrEqual(5);
  });

  it("the variance of one packet is that of a coin, and there is none where a flow has a cell to itself", () => {
    for (const a of [0.1, 0.5, 0.9]) {
      expect(allocationVariance(a, 1, 1)).toBeCloseTo(a * (1 - a), 9);
      expect(allocationVariance(a, 1, 7)).toBeCloseTo(a * (1 - a), 9);
      expect(allocationVariance(a, 7, 1)).toBeCloseTo(a * (1 - a), 9);
    }
    expect(allocationVariance(5, 5, 5)).toBe(0);
    expect(allocationVariance(1, 1, 1)).toBe(0);
  });
});
