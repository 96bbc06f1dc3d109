import fc from "fast-check";
import { expect, test } from "vitest";
import { LargestKept } from "./largest-kept.ts";

test("the largest are kept, the largest first, and of equal ones the first", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 20 })), fc.nat(10), (values, most) => {
      const kept = new LargestKept<number>(most);
      for (const [i, value] of values.entries()) kept.add(value, () => i);
      const slow = values.map((value, i) => ({ value, i })).sort((a, b) => b.value - a.value || a.i - b.i);
      expect(kept.sorted()).toEqual(slow.slice(0, most).map((s) => s.i));
    }),
    { seed: 3 },
  );
});
