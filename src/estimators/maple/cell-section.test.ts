import { expect, it } from "vitest";
import { decodeCells, encodeCells } from "./cell-section.ts";
import type { CellSums } from "./cell-table.ts";

const full: CellSums = { baseNs: 500, count: 2, sum: 7n, squares: 29n, minNs: 498, maxNs: 507 };
const empty: CellSums = { baseNs: 900, count: 0, sum: 0n, squares: 0n, minNs: Infinity, maxNs: -Infinity };

it("reads what was written, empty groups among them", () => {
  expect(decodeCells(encodeCells([full, empty]))).toEqual([full, empty]);
  // The centre of an empty group is not written.
  expect(decodeCells(encodeCells([full, empty], true), true)).toEqual([full, { ...empty, baseNs: 500 }]);
});

it("refuses delays that are no numbers, which would make a packet's answer one", () => {
  for (const change of [{ baseNs: Number.NaN }, { minNs: Number.NaN }, { maxNs: Infinity }])
    expect(() => decodeCells(encodeCells([{ ...full, ...change }]))).toThrow(/no numbers/);
});
