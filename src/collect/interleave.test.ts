import { expect, it } from "vitest";
import { interleave } from "./interleave.ts";

it("takes one of each in turn, and goes on with those that have more", () => {
  const sources = [[1, 2, 3], [], [10], [20, 21]].map((list) => list.values());
  expect([...interleave(sources)]).toEqual([1, 10, 20, 2, 21, 3]);
  expect([...interleave([])]).toEqual([]);
});
